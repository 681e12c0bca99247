/*
 * Executions: what became of the code that clients began, whoever still waits for it.
 *
 * One registry per fleet, reachable as host->executions. An execution is known from executions_
 * begin() (or adopt) on, follows one call to its end, and keeps the outcome afterwards, within
 * EXECUTIONS_KEPT and EXECUTIONS_BYTES for all of them; the one that ended first goes first.
 *
 * Private to the calls; see fleet.h for what clients may expect. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALLS_EXECUTIONS_H
#define CLOISTER_SUPERVISOR_CALLS_EXECUTIONS_H

#include "supervisor/fleet/fleet.h"

#define EXECUTIONS_KEPT 256 /* ended ones, of all owners, ... */
#define EXECUTIONS_PER_SANDBOX                                                                     \
    24 /* ... and so many more per sandbox allowed: as many as a server may have to take over */
#define EXECUTIONS_BYTES (64u << 20) /* of their output and other texts, all in all */

struct executions;
struct fleet_host;
struct sandbox;

struct executions *executions_create(struct fleet_host *host);

/* Forgets everything; `closed` comes later. Nothing may run any more and nobody wait. */
void executions_close(struct executions *x, void (*closed)(void *arg), void *arg);

/* Begins to run code in s. */
void executions_begin(struct executions *x, struct sandbox *s, const struct fleet_op *op,
                      char ret_id[FLEET_ID_SIZE]);

/* An execution that could not begin: whoever waits for it first is told why, and it is forgotten.
 */
void executions_refuse(struct executions *x, const char *owner, const struct err *err,
                       const char *hint, char ret_id[FLEET_ID_SIZE]);

/* Takes over what an earlier server began in s and the agent still knows. What is known already, or
 * no execution, is left alone. */
void executions_adopt(struct executions *x, struct sandbox *s, const struct msg_op_info *info);

/* All that an earlier server left is known: what is still waited for does not exist. While
 * host->adopting, executions that are not known may still turn up, and so are waited for. */
void executions_adopted(struct executions *x);

/* The rest as fleet_await() and so on. */
struct fleet_await *executions_await(struct executions *x, const char *owner, const char *id,
                                     uint64_t wait_ms, fleet_outcome_fn done, void *arg);
void executions_await_output(struct fleet_await *await, uint64_t every_ms, fleet_output_fn output);
void executions_await_end(struct fleet_await *await);
int executions_stop(struct executions *x, const char *owner, const char *id,
                    struct err *err) WARN_UNUSED;
bool executions_has(struct executions *x, const char *owner, const char *id);
void executions_list(struct executions *x, const char *owner, const char *sandbox,
                     void (*each)(void *arg, const struct fleet_outcome *outcome), void *arg);

#endif
