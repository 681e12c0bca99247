/*
 * Executions: code that clients started and its outcome, whether or not anybody waits.
 *
 * One registry per fleet, reachable as host->executions. An execution is known from
 * executions_begin() (or adopt) on, follows one call to its end, and then keeps the outcome, within
 * EXECUTIONS_KEPT and EXECUTIONS_BYTES for all of them; the one that ended first is dropped first.
 *
 * Private to the calls; fleet.h says what callers may expect. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_EXECUTIONS_H
#define CLOISTER_SUPERVISOR_CALLS_EXECUTIONS_H

#include "supervisor/fleet/fleet.h"

#define EXECUTIONS_KEPT        256 /* ended ones, of all owners, ... */
#define EXECUTIONS_PER_SANDBOX 24  /* ... and for each allowed sandbox, as all may be adopted */
#define EXECUTIONS_BYTES       (64u << 20) /* of output and other texts of all */

struct executions;
struct fleet_host;
struct sandbox;

struct executions *executions_create(struct fleet_host *host);

/* Frees everything; `closed` is called later. Nothing may run and nobody may wait. */
void executions_close(struct executions *x, void (*closed)(void *arg), void *arg);

/* Starts to run code in s. */
void executions_begin(struct executions *x, struct sandbox *s, const struct fleet_op *op,
                      char ret_id[FLEET_ID_SIZE]);

/* Makes an execution that could not start: its first wait gets the reason, then it is freed. */
void executions_refuse(struct executions *x, const char *owner, const struct err *err,
                       const char *hint, char ret_id[FLEET_ID_SIZE]);

/* Takes over an execution that an earlier server started in s and the agent still knows. Known
 * ones, and operations that are no execution, are left alone. */
void executions_adopt(struct executions *x, struct sandbox *s, const struct msg_op_info *info);

/* All executions of an earlier server are known, so expected ones do not exist. While
 * host->adopting, unknown executions are expected. */
void executions_adopted(struct executions *x);

/* As fleet_input() and fleet_told(). */
void executions_input(struct executions *x, const char *owner, const char *id,
                      const struct fleet_input *in, fleet_input_fn done, void *arg);
void executions_told(struct executions *x, const char *owner, const char *id, uint64_t out_bytes,
                     uint64_t err_bytes);

/* As fleet_await_quiet(). */
void executions_await_quiet(struct fleet_await *w, uint64_t quiet_ms);

/* The others as fleet_await() and so on. */
struct fleet_await *executions_await(struct executions *x, const char *owner, const char *id,
                                     uint64_t wait_ms, fleet_outcome_fn done, void *arg);
void executions_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output);
void executions_await_end(struct fleet_await *await);
int executions_stop(struct executions *x, const char *owner, const char *id,
                    struct err *err) WARN_UNUSED;
const char *executions_owner(struct executions *x, const char *id);
bool executions_has(struct executions *x, const char *owner, const char *id);
void executions_list(struct executions *x, const char *owner, const char *sandbox,
                     void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg);

#endif
