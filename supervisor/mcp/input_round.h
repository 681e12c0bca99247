/*
 * What a handler has asked of the client inside one request or task: rounds of questions, each
 * over when all of it has been answered. Knows nothing of how questions travel.
 *
 * On the wire a question has a key of ours, which is used once in the life of the request; the
 * handler sees its own keys again. Thread: one owner. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_ROUND_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_ROUND_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INPUT_ROUNDS     8          /* a handler that asks more often goes in circles */
#define INPUT_TIME_MS    600000     /* people answer within this, or not at all */
#define INPUT_KEPT_BYTES (1u << 20) /* of answers, while others of the round are awaited */

struct input_round {
    cJSON *open;     /* {key on the wire: {method, params}}: not answered yet. NULL: none */
    cJSON *answers;  /* {key of the handler: result} of this round */
    size_t bytes;    /* of the answers, about */
    unsigned minted; /* keys so far */
    unsigned count;  /* rounds so far */
    uint64_t deadline_ms;
};

/* All zeroes is a round that has not begun. */
void input_round_finish(struct input_round *r);

/* Takes the requests ({key: {method, params}}); false if there have been INPUT_ROUNDS. */
bool input_round_begin(struct input_round *r, cJSON *requests, uint64_t now_ms);

/* What is given for a key on the wire. Both take the result. */
enum input_taken {
    INPUT_TAKEN,
    INPUT_UNKNOWN,  /* no such question is open: ignored */
    INPUT_TOO_MUCH, /* more than may be kept: ignored */
};
enum input_taken input_round_answer(struct input_round *r, const char *key, cJSON *result);

/* True if nothing is open (and something was asked). */
bool input_round_is_whole(const struct input_round *r);

/* The answers, for the handler; the round is over. */
cJSON *input_round_take(struct input_round *r);

/* Roughly how much memory a value takes. */
size_t input_weight(const cJSON *value);

#endif
