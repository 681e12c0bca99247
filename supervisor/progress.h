/*
 * Progress notifications of one request: to a client that gave a token, in rising numbers, and not
 * too often.
 * Thread: any, one owner at a time. Nothing here blocks.
 */
#ifndef CLOISTER_SUPERVISOR_PROGRESS_H
#define CLOISTER_SUPERVISOR_PROGRESS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

struct fleet_progress;

#define PROGRESS_EVERY_MS 500

struct progress {
    char *token; /* JSON text; NULL: the client does not want to know */
    bool with_message;
    bool sent;
    uint64_t sent_ms;
    double value; /* of the latest notification */
};

/* Reads the token from the params of a request, which may be NULL. `with_message`: the revision
 * knows that member. */
void progress_init(struct progress *p, const cJSON *params, bool with_message);
void progress_finish(struct progress *p);

/* The notification that tells the client so, owned by the caller (free); NULL if it is not to be
 * told, or was told less than PROGRESS_EVERY_MS before now_ms (monotonic). */
char *progress_tell(struct progress *p, const struct fleet_progress *news, uint64_t now_ms);

#endif
