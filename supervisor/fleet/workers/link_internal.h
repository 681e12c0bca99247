/*
 * What link.c (the life of a link) and request.c (its requests) share.
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
#include "common/kernel/waited.h"
#include "common/sm.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/workers/link.h"

/* In the order of a life: a link never returns to an earlier state. */
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
    worker_reply_fn done; /* NULL: failed already */
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
    uint64_t seq;
    TAILQ_HEAD(, link_request) requests;
    size_t unanswered; /* number of requests without answer, except PINGs */
    bool pinging;
    bool adopted; /* an earlier server started it */
    bool said_hello;
    bool other_version;
    bool retired; /* it was asked to exit */
    bool down;    /* the link was up, and was lost */
    bool overdue; /* and it has not exited since, within EXIT_MS */
    bool reaped;
    int exit_code;   /* -1 unless it exited by itself */
    int exit_signal; /* 0: not ended by a signal */
    bool expendable;
    uint64_t heard_ms;
    uint64_t heartbeat_ms; /* when it last fired */
    bool suspect;          /* it has been silent for some heartbeats */
    uint64_t began_ms;
    struct waited waited; /* until it says hello, and while it is suspect */
    uv_timer_t heartbeat;
    uv_timer_t patience; /* the time limit of the state */
    char reason[256];    /* of the death; "" while alive */
    unsigned closing;    /* handles and ipc that are not closed yet */
};

/* ---- link.c ---- */

/* All requests are answered, and no more replies can come. */
void link_drained(struct worker_link *link);

/* ---- request.c ---- */

/* Starts the heartbeat if a request is unanswered. */
void link_start_heartbeat(struct worker_link *link);

/* Fails all unanswered requests. */
void link_fail_requests(struct worker_link *link);

#endif
