/*
 * The common part of client and server: the queue from nng's threads to the loop, the one peer, and
 * closing. Internal to ipc_*.c, the only files that use nng.
 *
 * Thread: the loop, unless stated. Nothing blocks, unless stated.
 */
#ifndef CLOISTER_COMMON_IO_IPC_ENDPOINT_H
#define CLOISTER_COMMON_IO_IPC_ENDPOINT_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>
#include <uv.h>

#include "common/err.h"
#include "common/io/ipc.h"
#include "common/io/loop.h"

#define IPC_HEADER_ROOM 64 /* nng counts its own headers as part of a message */
#define IPC_URL_SIZE    (sizeof(((struct sockaddr_un *)0)->sun_path) + 8)

enum ipc_event_kind {
    IPC_EVENT_LINK_UP,
    IPC_EVENT_LINK_DOWN,
    IPC_EVENT_AIO,   /* a call or request that nng has completed */
    IPC_EVENT_CLOSED /* the socket is gone */
};

/* First member of every object that is queued for the loop. */
struct ipc_event {
    struct loop_item item; /* first */
    enum ipc_event_kind kind;
};

enum ipc_closer {
    IPC_CLOSER_IDLE,
    IPC_CLOSER_RUNNING,
    IPC_CLOSER_DONE, /* its work is done; it only exits */
    IPC_CLOSER_JOINED,
    IPC_CLOSER_GIVEN_UP
};

struct ipc_endpoint;

struct ipc_endpoint_ops {
    void (*on_aio)(struct ipc_endpoint *ep, struct ipc_event *event);
    void (*on_link)(struct ipc_endpoint *ep, bool up); /* of the link; may be NULL */
    /* Ends the link so that nng can close the socket. Called on the closing thread; may block. */
    void (*end_link)(struct ipc_endpoint *ep);
    bool (*is_idle)(struct ipc_endpoint *ep); /* true if nng has no pending operation */
    /* Frees the members, but not the object. Called on the last thread that uses it. */
    void (*finish)(struct ipc_endpoint *ep);
    void (*abandon)(struct ipc_endpoint *ep); /* ends pending calls, frees nothing; may be NULL */
};

/* First member of a client or server, and freed as such. */
struct ipc_endpoint {
    struct loop_queue queue;
    uv_timer_t timer; /* for the client or server until ipc_endpoint_close() */
    const struct ipc_endpoint_ops *ops;
    nng_socket socket;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    ipc_link_fn on_link;
    void *arg;
    size_t max_bytes;
    ipc_closed_fn closed;
    void *closed_arg;
    pthread_t thread;
    struct ipc_event thread_event;
    unsigned handles_left;

    /* Protected by the queue's lock, because other threads read them. */
    int pipe;          /* the one peer, 0 if none */
    bool pipe_settled; /* nng has completed its arrival */
    bool pipe_reported;
    bool reached; /* there has been a peer */
    bool closing; /* written on the loop only, which may read it without the lock */
    enum ipc_closer closer;
    bool thread_back, handles_closed; /* of an abandoned endpoint: the later one frees */
    uv_cond_t changed;                /* wakes the closing thread after a change of these */
};

/* "ipc://<path>" into url (IPC_URL_SIZE bytes). -ERR_TOO_BIG if no socket address can hold it. */
int ipc_endpoint_url(const char *path, char *url, struct err *err) WARN_UNUSED;

/* Nothing needs to be undone after an error. */
int ipc_endpoint_init(struct ipc_endpoint *ep, uv_loop_t *loop, const char *path, size_t max_bytes,
                      const struct ipc_endpoint_ops *ops, struct err *err) WARN_UNUSED;

/* Sets the options of both kinds of socket before they listen or dial; `cb` gets pipe events. */
int ipc_endpoint_set_up(struct ipc_endpoint *ep, nng_pipe_cb cb);

int ipc_endpoint_failed(struct err *err, int rv, const char *what, const char *path);

void ipc_endpoint_lock(struct ipc_endpoint *ep);
void ipc_endpoint_unlock(struct ipc_endpoint *ep, bool wake);

/* Any thread. Records the one peer and reports the link at the event `report_at`. Returns true if
 * there is a peer already, so that this pipe must be closed. */
bool ipc_endpoint_take_pipe(struct ipc_endpoint *ep, nng_pipe pipe, nng_pipe_ev ev,
                            nng_pipe_ev report_at) WARN_UNUSED;

/* Link events are not reported any more. */
void ipc_endpoint_set_closing(struct ipc_endpoint *ep, ipc_closed_fn closed, void *arg);

/* Ends link and socket on the closing thread; the last step of closing a client or server. */
void ipc_endpoint_close(struct ipc_endpoint *ep);

/* Called after each operation of a closing endpoint; goes on when it was the last. */
void ipc_endpoint_check_closed(struct ipc_endpoint *ep);

/* On the closing thread. Waits with the lock held for up to 1 ms, less if something changes. */
void ipc_endpoint_wait_moment(struct ipc_endpoint *ep);

#endif
