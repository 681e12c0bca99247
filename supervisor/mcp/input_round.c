/*
 * A key on the wire is a number and the handler's key: "3.user_name". No number is used twice, so a
 * late or repeated answer matches no open question.
 */
#include "supervisor/mcp/input_round.h"

#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"

void input_round_finish(struct input_round *r)
{
    cJSON_Delete(r->open);
    cJSON_Delete(r->answers);
    memset(r, 0, sizeof(*r));
}

bool input_round_begin(struct input_round *r, cJSON *requests, uint64_t now_ms)
{
    if (r->count >= INPUT_ROUNDS) {
        cJSON_Delete(requests);
        return false;
    }
    cJSON_Delete(r->open);
    cJSON_Delete(r->answers);
    r->open = alloc_check(cJSON_CreateObject());
    r->answers = alloc_check(cJSON_CreateObject());
    r->bytes = 0;
    r->count++;
    r->deadline_ms = now_ms + INPUT_TIME_MS;
    while (requests->child != NULL) {
        cJSON *one = cJSON_DetachItemViaPointer(requests, requests->child);
        CLEANUP_FREE char *key = alloc_printf("%u.%s", ++r->minted, one->string);
        cJSON_AddItemToObject(r->open, key, one);
    }
    cJSON_Delete(requests);
    return true;
}

size_t input_weight(const cJSON *value)
{
    if (value == NULL) {
        return 0;
    }
    size_t bytes = sizeof(cJSON) + (value->string != NULL ? strlen(value->string) : 0) +
                   (value->valuestring != NULL ? strlen(value->valuestring) : 0);
    for (const cJSON *child = value->child; child != NULL; child = child->next) {
        bytes += input_weight(child);
    }
    return bytes;
}

enum input_taken input_round_answer(struct input_round *r, const char *key, cJSON *result)
{
    cJSON *asked = cJSON_GetObjectItemCaseSensitive(r->open, key);
    size_t bytes = input_weight(result);
    enum input_taken taken = asked == NULL                         ? INPUT_UNKNOWN
                             : bytes > INPUT_KEPT_BYTES - r->bytes ? INPUT_TOO_MUCH
                                                                   : INPUT_TAKEN;
    if (taken != INPUT_TAKEN) {
        cJSON_Delete(result);
        return taken;
    }
    r->bytes += bytes;
    cJSON_AddItemToObject(r->answers, strchr(asked->string, '.') + 1, result);
    cJSON_Delete(cJSON_DetachItemViaPointer(r->open, asked));
    return INPUT_TAKEN;
}

bool input_round_is_whole(const struct input_round *r)
{
    return r->open != NULL && r->open->child == NULL;
}

cJSON *input_round_take(struct input_round *r)
{
    cJSON_Delete(r->open);
    r->open = NULL;
    r->bytes = 0;
    return STEAL_PTR(r->answers);
}
