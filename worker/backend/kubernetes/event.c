/*
 * A watch goes on from the moment that its last event has named. Only the server knows what the
 * names mean, so they are kept as they are, if they can be part of a request's path.
 *
 * An event of a kind that is not known here changes nothing: it counts as a bookmark.
 */
#include "worker/backend/kubernetes/event.h"

#include <string.h>

#include "common/io/json.h"
#include "worker/backend/kubernetes/state.h"

#define DEPTH 64

#define STATUS_EXPIRED 410

void kube_event_version(const cJSON *object, char ret[KUBE_VERSION_SIZE])
{
    const char *text = json_get_str(json_get(object, "metadata"), "resourceVersion");
    size_t len = text != NULL ? strnlen(text, KUBE_VERSION_SIZE) : 0;
    bool plain = len > 0 && len < KUBE_VERSION_SIZE;
    for (size_t i = 0; i < len && plain; i++) {
        plain = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'z') ||
                (text[i] >= 'A' && text[i] <= 'Z') || text[i] == '-' || text[i] == '.';
    }
    ret[0] = '\0';
    if (plain) {
        memcpy(ret, text, len + 1);
    }
}

static void take_status(const cJSON *status, struct kube_event *event)
{
    const cJSON *code = json_get(status, "code");
    const char *reason = json_get_str(status, "reason");
    const char *message = json_get_str(status, "message");
    bool expired =
        (json_is_int(code) && code->valueint == STATUS_EXPIRED) ||
        (reason != NULL && (strcmp(reason, "Expired") == 0 || strcmp(reason, "Gone") == 0));
    event->kind = expired ? KUBE_EVENT_EXPIRED : KUBE_EVENT_ERROR;
    if (!expired) {
        char words[200];
        kube_words(message != NULL ? message : "it does not say why", words, sizeof(words));
        err_ignore(err_set(&event->err, ERR_ENGINE, "the API server ends a watch: %s", words));
    }
}

int kube_event_read(struct view line, struct kube_event *ret, struct err *err)
{
    cJSON *whole = NULL;
    bool has_nul = false;
    int rc = json_parse(line.data, line.len, KUBE_EVENT_MAX_BYTES, DEPTH, &whole, &has_nul, NULL);
    const char *type = rc == 0 && !has_nul ? json_get_str(whole, "type") : NULL;
    const cJSON *object = json_get(whole, "object");
    if (type == NULL || !cJSON_IsObject(object)) {
        cJSON_Delete(whole);
        return err_set(err, ERR_PROTOCOL, "what the API server says in a watch is no event");
    }
    *ret = (struct kube_event){.kind = KUBE_EVENT_BOOKMARK, .whole = whole};
    kube_event_version(object, ret->version);
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
        ret->kind = KUBE_EVENT_POD;
        ret->pod = object;
    } else if (strcmp(type, "DELETED") == 0) {
        ret->kind = KUBE_EVENT_DELETED;
        ret->pod = object;
    } else if (strcmp(type, "ERROR") == 0) {
        ret->version[0] = '\0';
        take_status(object, ret);
    }
    return 0;
}

void kube_event_finish(struct kube_event *event)
{
    cJSON_Delete(event->whole);
    event->whole = NULL;
    event->pod = NULL;
}
