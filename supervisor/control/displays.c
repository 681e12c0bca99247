/*
 * What an execution has displayed, such as plots: tools give it to models as blocks of their
 * results, this gives it to programs and to the page, whole. Each display is a list of its
 * representations, since a client takes the one that it can show:
 *
 *   {"displays":[[{"type":"image/png","base64":"…"},{"type":"text/plain","text":"…"}],…],"left_out":0}
 *
 * Representations whose bytes are not kept, or for which there is no room, are counted.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

#define SHOWN_BYTES (8u << 20) /* of all displays of one execution */

static bool is_text(struct view bytes)
{
    return utf8_valid(bytes.data, bytes.len) && memchr(bytes.data, '\0', bytes.len) == NULL;
}

/* NULL: memory or a limit stands against it. */
static cJSON *representation(const struct fleet_display *d)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, 2 * SHOWN_BYTES);
    bool plain = is_text(d->data);
    int rc = plain ? buf_add(&text, d->data.data, d->data.len, NULL)
                   : base64_encode(&text, d->data, NULL);
    if (rc < 0) {
        return NULL;
    }
    cJSON *object = cJSON_CreateObject();
    result_put_text(object, "type", d->mime);
    result_put_text(object, plain ? "text" : "base64", text_cstr(&text));
    return object;
}

cJSON *control_displays(const struct fleet_outcome *o)
{
    cJSON *body = cJSON_CreateObject();
    cJSON *list = result_put_array(body, "displays"), *group = NULL;
    size_t shown = 0;
    uint64_t left_out = 0;
    for (size_t i = 0; i < o->display_count; i++) {
        const struct fleet_display *d = &o->displays[i];
        if (group == NULL || d->number != o->displays[i - 1].number) {
            group = cJSON_CreateArray();
            cJSON_AddItemToArray(list, group);
        }
        bool fits = d->data.len > 0 && shown + d->data.len <= SHOWN_BYTES;
        cJSON *object = fits ? representation(d) : NULL;
        if (object == NULL) {
            left_out++;
            continue;
        }
        shown += d->data.len;
        cJSON_AddItemToArray(group, object);
    }
    result_put_uint(body, "left_out", left_out);
    return body;
}
