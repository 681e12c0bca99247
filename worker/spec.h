/*
 * Makes the backend's specification of a sandbox from the supervisor's OPEN.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_SPEC_H
#define CLOISTER_WORKER_SPEC_H

#include "common/err.h"
#include "proto/msg.h"
#include "worker/backend/backend.h"

/* Copies what OPEN says; the other fields (id, directories, agent, progress) are the caller's.
 * -ERR_INVALID for a reach that makes no sense; nothing is kept then. */
int spec_take(struct backend_spec *spec, const struct msg_open *m, struct err *err) WARN_UNUSED;

/* Frees what spec_take() copied. One that it never filled is fine. */
void spec_drop(struct backend_spec *spec);

#endif
