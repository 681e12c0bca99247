/*
 * The door of a sandbox without network: what its programs say to their agent's port comes here as
 * channels of messages, and is let out to the places of its rules and to no others.
 *
 * The agent is hostile until proven otherwise: what it sends beyond its credit, or of channels that
 * there cannot be, is malformed; what a program sends is a request like that to any proxy.
 *
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_DOOR_DOOR_H
#define CLOISTER_WORKER_DOOR_DOOR_H

#include <uv.h>

#include "common/err.h"
#include "proto/msg.h"
#include "worker/door/lookup.h"
#include "worker/door/rules.h"

struct door;

struct door_setup {
    uv_loop_t *loop;
    const char *sandbox;            /* for the log; borrowed for the life of the door, as … */
    const struct door_rules *rules; /* … these */
    /* Sends to the agent, or fails for good: then door_cut() follows, but not from inside. */
    void (*post)(void *arg, const struct msg *m);
    void *arg;
    door_resolve_fn resolve; /* NULL: uv_getaddrinfo() */
};

struct door *door_create(const struct door_setup *setup);

/* A message of the agent, a DOOR_*; borrowed. -ERR_PROTOCOL if it is malformed. */
int door_take(struct door *d, const struct msg *m, struct err *err) WARN_UNUSED;

/* The stream is lost, and with it all channels; on the next one they begin anew. */
void door_cut(struct door *d);

/* Frees; then calls `closed`, possibly at once. NULL is fine, and not called back for. */
void door_destroy(struct door *d, void (*closed)(void *arg), void *arg);

#endif
