/*
 * The way out of a sandbox without network: what programs say to one port of its loopback is passed
 * on to the worker, which decides where to.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_DOOR_DOORWAY_H
#define CLOISTER_WORKER_AGENT_DOOR_DOORWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"
#include "worker/agent/link/poll_set.h"

enum doorway_phase {
    DOORWAY_NONE,    /* a free place */
    DOORWAY_SILENT,  /* connected, and has said nothing: the worker knows nothing of it */
    DOORWAY_OPEN,    /* a channel */
    DOORWAY_LEAVING, /* the worker has closed it: what is left is written, and then nothing */
};

struct doorway_client {
    enum doorway_phase phase;
    int fd;
    uint64_t channel;
    bool said_all;     /* the program has closed its end, which the worker knows */
    bool shut;         /* we have closed ours */
    uint64_t may_send; /* credit that the worker has given */
    uint64_t may_come; /* credit that we have given */
    uint64_t taken;    /* bytes that the program has taken, and the worker does not know of */
    struct buf out;    /* bytes for the program */
    struct poll_slot slot;
};

/* The link to the worker; there may be none. */
struct doorway_link {
    bool (*has_room)(void *arg); /* and is there */
    /* may lose the link, and then calls doorway_cut() */
    void (*send)(void *arg, const struct msg *m);
    void *arg;
};

struct doorway {
    int listen_fd; /* owned; -1: there is no door */
    struct doorway_link link;
    uint64_t last_channel; /* of this link */
    struct doorway_client clients[LIMIT_DOOR_CHANNELS];
    struct poll_slot listen_slot;
};

/* Listens at that port of loopback, 0 for any. */
int doorway_listen(uint16_t port, int *ret_fd, struct err *err) WARN_UNUSED;

void doorway_init(struct doorway *d, int listen_fd, struct doorway_link link);
void doorway_finish(struct doorway *d);

void doorway_poll(struct doorway *d, struct poll_set *set);
void doorway_handle(struct doorway *d, const struct poll_set *set);

/* A message of the worker. -ERR_PROTOCOL if it is none for a door, or more than was asked for. */
int doorway_take(struct doorway *d, const struct msg *m, struct err *err) WARN_UNUSED;

/* The link is gone, and with it every channel. */
void doorway_cut(struct doorway *d);

#endif
