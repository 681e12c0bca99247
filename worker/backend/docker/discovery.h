/*
 * Lists the places of a Docker Engine: first as the docker command would look, then the usual
 * sockets.
 *
 * A configured place (an explicit one, DOCKER_HOST, DOCKER_CONTEXT, the current context) is used
 * alone, because no other engine is wanted then. The usual sockets are listed only without a
 * configured place.
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

/* One place: an endpoint to try, or a problem. */
struct docker_place {
    struct docker_endpoint endpoint; /* all NULL but origin when `problem` is set */
    struct err problem; /* code 0: usable so far; text for people, to be read after the origin */
};

struct docker_discovery {
    struct docker_place items[DOCKER_ENDPOINTS_MAX];
    size_t count;
    bool configured; /* the engine was named: a failure ends the search */
};

/* Reads an environment variable; tests pass their own function. */
typedef const char *(*docker_getenv_fn)(void *arg, const char *name);

/* `named`: where the engine is, as somebody wrote it (the text form or a DOCKER_HOST value) or a
 * probe found it, or PLACE_NONE to look around. Variables for TLS belong to DOCKER_HOST; what is
 * named says all of it. Never fails: a place that is no good says why, with
 * -ERR_CONFIG if something must be corrected, -ERR_ENGINE if nobody listens there now. Usual
 * sockets that do not exist are left out; if none does, the list holds /var/run/docker.sock with
 * the problem that it does not exist. */
void docker_discovery_find(const struct place *named, docker_getenv_fn get, void *arg,
                           struct docker_discovery *ret);
void docker_discovery_finish(struct docker_discovery *places);

#endif
