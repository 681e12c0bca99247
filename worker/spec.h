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

/* Reads into the spec where the engine of this backend is, also for PROBE and SWEEP; spec_drop()
 * frees it. -ERR_PROTOCOL if that is no place, -ERR_INVALID if the backend has no engine. */
int spec_take_place(struct backend_spec *spec, struct view backend, struct view_list place,
                    struct err *err) WARN_UNUSED;

/* Copies what OPEN says; the other fields (id, directories, agent, progress) are the caller's.
 * -ERR_INVALID for a reach that makes no sense, else as spec_take_place(); nothing is kept then. */
int spec_take(struct backend_spec *spec, const struct msg_open *m, struct err *err) WARN_UNUSED;

/* Frees what was copied. One that was never filled is fine. */
void spec_drop(struct backend_spec *spec);

#endif
