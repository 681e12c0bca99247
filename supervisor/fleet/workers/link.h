/*
 * One life of one worker: its process, its socket, its requests, and its end.
 *
 * Each generation has its own link and socket, so a reply never comes from an older life. A link
 * starts with worker_link_start(), becomes ready with HELLO, and always ends with the `dead`
 * callback; then the owner destroys it.
 *
 * Loop thread only; nothing blocks; no callback runs inside the call that causes it, except that
 * pending requests fail before `dead`.
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
    bool said_hello;    /* it had become ready */
    bool other_version; /* it refused our protocol version: another build */
    const char *reason;
};

/* rc 0: `reply` has the type that answers the request. rc < 0: the worker refused; *err says why,
 * and hint (may be "") what to do. rc < 0 and err NULL: there is no answer, because the worker is
 * dying and `dead` follows (or, for STATUS only, because it took too long). */
typedef void (*worker_reply_fn)(void *arg, int rc, const struct msg *reply, const struct err *err,
                                const char *hint);

struct worker_link_events {
    void (*ready)(void *arg);
    void (*tick)(void *arg); /* about once a second while a request is unanswered; may be NULL */
    void (*dead)(void *arg, const struct worker_death *death); /* the last callback */
};

/* Listens, then starts the process. On error nothing is left. */
int worker_link_start(struct fleet_host *host, const struct worker_args *args,
                      const struct worker_link_events *events, void *arg, struct worker_link **ret,
                      struct err *err) WARN_UNUSED;

/* The same for a worker of an earlier server, which dials its socket by itself. If no HELLO arrives
 * within TIME_ADOPT_MS, it is killed. Errors as worker_watch(). */
int worker_link_adopt(struct fleet_host *host, const struct worker_args *args, int pid,
                      uint64_t start_time, const struct worker_link_events *events, void *arg,
                      struct worker_link **ret, struct err *err) WARN_UNUSED;

/* Sends a request and chooses its seq. `done` is called exactly once unless this fails. A worker
 * that has not answered after timeout_ms (0: no limit) is killed (except for STATUS); a dead or
 * hung one is detected much earlier. */
int worker_link_ask(struct worker_link *link, struct msg *request, uint64_t timeout_ms,
                    worker_reply_fn done, void *arg, struct err *err) WARN_UNUSED;

bool worker_link_is_ready(const struct worker_link *link);

/* Whether it was killed, lost or retired: `dead` will come by itself. */
bool worker_link_is_ending(const struct worker_link *link);
int worker_link_pid(const struct worker_link *link);

/* Kills the worker. The reason is given to `dead` and logged; only the first one counts. */
void worker_link_kill(struct worker_link *link, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Starts an orderly end: the worker will exit, at its own or our request, within exit_ms. */
void worker_link_retire(struct worker_link *link, uint64_t exit_ms);

/* Makes it no longer expendable: it has done its task, and ends in order. */
void worker_link_keep(struct worker_link *link);

/* Closes the link but leaves the process alive, for the next server. Requests fail first, as before
 * a death. `dead` is not called; the link destroys itself. */
void worker_link_abandon(struct worker_link *link);

/* Inside or after `dead` only. */
void worker_link_destroy(struct worker_link *link);

/* Asks all expendable workers to end what they are doing; their `dead` follows. */
void worker_link_stop_expendable(struct fleet_host *host);

/* Kills all workers. */
void worker_link_kill_all(struct fleet_host *host, const char *reason);

#endif
