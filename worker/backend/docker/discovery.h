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

/* `named` is the text form or a DOCKER_HOST value, or "" to search. TLS variables apply to
 * DOCKER_HOST only; `named` contains everything. Never fails: an unusable place has a problem, with
 * ERR_CONFIG if something must be corrected, or ERR_ENGINE if no process listens there. Usual
 * sockets that do not exist are left out; if none exists, the list has /var/run/docker.sock with
 * that problem. */
void docker_discovery_find(const char *named, docker_getenv_fn get, void *arg,
                           struct docker_discovery *ret);
void docker_discovery_finish(struct docker_discovery *places);

#endif
