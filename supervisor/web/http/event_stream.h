/*
 * Server-sent events as MCP uses them: frames, ids, and a log of a stream's events for a client
 * that reconnects.
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

/* Parses a Last-Event-ID. False if no id of ours looks like that. */
bool event_id_parse(const char *text, struct event_id *ret);

/* Writes an id as event_id_parse() reads it. */
#define EVENT_ID_SIZE 44 /* two numbers of 20 digits, "-" and NUL */
void event_id_write(const struct event_id *id, char ret[EVENT_ID_SIZE]);

/* Makes one event; the caller frees it. `data` and `id` have no newline in them. name NULL:
 * "message"; id NULL: none. Returns NULL (and *ret_len 0) when memory is out. */
char *event_frame(const char *name, const char *id, const char *data, size_t *ret_len);

/* Makes the priming event: it gives the client its first id and the delay before it reconnects. */
char *event_priming_frame(const struct event_id *id, uint64_t retry_ms, size_t *ret_len);

/* Makes a comment: clients skip it, and see that the server is alive. */
char *event_heartbeat_frame(size_t *ret_len);

/* ---- the log of kept events ------------------------------------------------------------------ */

struct event {
    STAILQ_ENTRY(event) node;
    uint64_t number;
    size_t len;
    char data[];
};

struct event_log {
    STAILQ_HEAD(event_list, event) events;
    size_t bytes; /* of all kept events, with the overhead around their texts */
};

void event_log_init(struct event_log *log);

/* What keeping this text adds to `bytes`. */
size_t event_log_cost(const char *data);

/* Copies `data`. False if there is no memory for it. */
bool event_log_add(struct event_log *log, uint64_t number, const char *data);

/* Drops the oldest event; false if the log is empty. */
bool event_log_drop_first(struct event_log *log);

/* Whether one of the events after `number` has exactly this text. */
bool event_log_has(const struct event_log *log, uint64_t number, const char *data);

/* The first event after `number`, NULL if there is none. */
const struct event *event_log_after(const struct event_log *log, uint64_t number);

#endif
