/*
 * The questions of one request or task to its client, in rounds; a round is over when all its
 * questions are answered. How questions travel is not known here.
 *
 * On the wire each question has a key that is used once in the life of the request; the handler
 * sees its own keys.
 *
 * Thread: one owner. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_ROUND_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_ROUND_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INPUT_ROUNDS     8          /* a handler that asks more often runs in circles */
#define INPUT_TIME_MS    600000     /* people answer within this, or not at all */
#define INPUT_KEPT_BYTES (1u << 20) /* of answers, until the round is whole */

struct input_round {
    cJSON *open;     /* unanswered: {key on the wire: {method, params}}; NULL: none */
    cJSON *answers;  /* of this round: {key of the handler: result} */
    size_t bytes;    /* approximate size of the answers */
    unsigned minted; /* keys used so far */
    unsigned count;  /* rounds so far */
    uint64_t deadline_ms;
};

/* A zeroed struct is a round that has not begun. */
void input_round_finish(struct input_round *r);

/* Takes the requests ({key: {method, params}}); false if there have been INPUT_ROUNDS. */
bool input_round_begin(struct input_round *r, cJSON *requests, uint64_t now_ms);

/* What became of an answer. The functions below take ownership of the result. */
enum input_taken {
    INPUT_TAKEN,
    INPUT_UNKNOWN,  /* no such question is open: ignored */
    INPUT_TOO_MUCH, /* more than may be kept: ignored */
};
enum input_taken input_round_answer(struct input_round *r, const char *key, cJSON *result);

/* Whether questions were asked and all of them are answered. */
bool input_round_is_whole(const struct input_round *r);

/* Returns the answers for the handler; ends the round. */
cJSON *input_round_take(struct input_round *r);

/* Approximate memory of a value. */
size_t input_weight(const cJSON *value);

#endif
