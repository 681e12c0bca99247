/*
 * Stdin for a call that runs: one INPUT after the other, each exactly once.
 *
 * Private to the calls. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_INPUT_H
#define CLOISTER_SUPERVISOR_CALLS_INPUT_H

#include <stdbool.h>
#include <sys/queue.h>

#include "supervisor/fleet/fleet.h"

struct fleet_call;
struct fleet_host;
struct call_input;

/* What a call has of it. */
struct call_inputs {
    TAILQ_HEAD(, call_input) waiting; /* in their order; the first may be asked */
    size_t count;
    uint64_t next; /* bytes that the agent has taken in all … */
    bool known;    /* … if that is known: an earlier server may have written some */
};

void call_inputs_init(struct call_inputs *inputs, bool known);

/* Writes to the call's stdin: now, or when its sandbox can take it. */
void call_input(struct fleet_call *call, const struct fleet_input *in, fleet_input_fn done,
                void *arg);

/* Answers with an error, in the next turn of the loop. */
void call_input_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                       fleet_input_fn done, void *arg);

/* Says why an execution takes no input any more: it has ended, or is left to the next server.
 * Returns the hint. */
const char *call_input_over(bool left, struct err *err);

/* Sends the next one if the sandbox can take it now. */
void call_inputs_ask(struct fleet_call *call);

/* Called about once a second: refuses what has waited as long as a call may, later. */
void call_inputs_check(struct fleet_call *call);

/* The call has ended: what waits is answered with an error, soon. */
void call_inputs_end(struct fleet_call *call);

#endif
