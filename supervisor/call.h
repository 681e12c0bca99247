/*
 * One operation in flight: it is started once, followed through any number of workers, and
 * answered once.
 *
 * Private to the fleet. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_CALL_H
#define CLOISTER_SUPERVISOR_CALL_H

#include "supervisor/sandbox.h"

/* Begins an operation in s, or makes it wait until s is ready. */
struct fleet_call *call_begin(struct sandbox *s, const struct fleet_op *op, fleet_outcome_fn done,
                              void *arg);

/* A call that belongs to no sandbox: it is answered with the error, later. */
struct fleet_call *call_refuse(struct fleet_host *host, const struct err *err, const char *hint,
                               fleet_outcome_fn done, void *arg);

/* Asks for the operation to be stopped. */
void call_cancel(struct fleet_call *call);

/* The sandbox has a worker (again): all its calls go on. */
void call_resume_all(struct sandbox *s);

/* About once a second: what should have been over by now? */
void call_check_all(struct sandbox *s);

/* Answer all calls of s, inside. */
void call_fail_all(struct sandbox *s, const struct err *err, const char *hint);
void call_cancel_all(struct sandbox *s);

#endif
