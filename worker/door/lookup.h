/*
 * Looks names up on libuv's threads, for several who ask for one at the same time only once.
 *
 * Thread: the loop's. Nothing blocks; `done` is never called inside the call that takes it.
 */
#ifndef CLOISTER_WORKER_DOOR_LOOKUP_H
#define CLOISTER_WORKER_DOOR_LOOKUP_H

#include <uv.h>

#include "common/net/authority.h"

/* uv_getaddrinfo(), or what a test has in its place. */
typedef int (*door_resolve_fn)(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done,
                               const char *host, const char *port, const struct addrinfo *hints);

/* status: 0, or an error of libuv. found: borrowed during the call. */
typedef void (*door_found_fn)(void *arg, int status, const struct addrinfo *found);

struct door_lookup;

struct door_lookups {
    uv_loop_t *loop;
    door_resolve_fn resolve;
    struct door_lookup *first; /* under way: as many as there are names at most */
};

/* Who waits, in the memory of whoever asks. */
struct door_asker {
    struct door_asker *next;
    struct door_lookup *lookup; /* NULL: it does not wait */
    door_found_fn done;
    void *arg;
};

void door_lookups_init(struct door_lookups *all, uv_loop_t *loop, door_resolve_fn resolve);

/* Returns 0, or an error of libuv; then `done` is not called. */
int door_lookups_ask(struct door_lookups *all, const struct authority *name,
                     struct door_asker *asker, door_found_fn done, void *arg);

/* Waits no longer, if it does. */
void door_asker_leave(struct door_asker *asker);

/* Nobody waits any more. What is under way goes on in its thread, since nothing can interrupt it,
 * and then frees itself. */
void door_lookups_finish(struct door_lookups *all);

#endif
