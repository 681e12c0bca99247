/*
 * Progress notifications of one request, for a client that gave a token: rising numbers, at limited
 * intervals.
 *
 * Thread: any, one owner at a time. Nothing here blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_PROGRESS_H
#define CLOISTER_SUPERVISOR_MCP_PROGRESS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_EVERY_MS     500
#define PROGRESS_HEARTBEAT_MS 10000 /* clients give up after about a minute of silence */

struct progress {
    char *token; /* JSON text; NULL: the client wants no progress */
    bool with_message;
    bool told, sent;  /* told: reported by the handler; sent: that, or a repetition */
    uint64_t told_ms; /* when each happened last; initially the time of the request */
    uint64_t sent_ms;
    double value, total;
    char *message; /* NULL: none */
};

/* Reads the token from the params of a request, which may be NULL. `with_message`: the revision
 * knows the member "message". */
void progress_init(struct progress *p, const cJSON *params, bool with_message, uint64_t now_ms);
void progress_finish(struct progress *p);

/* False if the client wants no progress, or was notified less than PROGRESS_EVERY_MS before now_ms
 * (monotonic). */
bool progress_is_due(const struct progress *p, uint64_t now_ms);

/* Makes a notification; the caller frees it. NULL if the client gave no token. total <= 0: unknown.
 * `message` may be any bytes; NULL: none. */
char *progress_tell(struct progress *p, double value, double total, const char *message,
                    uint64_t now_ms);

/* Repeats the latest notification if the silence would exceed PROGRESS_HEARTBEAT_MS before the next
 * call, look_ms from now. NULL: not yet. */
char *progress_repeat(struct progress *p, uint64_t look_ms, uint64_t now_ms);

#endif
