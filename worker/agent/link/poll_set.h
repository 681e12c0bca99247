/*
 * The descriptors of one round of poll(2). A caller that waits for a descriptor asks for a slot
 * before the round and reads it afterwards. Thread: the agent has one.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_POLL_SET_H
#define CLOISTER_WORKER_AGENT_LINK_POLL_SET_H

#include <assert.h>
#include <poll.h>
#include <stddef.h>

#include "proto/limits.h"

/* Connections of code that wants packages, also of what is still asking, or leaving. */
#define INSTALL_CLIENTS (2 * LIMIT_INSTALLS)

/* listener, signals, links, six of each interpreter, four of each program, two of each file
 * operation; two other listeners, and their connections */
#define POLL_SET_MAX                                                                               \
    (2 + 1 + LIMIT_AGENT_PENDING + 6 * 4 + 4 * LIMIT_PROGRAMS + 2 * LIMIT_OPS + 1 +                \
     INSTALL_CLIENTS + 1 + LIMIT_DOOR_CHANNELS)

struct poll_set {
    struct pollfd fds[POLL_SET_MAX];
    size_t count;
};

/* Holds the index plus one, so that a zeroed slot means "none". */
struct poll_slot {
    size_t number;
};

static inline void poll_set_clear(struct poll_set *set)
{
    set->count = 0;
}

/* No slot for fd -1. With events 0 the slot still shows POLLERR and POLLHUP. */
static inline struct poll_slot poll_set_add(struct poll_set *set, int fd, short events)
{
    struct poll_slot slot = {0};
    if (fd >= 0) {
        assert(set->count < POLL_SET_MAX);
        set->fds[set->count] = (struct pollfd){.fd = fd, .events = events};
        slot.number = ++set->count;
    }
    return slot;
}

static inline short poll_set_got(const struct poll_set *set, struct poll_slot slot)
{
    return slot.number > 0 ? set->fds[slot.number - 1].revents : 0;
}

#endif
