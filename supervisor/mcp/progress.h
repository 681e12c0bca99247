/*
 * Progress notifications of one request: to a client that gave a token, in rising numbers, not too
 * often and not too seldom.
 * Thread: any, one owner at a time. Nothing here blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_PROGRESS_H
#define CLOISTER_SUPERVISOR_MCP_PROGRESS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define PROGRESS_EVERY_MS     500
#define PROGRESS_HEARTBEAT_MS 10000 /* clients give up after a minute of silence or so */

struct progress {
    char *token; /* JSON text; NULL: the client does not want to know */
    bool with_message;
    bool told, sent;  /* by who works on it; that or a repetition */
    uint64_t told_ms; /* the latest of each; at first when the request came */
    uint64_t sent_ms;
    double value, total;
    char *message; /* NULL: none */
};

/* Reads the token from the params of a request, which may be NULL. `with_message`: the revision
 * knows that member. */
void progress_init(struct progress *p, const cJSON *params, bool with_message, uint64_t now_ms);
void progress_finish(struct progress *p);

/* False: the client does not want to know, or was told less than PROGRESS_EVERY_MS before now_ms
 * (monotonic). */
bool progress_is_due(const struct progress *p, uint64_t now_ms);

/* The notification that tells the client so, owned by the caller (free); NULL if it gave no token.
 * total <= 0: unknown. `message` may be any bytes; NULL: none. */
char *progress_tell(struct progress *p, double value, double total, const char *message,
                    uint64_t now_ms);

/* What was told last, once more, if that is nearly PROGRESS_HEARTBEAT_MS ago: the next look must
 * come within look_ms. NULL: it is not. */
char *progress_repeat(struct progress *p, uint64_t look_ms, uint64_t now_ms);

#endif
