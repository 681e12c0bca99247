/*
 * What handlers of the latest revision want to find again when the client repeats its request with
 * answers. The client sees only a random name; a name that is not in this table, or was given for
 * something else, is worth nothing.
 *
 * A name may be used more than once in its time: the client may have to repeat a request whose
 * answer got lost. `now_ms` is monotonic. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_STATES_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_STATES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define INPUT_STATES           1024 /* of all principals; the oldest goes first */
#define INPUT_STATES_EACH      256  /* of one */
#define INPUT_STATE_BYTES      (64u << 10)
#define INPUT_STATE_TIME_MS    600000
#define INPUT_STATE_NAME_CHARS 26 /* 130 random bits */

struct input_state;
struct input_states {
    struct input_state *first, *last; /* oldest first */
    size_t count;
};

/* All zeroes is an empty one. */
void input_states_finish(struct input_states *s);

/* Takes the value. *ret_name is borrowed from the table. */
int input_states_put(struct input_states *s, const char *owner, uint64_t binding, cJSON *value,
                     uint64_t now_ms, const char **ret_name, struct err *err) WARN_UNUSED;

/* Borrowed; NULL if there is none of this name, for this owner and binding. */
const cJSON *input_states_find(const struct input_states *s, const char *owner, uint64_t binding,
                               const char *name, uint64_t now_ms);

void input_states_expire(struct input_states *s, uint64_t now_ms);

/* When the next one is to be forgotten; UINT64_MAX: there is none. */
uint64_t input_states_due(const struct input_states *s);

/* What a request asks for, so that answers to one question cannot be used for another: its method
 * and its params, without what differs between the rounds, in any order of members. */
uint64_t input_binding(const char *method, const cJSON *params);

#endif
