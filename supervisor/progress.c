/*
 * The protocol wants numbers that only rise. Ours are bytes, and they start again with every step
 * of a creation, or are not known at all: then the number rises by one, which beside bytes is
 * nothing, and the words tell what is really going on. A total that no longer fits is left out.
 */
#include "supervisor/progress.h"

#include <stdlib.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/fleet.h"
#include "supervisor/jsonrpc.h"
#include "supervisor/text.h"

#define MESSAGE_MAX_BYTES 1000

void progress_init(struct progress *p, const cJSON *params, bool with_message)
{
    /* Tokens are what ids are: a string or an integer. */
    *p = (struct progress){
        .token = jsonrpc_id_text(json_get(json_get(params, "_meta"), "progressToken")),
        .with_message = with_message,
    };
}

void progress_finish(struct progress *p)
{
    free(p->token);
    p->token = NULL;
}

char *progress_tell(struct progress *p, const struct fleet_progress *news, uint64_t now_ms)
{
    if (p->token == NULL || (p->sent && now_ms - p->sent_ms < PROGRESS_EVERY_MS)) {
        return NULL;
    }
    double done = (double)news->done;
    double total = (double)news->total;
    p->value = !p->sent || done > p->value ? done : p->value + 1;
    p->sent = true;
    p->sent_ms = now_ms;
    cJSON *params = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(params, "progressToken", cJSON_CreateRaw(p->token));
    cJSON_AddItemToObjectCS(params, "progress", cJSON_CreateNumber(p->value));
    if (news->total > 0 && total >= p->value) {
        cJSON_AddItemToObjectCS(params, "total", cJSON_CreateNumber(total));
    }
    if (p->with_message) {
        CLEANUP_BUF struct buf text;
        buf_init(&text, 2 * MESSAGE_MAX_BYTES);
        text_add(&text, view_of(news->text), MESSAGE_MAX_BYTES, false);
        cJSON_AddItemToObjectCS(params, "message", cJSON_CreateString(text_cstr(&text)));
    }
    return jsonrpc_notification("notifications/progress", params);
}
