/*
 * Creating a sandbox, up to the first stream to its agent.
 *
 * Thread: the loop thread. Nothing blocks but reading the agent. Callbacks never run inside the
 * call that takes them.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_CREATE_H
#define CLOISTER_WORKER_BACKEND_E2B_CREATE_H

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/e2b/agent.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/e2b/host.h"
#include "worker/backend/e2b/service.h"

struct e2b_create;

/* What a creation made; borrowed but for `fd` and `envd`, which are the receiver's. */
struct e2b_made {
    const struct e2b_box *box;
    struct e2b_host *envd; /* the daemon; NULL if it has not come to that; also on failure */
    int fd;                /* the first stream; -1 on failure */
};

/* On failure nothing is left behind as far as the service could be reached. The object is gone at
 * the callback. */
typedef void (*e2b_create_fn)(void *arg, int rc, const struct e2b_made *made, const struct err *err,
                              const char *hint);

struct e2b_create_in {
    struct tasks *tasks;
    struct e2b_host *api;
    const struct e2b_service *service;
    const struct backend_spec *spec;
    uint64_t ttl_s; /* how long the sandbox is to live from the moment it is known */
};

/* Everything `in` points to must stay valid until the end. */
struct e2b_create *e2b_create_start(const struct e2b_create_in *in, const struct e2b_agent *agent,
                                    e2b_create_fn done, void *arg);

/* Ends it early: `done` follows with -ERR_SHUTTING_DOWN when all is removed. */
void e2b_create_cancel(struct e2b_create *c);

/* No callback follows. Returns the daemon's host, which is to be closed; NULL if there is none.
 * NULL is fine. Only after the tasks are closed. */
struct e2b_host *e2b_create_free(struct e2b_create *c);

#endif
