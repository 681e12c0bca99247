/*
 * States that handlers of the latest revision keep until the client repeats its request with the
 * answers. The client sees only a random name. A name that is not in the table, or that was given
 * for another request, is refused.
 *
 * A name may be used more than once while it lives: the client may have to repeat a request whose
 * answer was lost. `now_ms` is monotonic. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_STATES_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_STATES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define INPUT_STATES           1024 /* of all principals; the oldest is evicted */
#define INPUT_STATES_EACH      256  /* of one principal */
#define INPUT_STATE_BYTES      (64u << 10)
#define INPUT_STATE_TIME_MS    600000
#define INPUT_STATE_NAME_CHARS 26 /* 130 random bits */

struct input_state;
struct input_states {
    struct input_state *first, *last; /* oldest first */
    size_t count;
};

/* A zeroed struct is an empty table. */
void input_states_finish(struct input_states *s);

/* Takes ownership of the value. *ret_name is borrowed from the table. */
int input_states_put(struct input_states *s, const char *owner, uint64_t binding, cJSON *value,
                     uint64_t now_ms, const char **ret_name, struct err *err) WARN_UNUSED;

/* Borrowed. NULL if this owner has no state of this name and binding. */
const cJSON *input_states_find(const struct input_states *s, const char *owner, uint64_t binding,
                               const char *name, uint64_t now_ms);

void input_states_expire(struct input_states *s, uint64_t now_ms);

/* When the next state expires; UINT64_MAX: the table is empty. */
uint64_t input_states_due(const struct input_states *s);

/* A hash of a request's method and params, without what differs between rounds, and independent of
 * the order of members. Answers to one question therefore cannot be used for another. */
uint64_t input_binding(const char *method, const cJSON *params);

#endif
