/*
 * Where a Docker Engine may be found, in the order in which the docker command would look, and what
 * is usual on people's machines after that.
 *
 * Configured places (an explicit one, DOCKER_HOST, DOCKER_CONTEXT, the current context) are taken
 * alone: somebody who names an engine does not want another. Only when nothing is configured are
 * the usual sockets listed.
 *
 * Thread: any. Reads small files; no network.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_DISCOVERY_H
#define CLOISTER_WORKER_BACKEND_DOCKER_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "worker/backend/docker/endpoint.h"

#define DOCKER_ENDPOINTS_MAX 16

/* One place that was looked at: an endpoint to try, or why there is none. */
struct docker_place {
    struct docker_endpoint endpoint; /* all NULL but origin when `problem` is set */
    struct err problem; /* code 0: usable so far; text for people, to be read after the origin */
};

struct docker_discovery {
    struct docker_place items[DOCKER_ENDPOINTS_MAX];
    size_t count;
    bool configured; /* somebody named the engine: a failure is an error, not a reason to go on */
};

/* What is read of the environment, so that tests need not change their own. */
typedef const char *(*docker_getenv_fn)(void *arg, const char *name);

/* `named` is the text form or a DOCKER_HOST value, or "" to look around. Variables for TLS belong
 * to DOCKER_HOST; what is named says all of it. Never fails: a place that is no good says why, with
 * -ERR_CONFIG if something must be corrected, -ERR_ENGINE if nobody listens there now. Usual
 * sockets that do not exist are left out; if none does, the list holds /var/run/docker.sock with
 * the problem that it does not exist. */
void docker_discovery_find(const char *named, docker_getenv_fn get, void *arg,
                           struct docker_discovery *ret);
void docker_discovery_finish(struct docker_discovery *places);

#endif
