/*
 *     LOOK --> ORDER --> (GET again and again) --> gone
 *                             |                     ^
 *                             '--> FORGET ----------'    its processes have ended, or it takes long
 *
 * A pod is looked at before it is removed: one of that name may be somebody else's, and the uid
 * that was seen goes with the request, so what is removed is what was looked at.
 *
 * An API server forgets a pod that has no time to end at once, while its processes go on until the
 * node hears of that, which takes seconds. So the pod is given a second, of which its agent needs
 * some milliseconds, and stays until its node says that the container has ended. Then it is
 * forgotten: what the node still clears up is not the sandbox. A node that says nothing for
 * CONFIRM_MS is not waited for, since it may be lost; it ends what it finds forgotten, and the
 * agent ends itself.
 *
 * A server removes a sandbox's directory after its pod; so a pod whose directory is gone is left
 * from a creation that did not finish, or its server could not reach the cluster (owner.h). While
 * it runs it is left alone: its agent ends it when nobody has asked for it for a while.
 */
#include "worker/backend/kubernetes/end.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/owner.h"

#define GRACE_S    1    /* the least with which a node is told before the pod is forgotten */
#define CONFIRM_MS 1500 /* for the node to say that the container has ended */
#define AGAIN_MS   100  /* to the second look, and longer to each later one */
#define PAUSE_MAX  500
#define AGAIN_MAX                                                                                  \
    50 /* a pod that stays for so many looks, forgotten or changing, is kept by somebody */
#define REMOVE_MS 10000
#define LIST_MS   10000
#define SWEEP_MAX 32

struct kube_end {
    struct tasks *tasks;
    struct kube_api *api;
    char *sandbox, *path, *front;
    char *uid; /* of the pod that is being removed; NULL before that */
    uint64_t ordered_ms, pause_ms;
    bool forgotten;
    int tries;
    kube_end_fn done;
    void *arg;
};

static void look_at_rest(void *arg);

void kube_end_free(struct kube_end *e)
{
    if (e != NULL) {
        free(e->sandbox);
        free(e->path);
        free(e->front);
        free(e->uid);
        free(e);
    }
}

static void finish_kube_end(struct kube_end *e, int rc, const struct err *err)
{
    kube_end_fn done = e->done;
    void *arg = e->arg;
    kube_end_free(e);
    done(arg, rc, rc < 0 ? err : NULL);
}

/* To be freed. */
static char *delete_body(const char *uid, const char *version, unsigned grace_s)
{
    cJSON *body = json_build_new();
    json_build_string(body, "kind", "DeleteOptions");
    json_build_string(body, "apiVersion", "v1");
    json_build_number(body, "gracePeriodSeconds", grace_s);
    cJSON *preconditions = json_build_object(body, "preconditions");
    json_build_string(preconditions, "uid", uid);
    if (version != NULL) {
        json_build_string(preconditions, "resourceVersion", version);
    }
    char *text = json_build_print(body);
    cJSON_Delete(body);
    return text;
}

static void look_later(struct kube_end *e)
{
    task_later(e->tasks, e->pause_ms, look_at_rest, e);
    e->pause_ms = e->pause_ms * 3 / 2 < PAUSE_MAX ? e->pause_ms * 3 / 2 : PAUSE_MAX;
}

static void on_kube_deleted(void *arg, int rc, const struct kube_reply *reply,
                            const struct err *err)
{
    struct kube_end *e = arg;
    if (rc < 0 && !reply->is_absent && reply->status != 409) {
        finish_kube_end(e, rc == -ERR_INVALID ? -ERR_ENGINE : rc, err);
        return;
    }
    if (rc == 0 || reply->is_absent) {
        look_at_rest(e);
        return;
    }
    /* 409: by now it is another pod, or has changed */
    if (e->front != NULL && !e->forgotten) {
        free(STEAL_PTR(e->uid)); /* whose it is has to be seen again */
    }
    if (++e->tries >= AGAIN_MAX) {
        struct err busy = ERR_INIT;
        rc = err_set(&busy, ERR_ENGINE, "the pod changes whenever it is to be removed");
        finish_kube_end(e, rc, &busy);
    } else {
        look_later(e);
    }
}

/* One of several servers removes only what it has seen to be its own. */
static void delete_pod(struct kube_end *e, const cJSON *pod, unsigned grace_s)
{
    const char *version = json_get_str(json_get(pod, "metadata"), "resourceVersion");
    bool first = e->front != NULL && !e->forgotten;
    CLEANUP_FREE char *body = delete_body(e->uid, first ? version : NULL, grace_s);
    struct kube_request request = {
        .method = "DELETE", .path = e->path, .json = body, .total_ms = REMOVE_MS};
    kube_api_call(e->api, &request, on_kube_deleted, e);
}

/* What has to be done next about a pod that is there. */
static void go_on_ending(struct kube_end *e, const cJSON *pod)
{
    struct err err = ERR_INIT;
    uint64_t now_ms = uv_now(e->tasks->loop);
    if (e->uid == NULL) {
        e->uid = alloc_strdup(kube_state_uid(pod));
        e->ordered_ms = now_ms;
        delete_pod(e, pod, GRACE_S);
    } else if (!e->forgotten && (kube_state_is_over(pod) || now_ms - e->ordered_ms >= CONFIRM_MS)) {
        e->forgotten = true;
        delete_pod(e, pod, 0);
    } else if (e->forgotten && ++e->tries >= AGAIN_MAX) {
        int rc = err_set(&err, ERR_ENGINE,
                         "the cluster does not let go of the pod; has it a finalizer?");
        finish_kube_end(e, rc, &err);
    } else {
        look_later(e);
    }
}

static void on_seen(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube_end *e = arg;
    struct err err = ERR_INIT;
    if (reply->is_absent) {
        finish_kube_end(e, 0, NULL);
        return;
    }
    if (rc < 0) {
        finish_kube_end(e, rc, failure);
        return;
    }
    const char *uid = kube_state_uid(reply->json);
    if (uid == NULL) {
        rc = err_set(&err, ERR_ENGINE, "the answer of the API server is no pod");
        finish_kube_end(e, rc, &err);
    } else if (!kube_state_is_of(reply->json, e->sandbox) ||
               kube_front_is_others(reply->json, e->front) ||
               (e->uid != NULL && strcmp(e->uid, uid) != 0)) {
        finish_kube_end(e, 0, NULL); /* it belongs to somebody else */
    } else {
        go_on_ending(e, reply->json);
    }
}

static void look_at_rest(void *arg)
{
    struct kube_end *e = arg;
    struct kube_request request = {.method = "GET", .path = e->path, .total_ms = REMOVE_MS};
    kube_api_call(e->api, &request, on_seen, e);
}

struct kube_end *kube_end_start(struct tasks *tasks, struct kube_api *api, const char *sandbox,
                                const char *pod, const char *front, kube_end_fn done, void *arg)
{
    struct kube_end *e = alloc_one(struct kube_end);
    e->tasks = tasks;
    e->api = api;
    e->sandbox = alloc_strdup(sandbox);
    e->path = kube_api_path(api, "pods", pod);
    e->front = front != NULL ? alloc_strdup(front) : NULL;
    e->pause_ms = AGAIN_MS;
    e->done = done;
    e->arg = arg;
    look_at_rest(e);
    return e;
}

/* ---- what dead servers left ----------------------------------------------------------------- */

struct kube_sweep {
    struct kube_api *api;
    size_t pending;
    void (*done)(void *arg);
    void *arg;
};

void kube_sweep_free(struct kube_sweep *s)
{
    free(s);
}

bool kube_end_is_left(const cJSON *pod)
{
    struct kube_state state;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json_get(pod, "metadata"), "annotations");
    return kube_state_read(pod, &state, NULL) == 0 && state.kind != KUBE_STATE_RUNNING &&
           owner_is_gone(item);
}

static void kube_count_down(struct kube_sweep *s)
{
    if (--s->pending == 0) {
        void (*done)(void *) = s->done;
        void *arg = s->arg;
        kube_sweep_free(s);
        done(arg);
    }
}

static void on_kube_rest_removed(void *arg, int rc, const struct kube_reply *reply,
                                 const struct err *err)
{
    if (rc < 0 && !reply->is_absent && reply->status != 409) {
        log_warn("a pod of a server that is gone stays: %s", err->text);
    }
    kube_count_down(arg);
}

static void on_kube_listed(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_sweep *s = arg;
    const cJSON *items = rc == 0 ? json_get(reply->json, "items") : (const cJSON *)NULL;
    const cJSON *pod;
    if (rc < 0) {
        log_debug("cannot look for pods of servers that are gone: %s", err->text);
    }
    cJSON_ArrayForEach(pod, items)
    {
        const char *name = json_get_str(json_get(pod, "metadata"), "name");
        const char *uid = kube_state_uid(pod);
        if (name == NULL || !kube_is_label(name) || uid == NULL || s->pending > SWEEP_MAX ||
            !kube_end_is_left(pod)) {
            continue;
        }
        CLEANUP_FREE char *path = kube_api_path(s->api, "pods", name);
        CLEANUP_FREE char *body = delete_body(uid, NULL, GRACE_S);
        struct kube_request request = {
            .method = "DELETE", .path = path, .json = body, .total_ms = REMOVE_MS};
        log_info("removing pod %s, which is nobody's any more", name);
        s->pending++;
        kube_api_call(s->api, &request, on_kube_rest_removed, s);
    }
    kube_count_down(s);
}

struct kube_sweep *kube_sweep_start(struct kube_api *api, void (*done)(void *arg), void *arg)
{
    struct kube_sweep *s = alloc_one(struct kube_sweep);
    char host[KUBE_HOST_SIZE];
    kube_pod_host(host);
    CLEANUP_FREE char *labels =
        alloc_printf(KUBE_LABEL_MANAGED "=" KUBE_MANAGED "," KUBE_LABEL_HOST "=%s", host);
    CLEANUP_FREE char *escaped = http_escape(labels);
    CLEANUP_FREE char *pods = kube_api_path(api, "pods", "");
    CLEANUP_FREE char *path = alloc_printf("%s?labelSelector=%s&limit=200", pods, escaped);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = LIST_MS};
    s->api = api;
    s->done = done;
    s->arg = arg;
    s->pending = 1; /* the list itself */
    kube_api_call(api, &request, on_kube_listed, s);
    return s;
}
