/*
 * A frame is made whole, in one allocation that the exchange takes over. Its JSON is one line and
 * fits one `data:` line: some clients read streams line by line and would not join several.
 *
 * A log keeps texts rather than frames, because ids follow from an event's position.
 */
#include "supervisor/web/http/event_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/str.h"

#define FRAME_EXTRA 96 /* "id: ", "event: ", "retry: " and its number, "data: ", line ends */

/* ---- ids ------------------------------------------------------------------------------------ */

bool event_id_parse(const char *text, struct event_id *ret)
{
    char stream[24];
    const char *dash = strchr(text, '-');
    struct event_id id;
    struct err err = ERR_INIT;
    if (dash == NULL || (size_t)(dash - text) >= sizeof(stream)) {
        return false;
    }
    memcpy(stream, text, (size_t)(dash - text));
    stream[dash - text] = '\0';
    if (str_to_u64(stream, 0, UINT64_MAX, &id.stream, &err) < 0 ||
        str_to_u64(dash + 1, 0, UINT64_MAX, &id.event, &err) < 0) {
        return false;
    }
    *ret = id;
    return true;
}

/* ---- frames --------------------------------------------------------------------------------- */

void event_id_write(const struct event_id *id, char ret[EVENT_ID_SIZE])
{
    snprintf(ret, EVENT_ID_SIZE, "%" PRIu64 "-%" PRIu64, id->stream, id->event);
}

char *event_frame(const char *name, const char *id, const char *data, size_t *ret_len)
{
    const char *event = name != NULL ? name : "message";
    size_t size = strlen(event) + (id != NULL ? strlen(id) : 0) + strlen(data) + FRAME_EXTRA;
    char *frame = malloc(size);
    *ret_len = 0;
    if (frame == NULL) {
        return NULL;
    }
    int n = 0;
    if (id != NULL) {
        n = snprintf(frame, size, "id: %s\n", id);
    }
    n += snprintf(frame + n, size - (size_t)n, "event: %s\ndata: %s\n\n", event, data);
    *ret_len = (size_t)n;
    return frame;
}

char *event_priming_frame(const struct event_id *id, uint64_t retry_ms, size_t *ret_len)
{
    char text[EVENT_ID_SIZE];
    char *frame = malloc(FRAME_EXTRA + EVENT_ID_SIZE);
    *ret_len = 0;
    if (frame != NULL) {
        event_id_write(id, text);
        int n = snprintf(frame, FRAME_EXTRA + EVENT_ID_SIZE,
                         "id: %s\nretry: %" PRIu64 "\ndata: \n\n", text, retry_ms);
        *ret_len = (size_t)n;
    }
    return frame;
}

char *event_heartbeat_frame(size_t *ret_len)
{
    char *frame = strdup(":\n\n");
    *ret_len = frame != NULL ? strlen(frame) : 0;
    return frame;
}

/* ---- the log of kept events ------------------------------------------------------------------ */

void event_log_init(struct event_log *log)
{
    STAILQ_INIT(&log->events);
    log->bytes = 0;
}

size_t event_log_cost(const char *data)
{
    return sizeof(struct event) + strlen(data) + 1;
}

bool event_log_add(struct event_log *log, uint64_t number, const char *data)
{
    size_t len = strlen(data);
    struct event *e = malloc(sizeof(*e) + len + 1);
    if (e == NULL) {
        return false;
    }
    e->number = number;
    e->len = len;
    memcpy(e->data, data, len + 1);
    STAILQ_INSERT_TAIL(&log->events, e, node);
    log->bytes += sizeof(*e) + len + 1;
    return true;
}

bool event_log_drop_first(struct event_log *log)
{
    struct event *e = STAILQ_FIRST(&log->events);
    if (e == NULL) {
        return false;
    }
    STAILQ_REMOVE_HEAD(&log->events, node);
    log->bytes -= sizeof(*e) + e->len + 1;
    free(e);
    return true;
}

bool event_log_has(const struct event_log *log, uint64_t number, const char *data)
{
    for (const struct event *e = event_log_after(log, number); e != NULL;
         e = STAILQ_NEXT(e, node)) {
        if (strcmp(e->data, data) == 0) {
            return true;
        }
    }
    return false;
}

const struct event *event_log_after(const struct event_log *log, uint64_t number)
{
    const struct event *e;
    STAILQ_FOREACH(e, &log->events, node)
    {
        if (e->number > number) {
            return e;
        }
    }
    return NULL;
}
