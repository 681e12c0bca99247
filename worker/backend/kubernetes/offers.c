/*
 * A server that has none left takes one of another, and then it has no time to ask which there are.
 * So it has them told as they come and go, by a watch of the pods with their label. What it knows
 * may be old all the same: only the claim decides (claim.c).
 *
 * A watch that begins anew may have missed some, and tells of one of them only. Then all are
 * listed, but as many as are remembered: of more than that nobody needs to know, until half
 * of these are gone.
 */
#include "worker/backend/kubernetes/offers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/fronts.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/kubernetes/watch.h"

#define LIST_MS 5000

struct kube_offers {
    struct task task;
    struct tasks *tasks;
    struct kube_api *api;
    struct kube_watch *watch;
    uv_timer_t timer; /* the end of a wait, or the next turn of the loop */
    char *list;       /* the path of all of them */
    char ids[BACKEND_OFFERS_MAX][24];
    size_t count;
    bool changed;           /* since they were told */
    bool more;              /* than are remembered */
    bool listing;           /* the answer is under way */
    backend_offers_fn done; /* NULL: nobody asks */
    void *arg;
};

/* ---- the answer ---- */

static void on_offers_due(uv_timer_t *timer)
{
    struct kube_offers *o = timer->data;
    const char *ids[BACKEND_OFFERS_MAX];
    backend_offers_fn done = o->done;
    o->done = NULL;
    o->changed = false;
    for (size_t i = 0; i < o->count; i++) {
        ids[i] = o->ids[i];
    }
    if (done != NULL) {
        done(o->arg, 0, ids, o->count, KUBE_GENERATIONS, NULL);
    }
}

static void note_change(struct kube_offers *o)
{
    o->changed = true;
    if (o->done != NULL) {
        uv_timer_start(&o->timer, on_offers_due, 0, 0);
    }
}

void kube_offers_ask(struct kube_offers *o, uint64_t wait_ms, backend_offers_fn done, void *arg)
{
    o->done = done;
    o->arg = arg;
    uv_timer_start(&o->timer, on_offers_due, o->changed ? 0 : wait_ms, 0);
}

/* ---- what there is ---- */

static void drop_offer(struct kube_offers *o, const char *id)
{
    for (size_t i = 0; i < o->count; i++) {
        if (strcmp(o->ids[i], id) == 0) {
            memmove(o->ids[i], o->ids[--o->count], sizeof(o->ids[i]));
            note_change(o);
            return;
        }
    }
}

static void add_offer(struct kube_offers *o, const char *id)
{
    for (size_t i = 0; i < o->count; i++) {
        if (strcmp(o->ids[i], id) == 0) {
            return;
        }
    }
    if (o->count == BACKEND_OFFERS_MAX) {
        o->more = true;
        return;
    }
    snprintf(o->ids[o->count++], sizeof(o->ids[0]), "%s", id);
    note_change(o);
}

static void take_offer(struct kube_offers *o, const cJSON *pod, bool is_gone)
{
    struct kube_state state;
    const char *id =
        json_get_str(json_get(json_get(pod, "metadata"), "labels"), KUBE_LABEL_SANDBOX);
    if (id == NULL || !kube_is_label(id) || strlen(id) >= sizeof(o->ids[0])) {
        return;
    }
    if (is_gone || kube_state_read(pod, &state, NULL) < 0 || state.kind != KUBE_STATE_RUNNING) {
        drop_offer(o, id);
    } else {
        add_offer(o, id);
    }
}

static void on_offers_listed(void *arg, int rc, const struct kube_reply *reply,
                             const struct err *err)
{
    struct kube_offers *o = arg;
    const cJSON *pod;
    (void)err; /* what the watch tells next is right again */
    o->listing = false;
    if (rc < 0) {
        o->more = true;
        return;
    }
    const char *rest = json_get_str(json_get(reply->json, "metadata"), "continue");
    o->more = rest != NULL && rest[0] != '\0';
    if (o->count > 0) {
        o->count = 0;
        note_change(o);
    }
    cJSON_ArrayForEach(pod, json_get(reply->json, "items"))
    {
        take_offer(o, pod, false);
    }
}

static void list_offers(struct kube_offers *o)
{
    CLEANUP_FREE char *path = alloc_printf("%s&limit=%d", o->list, BACKEND_OFFERS_MAX);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = LIST_MS};
    if (!o->listing) {
        o->listing = true;
        kube_api_call(o->api, &request, on_offers_listed, o);
    }
}

static void on_offer_seen(void *arg, const struct kube_seen *seen)
{
    struct kube_offers *o = arg;
    if (seen->is_anew) {
        list_offers(o);
    } else if (seen->pod != NULL) {
        take_offer(o, seen->pod, seen->is_gone);
        if (o->more && o->count < BACKEND_OFFERS_MAX / 2) {
            list_offers(o);
        }
    }
}

/* ---- the object ---- */

static void on_offers_timer_closed(uv_handle_t *handle)
{
    struct kube_offers *o = handle->data;
    task_leave(&o->task);
}

static void drop_offers(struct task *task)
{
    struct kube_offers *o = (struct kube_offers *)task;
    uv_close((uv_handle_t *)&o->timer, on_offers_timer_closed);
}

struct kube_offers *kube_offers_create(struct tasks *tasks, struct kube_api *api, const char *like,
                                       const char *own)
{
    struct kube_offers *o = alloc_one(struct kube_offers);
    CLEANUP_FREE char *labels = alloc_printf(
        KUBE_LABEL_MANAGED "=" KUBE_MANAGED "," KUBE_LABEL_SPARE "=%s," KUBE_LABEL_FRONT "!=%s",
        like, own);
    CLEANUP_FREE char *escaped = http_escape(labels);
    CLEANUP_FREE char *pods = kube_api_path(api, "pods", "");
    o->tasks = tasks;
    o->api = api;
    o->list = alloc_printf("%s?labelSelector=%s", pods, escaped);
    uv_timer_init(tasks->loop, &o->timer);
    o->timer.data = o;
    task_enter(tasks, &o->task, drop_offers);
    o->watch = kube_watch_list(tasks, api, o->list, "offers", on_offer_seen, o);
    return o;
}

void kube_offers_free(struct kube_offers *o)
{
    if (o != NULL) {
        free(o->list);
        free(o);
    }
}
