/*
 * Netlink sockets of user code. The filter of a program (filter.h) stops where one is asked for,
 * and its keeper makes the socket, if there are not too many in the sandbox.
 *
 * Thread: the agent and its keepers have one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_NETLINK_H
#define CLOISTER_WORKER_AGENT_PROCESS_NETLINK_H

#include <stdbool.h>

#include "common/err.h"

/* What a keeper has of it. */
struct netlink {
    int listener_fd; /* owned; -1: nobody asks */
    unsigned most;   /* sockets in this sandbox */
    unsigned waits;  /* how often somebody has waited for room since there was some */
    bool full;       /* somebody waits now */
};

/* False if the kernel has nothing for this; the filter then lets user code make the sockets. */
bool netlink_is_bounded(void);

/* How many there are in this network now; UINT_MAX if that is not known. */
unsigned netlink_count(void);

/* The program gives the listener of its filter to its keeper; both are connected by the socket. */
int netlink_hand_over(int socket_fd, int listener_fd, struct err *err) WARN_UNUSED;

/* Takes it; without one nobody asks. `others` are in this network, but none of user code. */
void netlink_take(struct netlink *n, int socket_fd, unsigned others);

/* What to wait for: for the descriptor (-1: for none), and so long (-1: for ever). */
int netlink_poll_fd(const struct netlink *n);
int netlink_wait_ms(const struct netlink *n);

/* The descriptor has had these events, or the time is over. */
void netlink_handle(struct netlink *n, short events);

#endif
