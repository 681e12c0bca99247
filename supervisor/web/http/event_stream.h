/*
 * Server-sent events as MCP uses them: frames, ids, and the events of a stream that are kept for a
 * client that lost the connection and comes back.
 *
 * An id is "<stream>-<event>", both decimal; streams are numbered within a session, events within a
 * stream from 1 on. Event 0 is the priming event, which only gives the client an id to come back
 * with.
 *
 * Thread: any, one owner at a time. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_EVENT_STREAM_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_EVENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct event_id {
    uint64_t stream, event;
};

/* What a client sends as Last-Event-ID: false if we cannot have given it. */
bool event_id_parse(const char *text, struct event_id *ret);

/* One event, to be freed; `data` has no newline in it. name NULL: "message"; id NULL: none. NULL
 * (and *ret_len 0) when memory is out. */
char *event_frame(const char *name, const struct event_id *id, const char *data, size_t *ret_len);

/* The event that gives the first id, and says how soon to come back. */
char *event_priming_frame(const struct event_id *id, uint64_t retry_ms, size_t *ret_len);

/* A comment: clients skip it, and see that we are there. */
char *event_heartbeat_frame(size_t *ret_len);

/* ---- what is kept --------------------------------------------------------------------------- */

struct event {
    STAILQ_ENTRY(event) node;
    uint64_t number;
    size_t len;
    char data[];
};

struct event_log {
    STAILQ_HEAD(event_list, event) events;
    size_t bytes; /* of all of them, with what they cost around their text */
};

void event_log_init(struct event_log *log);

/* What keeping this text adds to `bytes`. */
size_t event_log_cost(const char *data);

/* Copies. False if there is no memory for it. */
bool event_log_add(struct event_log *log, uint64_t number, const char *data);

/* Forgets the oldest; false if there is none. */
bool event_log_drop_first(struct event_log *log);

/* Whether one of the events after `number` says exactly this. */
bool event_log_has(const struct event_log *log, uint64_t number, const char *data);

/* The first event after `number`, NULL if there is none. */
const struct event *event_log_after(const struct event_log *log, uint64_t number);

#endif
