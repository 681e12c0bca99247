/*
 * Finds an engine and its properties.
 *
 * Thread: the loop thread. Nothing blocks but reading small files. The callback never runs inside
 * the call that takes it.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_PROBE_H
#define CLOISTER_WORKER_BACKEND_DOCKER_PROBE_H

#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"
#include "worker/backend/docker/engine.h"
#include "worker/backend/task.h"

struct docker_probe;

struct docker_probe_result {
    struct backend_probe probe; /* as the vtable reports it */
    struct docker_engine engine;
    struct docker_api *api; /* connection to the engine, now the receiver's; NULL if none */
};

/* Borrowed during the call, but for api. */
typedef void (*docker_probe_fn)(void *arg, const struct docker_probe_result *result);

/* Copied by docker_probe_start(). */
struct docker_probe_wish {
    const struct place *place;    /* of the engine, PLACE_NONE to look for it */
    const char *runtime;          /* an OCI runtime that it must have, "" for any */
    const char *image;            /* one that it should have or be able to fetch, "" for none */
    bool pull;                    /* whether it may fetch that */
    struct backend_limits limits; /* as in a spec, like the next two */
    const char *io_device;
    uint64_t packages_bytes;
    bool sweep; /* also remove what dead servers left there */
};

struct docker_probe *docker_probe_start(uv_loop_t *loop, const struct docker_probe_wish *wish,
                                        docker_probe_fn fn, void *arg);

/* No callback follows; `closed` is called when nothing of it is on the loop any more. */
void docker_probe_cancel(struct docker_probe *p, void (*closed)(void *arg), void *arg);

#endif
