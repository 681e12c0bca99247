/*
 * One life of one worker: its process, its socket, the requests to it, and how it ended.
 *
 * Every generation has a link and a socket of its own, so an answer can never come from an older
 * life. A link starts with worker_link_start(), becomes ready with HELLO, and always ends with the
 * `dead` callback, whatever went wrong; the owner then destroys it.
 *
 * Loop thread only; nothing blocks; no callback runs inside the call that causes it, except that
 * pending requests are failed before `dead`.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_LINK_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "proto/msg.h"
#include "supervisor/fleet/workers/spawn.h"

struct fleet_host;
struct worker_link;

/* How a worker's life ended. Borrowed during the callback. */
struct worker_death {
    int exit_code;      /* -1 if it did not exit by itself */
    bool said_hello;    /* it had been ready */
    bool other_version; /* it refused our protocol version: it belongs to another build */
    const char *reason;
};

/* rc 0: `reply` is of the type that answers the request. rc < 0: the worker refused, *err tells why
 * and hint (may be "") what to do. rc < 0 and err NULL: there will be no answer, because the worker
 * is dying and `dead` follows (or, STATUS only, because it took too long). */
typedef void (*worker_reply_fn)(void *arg, int rc, const struct msg *reply, const struct err *err,
                                const char *hint);

struct worker_link_events {
    void (*ready)(void *arg);
    void (*tick)(void *arg); /* about once a second while requests are unanswered; may be NULL */
    void (*dead)(void *arg, const struct worker_death *death); /* the last callback */
};

/* Listens, then spawns. On error nothing is left behind. */
int worker_link_start(struct fleet_host *host, const struct worker_args *args,
                      const struct worker_link_events *events, void *arg, struct worker_link **ret,
                      struct err *err) WARN_UNUSED;

/* The same for a worker that an earlier server started, which dials its socket by itself. One
 * that does not say hello within TIME_ADOPT_MS is killed. Errors as worker_watch(). */
int worker_link_adopt(struct fleet_host *host, const struct worker_args *args, int pid,
                      uint64_t start_time, const struct worker_link_events *events, void *arg,
                      struct worker_link **ret, struct err *err) WARN_UNUSED;

/* Sends a request; its seq is chosen here. `done` is called exactly once unless this fails.
 * A worker that has not answered after timeout_ms (0: no limit) is killed (not for STATUS); one
 * that is dead or hangs is found much earlier. */
int worker_link_ask(struct worker_link *link, struct msg *request, uint64_t timeout_ms,
                    worker_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

bool worker_link_is_ready(const struct worker_link *link);

/* It has been killed, lost or retired: `dead` will come without further doing. */
bool worker_link_is_ending(const struct worker_link *link);
int worker_link_pid(const struct worker_link *link);

/* Ends this life by force; the reason is what `dead` and the log will say. Only the first counts.
 */
void worker_link_kill(struct worker_link *link, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The worker is about to exit, by its word or ours: it may take this long for that. */
void worker_link_retire(struct worker_link *link, uint64_t exit_ms);

/* Not expendable any more: it has done what it was started for, and ends in order. */
void worker_link_keep(struct worker_link *link);

/* Hangs up and lets the process live, for the next server; requests are failed inside as before a
 * death. `dead` does not come any more; the link destroys itself. */
void worker_link_abandon(struct worker_link *link);

/* Inside or after `dead` only. */
void worker_link_destroy(struct worker_link *link);

/* Asks all that are expendable to end what they are doing; their `dead` follows. */
void worker_link_stop_expendable(struct fleet_host *host);

/* Kills every worker there is. */
void worker_link_kill_all(struct fleet_host *host, const char *reason);

#endif
