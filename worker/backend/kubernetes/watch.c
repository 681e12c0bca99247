/*
 *              .--------- pause <--------- refused, expired, nonsense
 *              v                                |
 *     begin -> LOOK --------- the pod --------> WATCH --.
 *                                               ^       | ended, or cut
 *                                               '-------'
 *
 * Servers end watches as they like, balancers cut them, and an API server is restarted. Each event
 * names a moment; so the next watch begins where the last one was, and the pod need not be asked
 * for. A server keeps some minutes of history. When it has forgotten that moment (410), or anything
 * else is wrong, the pod is asked for, as a list of one: a list names the moment of the answer, a
 * pod only that of its last change, which may be forgotten. A server that allows no watch is asked
 * in that way for ever, less and less often.
 *
 * A watch of a pod in which nothing happens is silent. The server is told to end it after a while,
 * so one that is silent for longer than that is dead.
 */
#include "worker/backend/kubernetes/watch.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/kubernetes/event.h"
#include "worker/backend/lines.h"

#define FROM_ANY       "0" /* such a watch begins with what there is, as if it were new */
#define PAUSE_FIRST_MS 100
#define SPARE_MS       10000 /* more than a server may take to end a watch in time */
#define GOOD_MS        1000  /* a watch that lasted so long begins again without a pause */

/* By kind. */
static const struct {
    unsigned lasts_s;      /* of one watch */
    uint64_t pause_max_ms; /* between attempts */
    bool ticks;
} kinds[] = {
    [KUBE_WATCH_BRIEF] = {.lasts_s = 30, .pause_max_ms = 1000, .ticks = true},
    [KUBE_WATCH_LASTING] = {.lasts_s = 300, .pause_max_ms = 60000, .ticks = false},
};

struct kube_watch {
    struct task task;
    struct kube_api *api;
    char *list, *what; /* the path that asks for the pod as a list; for the log */
    enum kube_watch_kind kind;
    char version[KUBE_VERSION_SIZE]; /* where the next watch begins; "": the pod is asked for */
    struct kube_call *call;          /* NULL during a pause */
    struct lines lines;
    uint64_t begun_ms; /* of this watch */
    uint64_t pause_ms; /* of the next pause */
    uint64_t due_ms;   /* the end of this pause */
    uv_timer_t timer;  /* the pause, or the ticks */
    kube_seen_fn seen;
    void *arg;
};

static void begin_watch(struct kube_watch *w);

static bool watch_is_stopped(const struct kube_watch *w)
{
    return uv_is_closing((const uv_handle_t *)&w->timer) != 0;
}

/* ---- end ------------------------------------------------------------------------------------ */

static void on_kube_watch_closed(uv_handle_t *handle)
{
    struct kube_watch *w = handle->data;
    task_leave(&w->task);
    lines_finish(&w->lines);
    free(w->list);
    free(w->what);
    free(w);
}

void kube_watch_stop(struct kube_watch *w)
{
    if (w == NULL || watch_is_stopped(w)) {
        return;
    }
    if (w->call != NULL) {
        kube_api_cancel(STEAL_PTR(w->call));
    }
    uv_close((uv_handle_t *)&w->timer, on_kube_watch_closed);
}

static void on_kube_watch_drop(struct task *task)
{
    kube_watch_stop((struct kube_watch *)task);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void on_kube_watch_timer(uv_timer_t *timer)
{
    struct kube_watch *w = timer->data;
    if (w->call == NULL && uv_now(timer->loop) >= w->due_ms) {
        begin_watch(w);
    }
    if (kinds[w->kind].ticks) {
        w->seen(w->arg, &(struct kube_seen){.pod = NULL});
    }
}

/* Tries again after a pause, which becomes longer each time until something is seen. */
static void pause_watch(struct kube_watch *w)
{
    uint64_t pause_ms = w->pause_ms;
    uint64_t most_ms = kinds[w->kind].pause_max_ms;
    w->pause_ms = pause_ms * 2 < most_ms ? pause_ms * 2 : most_ms;
    w->due_ms = uv_now(w->task.tasks->loop) + pause_ms;
    uv_timer_start(&w->timer, on_kube_watch_timer, pause_ms,
                   kinds[w->kind].ticks ? KUBE_WATCH_TICK_MS : 0);
}

static void tell_trouble(struct kube_watch *w, const struct err *err)
{
    log_debug("watch of %s: %s", w->what, err->text);
    w->seen(w->arg, &(struct kube_seen){.err = err});
}

/* ---- the watch ------------------------------------------------------------------------------ */

/* False if the watch is over. */
static bool take_kube_event(struct kube_watch *w, const struct kube_event *event)
{
    if (event->version[0] != '\0') {
        memcpy(w->version, event->version, sizeof(w->version));
    }
    switch (event->kind) {
    case KUBE_EVENT_POD:
    case KUBE_EVENT_DELETED:
        w->pause_ms = PAUSE_FIRST_MS;
        w->seen(w->arg, &(struct kube_seen){.pod = event->pod,
                                            .is_gone = event->kind == KUBE_EVENT_DELETED});
        return true;
    case KUBE_EVENT_BOOKMARK:
        return true;
    case KUBE_EVENT_EXPIRED:
        w->version[0] = '\0';
        return false;
    case KUBE_EVENT_ERROR:
    default:
        w->version[0] = '\0';
        tell_trouble(w, &event->err);
        return false;
    }
}

static void leave_watch(struct kube_watch *w)
{
    if (!watch_is_stopped(w)) {
        kube_api_cancel(STEAL_PTR(w->call));
        pause_watch(w);
    }
}

static bool on_watch_data(void *arg, struct view piece)
{
    struct kube_watch *w = arg;
    struct err err = ERR_INIT;
    struct view line;
    bool goes_on = true;
    int rc = 0;
    while (goes_on && !watch_is_stopped(w) &&
           (rc = lines_next(&w->lines, &piece, &line, &err)) > 0) {
        struct kube_event event;
        rc = kube_event_read(line, &event, &err);
        if (rc < 0) {
            break;
        }
        goes_on = take_kube_event(w, &event);
        kube_event_finish(&event);
    }
    if (rc < 0) {
        w->version[0] = '\0';
        tell_trouble(w, &err);
    }
    if (rc < 0 || !goes_on) {
        leave_watch(w);
    }
    return true;
}

static void on_watch_ended(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_watch *w = arg;
    uint64_t lasted_ms = uv_now(w->task.tasks->loop) - w->begun_ms;
    w->call = NULL;
    if (reply->status != 0 && rc < 0) { /* refused: 410, 403, … */
        w->version[0] = '\0';
    }
    if (rc < 0) {
        tell_trouble(w, err);
        if (watch_is_stopped(w)) {
            return;
        }
    }
    bool was_cut = rc < 0 && reply->status == 0 && !reply->is_unsent;
    if (lasted_ms >= GOOD_MS && (rc == 0 || was_cut)) {
        w->pause_ms = PAUSE_FIRST_MS;
        begin_watch(w);
    } else {
        pause_watch(w);
    }
}

static void send_watch(struct kube_watch *w)
{
    CLEANUP_FREE char *path =
        alloc_printf("%s&watch=true&resourceVersion=%s&allowWatchBookmarks=true&timeoutSeconds=%u",
                     w->list, w->version, kinds[w->kind].lasts_s);
    struct kube_request request = {
        .method = "GET",
        .path = path,
        .on_data = on_watch_data,
        .silence_ms = (uint64_t)kinds[w->kind].lasts_s * 1000 + SPARE_MS,
    };
    lines_reset(&w->lines);
    w->begun_ms = uv_now(w->task.tasks->loop);
    w->call = kube_api_call(w->api, &request, on_watch_ended, w);
}

/* ---- the look ------------------------------------------------------------------------------- */

static void on_watch_looked(void *arg, int rc, const struct kube_reply *reply,
                            const struct err *err)
{
    struct kube_watch *w = arg;
    const cJSON *pods = rc == 0 ? json_get(reply->json, "items") : (const cJSON *)NULL;
    struct err strange = ERR_INIT;
    w->call = NULL;
    if (rc == 0 && !cJSON_IsArray(pods)) {
        err_ignore(err_set(&strange, ERR_PROTOCOL, "the answer of the API server is no list"));
        tell_trouble(w, &strange);
    } else if (rc == 0) {
        const cJSON *pod = cJSON_GetArrayItem(pods, 0);
        kube_event_version(reply->json, w->version);
        w->seen(w->arg, &(struct kube_seen){.pod = pod, .is_gone = pod == NULL, .is_anew = true});
    } else {
        tell_trouble(w, err);
    }
    if (watch_is_stopped(w)) {
        return;
    }
    if (w->version[0] != '\0') {
        send_watch(w);
    } else {
        pause_watch(w);
    }
}

static void begin_watch(struct kube_watch *w)
{
    if (w->version[0] != '\0') {
        send_watch(w);
        return;
    }
    struct kube_request request = {.method = "GET", .path = w->list};
    w->call = kube_api_call(w->api, &request, on_watch_looked, w);
}

/* Takes `list` and `what` over. */
static struct kube_watch *start_watch(struct tasks *tasks, struct kube_api *api, char *list,
                                      char *what, enum kube_watch_kind kind, const cJSON *pod,
                                      kube_seen_fn seen, void *arg)
{
    struct kube_watch *w = alloc_one(struct kube_watch);
    w->api = api;
    w->list = list;
    w->what = what;
    w->kind = kind;
    w->seen = seen;
    w->arg = arg;
    w->pause_ms = PAUSE_FIRST_MS;
    lines_init(&w->lines, KUBE_EVENT_MAX_BYTES);
    kube_event_version(pod, w->version);
    if (pod == NULL) {
        memcpy(w->version, FROM_ANY, sizeof(FROM_ANY));
    }
    uv_timer_init(tasks->loop, &w->timer);
    w->timer.data = w;
    task_enter(tasks, &w->task, on_kube_watch_drop);
    begin_watch(w);
    if (kinds[kind].ticks) {
        uv_timer_start(&w->timer, on_kube_watch_timer, KUBE_WATCH_TICK_MS, KUBE_WATCH_TICK_MS);
    }
    return w;
}

struct kube_watch *kube_watch_start(struct tasks *tasks, struct kube_api *api, const char *name,
                                    enum kube_watch_kind kind, const cJSON *pod, kube_seen_fn seen,
                                    void *arg)
{
    CLEANUP_FREE char *pods = kube_api_path(api, "pods", "");
    return start_watch(tasks, api, alloc_printf("%s?fieldSelector=metadata.name%%3D%s", pods, name),
                       alloc_printf("pod %s", name), kind, pod, seen, arg);
}

struct kube_watch *kube_watch_list(struct tasks *tasks, struct kube_api *api, const char *list,
                                   const char *what, kube_seen_fn seen, void *arg)
{
    return start_watch(tasks, api, alloc_strdup(list), alloc_strdup(what), KUBE_WATCH_LASTING, NULL,
                       seen, arg);
}
