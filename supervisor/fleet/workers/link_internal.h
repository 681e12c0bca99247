/*
 * The inside of a link, shared by link.c (its life) and request.c (what is asked over
 * it), and by nothing else.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_LINK_INTERNAL_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_LINK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/buf.h"
#include "common/io/ipc.h"
#include "common/sm.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/workers/link.h"

/* In the order of a life: whatever is at or behind a state has been there or will not be any more.
 */
enum link_state {
    LINK_STARTING,
    LINK_READY,
    LINK_LEAVING,
    LINK_DYING,
    LINK_DEAD,
    LINK_STATE_COUNT,
};

extern const struct sm_state link_states[LINK_STATE_COUNT];

struct link_request {
    TAILQ_ENTRY(link_request) node;
    struct worker_link *link;
    enum msg_type type;
    uint64_t seq;
    worker_reply_fn done; /* NULL: has been failed already */
    void *arg;
};

struct worker_link {
    TAILQ_ENTRY(worker_link) node; /* host->links */
    struct fleet_host *host;
    struct worker_link_events events;
    void *arg;
    struct sm sm; /* of link_states */
    char sandbox[FLEET_ID_SIZE];
    char *socket;
    uint64_t generation;
    int pid;
    struct ipc_client *ipc;
    struct worker_process *process;
    struct buf scratch;
    uint64_t seq;
    TAILQ_HEAD(, link_request) requests;
    size_t unanswered; /* of them, without PINGs */
    bool pinging;
    bool adopted; /* started by an earlier server */
    bool said_hello;
    bool other_version;
    bool retired; /* it was told to go */
    bool down;    /* there has been a link, and it was lost */
    bool reaped;
    int exit_code;   /* -1 until it has exited by itself */
    int exit_signal; /* 0: not ended by one */
    bool expendable;
    uint64_t heard_ms;
    uint64_t beat_ms;
    uv_timer_t beat;     /* heartbeat */
    uv_timer_t patience; /* the state's own time limit */
    char reason[256];    /* of the death; "" while alive */
    unsigned closing;    /* handles and ipc that are still to close */
};

/* ---- link.c ---- */

/* All requests are answered, and nothing more can come. */
void link_drained(struct worker_link *link);

/* ---- request.c ---- */

/* If somebody waits, the worker has to give signs of life from now on. */
void link_start_beat(struct worker_link *link);

/* Tells all who wait that there will be no answer. */
void link_fail_requests(struct worker_link *link);

#endif
