/*
 * The protocol demands that progress numbers rise. Our counts restart with each step of a long job,
 * or are unknown. Then the number rises by one, which is nothing beside a count of bytes, and the
 * message says what is going on. A total that no longer fits is left out.
 *
 * After a long silence the latest message is repeated with a number that is a tiny bit larger, so
 * that even many repetitions do not get ahead of the next real one.
 */
#include "supervisor/mcp/progress.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/mcp/wire/jsonrpc.h"

#define MESSAGE_MAX_BYTES 1000
#define HAIR              0.01

void progress_init(struct progress *p, const cJSON *params, bool with_message, uint64_t now_ms)
{
    /* A token is a string or an integer, like an id. */
    *p = (struct progress){
        .token = jsonrpc_id_text(json_get(json_get(params, "_meta"), "progressToken")),
        .with_message = with_message,
        .sent_ms = now_ms,
    };
}

void progress_finish(struct progress *p)
{
    free(p->token);
    free(p->message);
    p->token = p->message = NULL;
}

bool progress_is_due(const struct progress *p, uint64_t now_ms)
{
    return p->token != NULL && (!p->told || now_ms - p->told_ms >= PROGRESS_EVERY_MS);
}

/* Formats the current progress as a notification. */
static char *notification(struct progress *p, uint64_t now_ms)
{
    p->sent = true;
    p->sent_ms = now_ms;
    cJSON *params = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(params, "progressToken", cJSON_CreateRaw(p->token));
    cJSON_AddItemToObjectCS(params, "progress", cJSON_CreateNumber(p->value));
    if (p->total > 0 && p->total >= p->value) {
        cJSON_AddItemToObjectCS(params, "total", cJSON_CreateNumber(p->total));
    }
    if (p->message != NULL) {
        cJSON_AddItemToObjectCS(params, "message", cJSON_CreateStringReference(p->message));
    }
    return jsonrpc_notification("notifications/progress", params);
}

char *progress_tell(struct progress *p, double value, double total, const char *message,
                    uint64_t now_ms)
{
    if (p->token == NULL) {
        return NULL;
    }
    p->value = !p->sent || value > p->value ? value : p->value + 1;
    p->told = true;
    p->told_ms = now_ms;
    p->total = total;
    free(p->message);
    p->message = NULL;
    if (p->with_message && message != NULL) {
        CLEANUP_BUF struct buf text;
        buf_init(&text, 2 * MESSAGE_MAX_BYTES);
        text_add(&text, view_of(message), MESSAGE_MAX_BYTES, false);
        p->message = alloc_strdup(text_cstr(&text));
    }
    return notification(p, now_ms);
}

char *progress_repeat(struct progress *p, uint64_t look_ms, uint64_t now_ms)
{
    if (p->token == NULL || now_ms - p->sent_ms + look_ms < PROGRESS_HEARTBEAT_MS) {
        return NULL;
    }
    if (p->sent) {
        p->value = p->value + HAIR > p->value ? p->value + HAIR : p->value + p->value * HAIR;
    }
    return notification(p, now_ms);
}
