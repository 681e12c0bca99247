/*
 * A copy of a backend_spec that outlives the call.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_SPEC_COPY_H
#define CLOISTER_WORKER_BACKEND_SPEC_COPY_H

#include "common/err.h"
#include "worker/backend/backend.h"

/* Limits with zeros replaced by the defaults of a sandbox. */
struct backend_limits spec_copy_limits(const struct backend_limits *asked);

/* A copy of a spec that outlives the call: zero limits are filled in, NULL strings become "". */
struct spec_copy {
    struct backend_spec spec;
    struct view *env;
};

/* -ERR_INVALID if the id or a directory cannot be used. */
int spec_copy_init(struct spec_copy *r, const struct backend_spec *spec,
                   struct err *err) WARN_UNUSED;
void spec_copy_finish(struct spec_copy *r);

#endif
