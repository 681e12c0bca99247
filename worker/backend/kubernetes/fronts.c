/*
 *     wait --> renew our lease --> list all leases --> (list pods of the dead --> claim each)
 *      ^                                                                                |
 *      '------------------------------------ answer <-----------------------------------'
 *
 * A server says that it lives by changing its Lease. Clocks of machines differ, so no date is
 * compared: one whose Lease has not changed for its whole time, by our clock and since we first saw
 * it so, is dead. Who was away himself, since he was stopped or the API server was, starts to watch
 * anew: the others may not have been able to renew either.
 *
 * One that ends in order gives its Lease up, as its last deed, and is dead at once. The others wait
 * for their next round as long as a third of a lease, so a watch of all Leases tells them. It is
 * but an alarm: a round that it has begun is like any other, and without it nothing is missed.
 *
 * Its pods are claimed one by one, by a change of the label that holds only for the
 * resourceVersion that was seen: a conflict means that somebody was quicker, or that something else
 * has changed, which the next round sees. A pod of a dead server that has ended is removed, and so
 * is one without a record that does not run yet, and one of a pool, which says that nobody knows of
 * it. Its server may only have been cut off, and be giving it to somebody now: that changes the
 * pod, so one of the two fails. One that runs without a record may be known to a
 * client all the same, if the record could not be kept, so it is left to its agent, which ends it
 * when it hears of no server for long enough. Pods of an id without a Lease are those of a dead
 * server whose Lease was removed before they were made, or of one that is just beginning: they get
 * the same time. One that was ours before waits until nothing of it is left here: what removes its
 * old directory would take the pod for ours again.
 *
 * What the answer to a claim said may be lost, with this worker or on the way. So after a start or
 * a failure our own pods are told of as well; the server passes over those that it knows.
 */
#include "worker/backend/kubernetes/fronts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/str.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/cluster.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/lease.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/kubernetes/watch.h"
#include "worker/backend/owner.h"

#define CALL_MS    5000
#define GIVE_UP_MS 2000  /* by a server that is ending */
#define PODS_MS    60000 /* the longest time between two looks at pods */
#define OTHERS_MAX 64
#define PODS_MAX   24  /* of one page, which has their records: well below what api.c reads */
#define TURNS_MAX  900 /* below the generation of a sweep */
#define NO_LEASE   "the lease could not be renewed"

struct other {
    char id[48];
    char mark[32];     /* resourceVersion of its Lease; "" if it has none */
    uint64_t since_ms; /* when we first saw it so */
    uint64_t lease_ms;
    bool given_up; /* it has ended in order */
    bool dead;     /* decided once in a round, after the list of leases */
    bool seen;     /* in the present list of leases */
    bool has_pods; /* in the present list of pods */
};

struct taken {
    struct kube_fronts *fronts;
    char sandbox[48];
    struct buf record;
    uint64_t generation;
    bool ours; /* the change has been answered */
};

enum round_state { ROUND_NONE, ROUND_WAITS, ROUND_RUNS };

struct kube_fronts {
    struct task task;
    struct tasks *tasks;
    struct kube_api *api;
    struct kube_watch *watch; /* of all leases */
    uv_timer_t timer;
    enum round_state state;
    bool alarmed; /* the next round need not wait */
    char *own;
    char *dir;     /* has the directories of our sandboxes */
    char mark[32]; /* resourceVersion of our lease; "": there is none that we know of */
    uint64_t lease_ms;
    struct other others[OTHERS_MAX];
    size_t other_count;
    uint64_t heard_ms; /* when all leases were last listed; 0: never */
    uint64_t looked_ms;
    bool unsure; /* there may be pods of ours that the server was not told of */
    bool with_own;
    char *list; /* the path of all pages of this round's pods */
    bool full;  /* one answer has no more room */
    bool more;
    struct err list_err; /* of a page; requests of earlier ones are waited for */
    struct taken taken[BACKEND_TAKEN_MAX];
    size_t taken_count, pending;
    backend_front_fn done;
    void *arg;
    backend_done_fn left; /* set when this server leaves the others */
    void *left_arg;
};

static void give_lease_up(struct kube_fronts *f);

/* ---- the answer ---- */

static void drop_taken(struct kube_fronts *f)
{
    for (size_t i = 0; i < f->taken_count; i++) {
        buf_finish(&f->taken[i].record);
    }
    f->taken_count = 0;
}

static void end_round(struct kube_fronts *f, int rc, const struct err *err)
{
    struct backend_taken list[BACKEND_TAKEN_MAX];
    size_t count = 0;
    for (size_t i = 0; i < f->taken_count; i++) {
        const struct taken *t = &f->taken[i];
        if (t->ours) {
            list[count++] = (struct backend_taken){
                t->sandbox, view_bytes(t->record.data, t->record.len), t->generation};
        }
    }
    f->unsure = f->unsure || rc < 0;
    f->heard_ms = rc < 0 ? 0 : f->heard_ms; /* what we could not do the others could not, either */
    f->state = ROUND_NONE;
    f->done(f->arg, rc, list, rc < 0 ? 0 : count, f->more, err);
    drop_taken(f);
    if (f->left != NULL) {
        give_lease_up(f);
    }
}

static void fail_round(struct kube_fronts *f, const char *what, const struct err *why)
{
    struct err err = ERR_INIT;
    int rc = err_set(&err, (enum err_code)why->code, "%s: %s", what, why->text);
    end_round(f, rc, &err);
}

/* ---- who lives ---- */

static struct other *note_other(struct kube_fronts *f, const char *id, const char *mark,
                                uint64_t lease_ms)
{
    struct other *o = NULL;
    for (size_t i = 0; i < f->other_count; i++) {
        o = strcmp(f->others[i].id, id) == 0 ? &f->others[i] : o;
    }
    if (o == NULL) {
        if (f->other_count == OTHERS_MAX || strlen(id) >= sizeof(o->id)) {
            return NULL;
        }
        o = &f->others[f->other_count++];
        *o = (struct other){.since_ms = uv_now(f->tasks->loop)};
        snprintf(o->id, sizeof(o->id), "%s", id);
        snprintf(o->mark, sizeof(o->mark), "%s", mark);
    }
    if (strcmp(o->mark, mark) != 0) {
        snprintf(o->mark, sizeof(o->mark), "%s", mark);
        o->since_ms = uv_now(f->tasks->loop);
    }
    o->lease_ms = lease_ms;
    o->given_up = false;
    return o;
}

static void take_leases(struct kube_fronts *f, const cJSON *items)
{
    const cJSON *lease;
    uint64_t now_ms = uv_now(f->tasks->loop);
    bool was_away = f->heard_ms == 0 || now_ms - f->heard_ms > f->lease_ms;
    for (size_t i = 0; i < f->other_count; i++) {
        f->others[i].seen = false;
        f->others[i].since_ms = was_away ? now_ms : f->others[i].since_ms;
    }
    cJSON_ArrayForEach(lease, items)
    {
        const cJSON *metadata = json_get(lease, "metadata");
        const char *id = json_get_str(json_get(metadata, "labels"), KUBE_LABEL_FRONT);
        const char *mark = json_get_str(metadata, "resourceVersion");
        if (id == NULL || !kube_is_label(id) || mark == NULL) {
            continue;
        }
        if (strcmp(id, f->own) == 0) {
            snprintf(f->mark, sizeof(f->mark), "%s", mark);
            continue;
        }
        struct other *o = note_other(f, id, mark, kube_lease_time_ms(lease));
        if (o != NULL) {
            o->seen = true;
            o->given_up = kube_lease_is_given_up(lease);
        }
    }
    for (size_t i = 0; i < f->other_count; i++) {
        if (!f->others[i].seen && f->others[i].mark[0] != '\0') {
            note_other(f, f->others[i].id, "", f->lease_ms);
        }
        f->others[i].dead =
            f->others[i].given_up || now_ms - f->others[i].since_ms >= f->others[i].lease_ms;
    }
    f->heard_ms = now_ms;
}

/* Whether pods have to be looked at: of a server that is or may be dead, or ours. */
static bool wants_pods(const struct kube_fronts *f)
{
    bool wants = f->unsure || f->looked_ms == 0 || uv_now(f->tasks->loop) - f->looked_ms >= PODS_MS;
    for (size_t i = 0; i < f->other_count; i++) {
        wants = wants || f->others[i].mark[0] == '\0' || f->others[i].dead;
    }
    return wants;
}

/* ---- pods ---- */

static void count_round_down(struct kube_fronts *f)
{
    if (--f->pending > 0) {
        return;
    }
    if (f->list_err.code != 0) {
        fail_round(f, "pods of other servers could not be listed", &f->list_err);
    } else {
        end_round(f, 0, NULL);
    }
}

static void on_claimed(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct taken *t = arg;
    struct kube_fronts *f = t->fronts;
    t->ours = rc == 0;
    if (rc == 0) {
        log_info("sandbox %s is ours now, since its server is gone", t->sandbox);
    } else if (reply->status != 409 && !reply->is_absent) {
        log_warn("the pod of a server that is gone cannot be taken over: %s", err->text);
    } else {
        f->more = true;
    }
    f->unsure = f->unsure || rc < 0; /* a request that was repeated may have met its own change */
    count_round_down(f);
}

static void on_remains_gone(void *arg, int rc, const struct kube_reply *reply,
                            const struct err *err)
{
    struct kube_fronts *f = arg;
    if (rc < 0 && reply->status != 409 && !reply->is_absent) {
        log_warn("what a server that is gone has left stays: %s", err->text);
    }
    count_round_down(f);
}

static void remove_seen(struct kube_fronts *f, const char *path, const char *version)
{
    cJSON *body = json_build_new();
    json_build_string(body, "kind", "DeleteOptions");
    json_build_string(body, "apiVersion", "v1");
    json_build_string(json_build_object(body, "preconditions"), "resourceVersion", version);
    CLEANUP_FREE char *json = json_build_print(body);
    cJSON_Delete(body);
    struct kube_request request = {
        .method = "DELETE", .path = path, .json = json, .total_ms = CALL_MS};
    f->pending++;
    kube_api_call(f->api, &request, on_remains_gone, f);
}

static uint64_t turn_of(const cJSON *pod)
{
    const cJSON *annotations = json_get(json_get(pod, "metadata"), "annotations");
    const char *text = json_get_str(annotations, KUBE_ANNOTATION_TURN);
    uint64_t turn = 0;
    return text != NULL && str_to_u64(text, 0, TURNS_MAX, &turn, NULL) == 0 ? turn : 0;
}

char *kube_fronts_claim(const cJSON *pod, const char *own, const char *dir,
                        uint64_t *ret_generation)
{
    const cJSON *metadata = json_get(pod, "metadata");
    const char *version = json_get_str(metadata, "resourceVersion");
    const char *sandbox = json_get_str(json_get(metadata, "labels"), KUBE_LABEL_SANDBOX);
    char host[KUBE_HOST_SIZE];
    char turn[24];
    uint64_t next = turn_of(pod) + 1;
    if (version == NULL || sandbox == NULL || next > TURNS_MAX) {
        return NULL;
    }
    snprintf(turn, sizeof(turn), "%llu", (unsigned long long)next);
    kube_pod_host(host);
    CLEANUP_FREE char *place = alloc_printf("%s/%s", dir, sandbox);
    cJSON *body = json_build_new();
    cJSON *change = json_build_object(body, "metadata");
    json_build_string(change, "resourceVersion", version);
    cJSON *labels = json_build_object(change, "labels");
    json_build_string(labels, KUBE_LABEL_FRONT, own);
    json_build_string(labels, KUBE_LABEL_HOST, host);
    json_build_put(labels, KUBE_LABEL_SPARE, cJSON_CreateNull()); /* nobody else may claim it */
    cJSON *annotations = json_build_object(change, "annotations");
    json_build_string(annotations, KUBE_ANNOTATION_TURN, turn);
    owner_label(annotations, sandbox, place);
    char *text = json_build_print(body);
    cJSON_Delete(body);
    *ret_generation = next * KUBE_GENERATIONS;
    return text;
}

/* Keeps what is told of the pod if it becomes ours. */
static struct taken *note_taken(struct kube_fronts *f, const char *sandbox, const cJSON *pod)
{
    struct taken *t = &f->taken[f->taken_count];
    *t = (struct taken){.fronts = f};
    if (strlen(sandbox) >= sizeof(t->sandbox)) {
        return NULL;
    }
    snprintf(t->sandbox, sizeof(t->sandbox), "%s", sandbox);
    buf_init(&t->record, BACKEND_RECORD_MAX); /* a longer one counts as none */
    if (!kube_front_record(pod, &t->record)) {
        buf_finish(&t->record);
        return NULL;
    }
    f->taken_count++;
    return t;
}

/* Whether our server has a directory of it. */
static bool is_known(const struct kube_fronts *f, const char *sandbox)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", f->dir, sandbox);
    return access(path, F_OK) == 0;
}

static void take_pod(struct kube_fronts *f, const cJSON *pod, const char *name, const char *sandbox,
                     bool is_own)
{
    struct kube_state state = {.kind = KUBE_STATE_WAITING};
    CLEANUP_FREE char *path = kube_api_path(f->api, "pods", name);
    const char *version = json_get_str(json_get(pod, "metadata"), "resourceVersion");
    bool ended = kube_state_read(pod, &state, NULL) < 0 || state.kind == KUBE_STATE_ENDED;
    if (f->taken_count == BACKEND_TAKEN_MAX) {
        f->full = true;
        return;
    }
    struct taken *t = ended ? NULL : note_taken(f, sandbox, pod);
    if (is_own && t != NULL) {
        t->ours = true;
        t->generation = turn_of(pod) * KUBE_GENERATIONS;
    }
    if (is_own) {
        return;
    }
    CLEANUP_FREE char *change =
        t != NULL ? kube_fronts_claim(pod, f->own, f->dir, &t->generation) : NULL;
    if (change != NULL) {
        struct kube_request request = {
            .method = "PATCH", .path = path, .json = change, .total_ms = CALL_MS};
        f->pending++;
        kube_api_call(f->api, &request, on_claimed, t);
    } else if ((state.kind != KUBE_STATE_RUNNING || kube_front_is_spare(pod)) && version != NULL) {
        log_info("removing pod %s of a server that is gone, which nobody can use", name);
        remove_seen(f, path, version);
    }
}

static void take_pods(struct kube_fronts *f, const cJSON *items)
{
    const cJSON *pod;
    cJSON_ArrayForEach(pod, items)
    {
        const cJSON *metadata = json_get(pod, "metadata");
        const cJSON *labels = json_get(metadata, "labels");
        const char *name = json_get_str(metadata, "name");
        const char *front = json_get_str(labels, KUBE_LABEL_FRONT);
        const char *sandbox = json_get_str(labels, KUBE_LABEL_SANDBOX);
        if (name == NULL || !kube_is_label(name) || front == NULL || !kube_is_label(front) ||
            sandbox == NULL || !kube_state_is_of(pod, sandbox)) {
            continue;
        }
        if (strcmp(front, f->own) == 0) {
            if (!is_known(f, sandbox)) {
                take_pod(f, pod, name, sandbox, true);
            }
            continue;
        }
        struct other *o = NULL;
        for (size_t i = 0; i < f->other_count; i++) {
            o = strcmp(f->others[i].id, front) == 0 ? &f->others[i] : o;
        }
        o = o != NULL ? o : note_other(f, front, "", f->lease_ms);
        if (o != NULL) {
            o->has_pods = true;
        }
        if (o != NULL && o->dead && !is_known(f, sandbox)) {
            take_pod(f, pod, name, sandbox, false);
        }
    }
}

/* Forgets those of which nothing is left, and removes the leases of the dead among them. */
static void forget_others(struct kube_fronts *f)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->other_count; i++) {
        struct other *o = &f->others[i];
        bool over = !o->has_pods && o->dead;
        if (over && o->mark[0] != '\0') {
            CLEANUP_FREE char *path = kube_lease_path(f->api, o->id);
            log_info("server %s is gone, and nothing of it is left", o->id);
            remove_seen(f, path, o->mark);
        }
        if (!over) {
            f->others[kept++] = *o;
        }
    }
    f->other_count = kept;
}

static void ask_page(struct kube_fronts *f, const char *rest);

/* Only who has seen all pages knows of whom nothing is left. */
static void on_page(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_fronts *f = arg;
    if (rc < 0) {
        f->list_err = *err;
        count_round_down(f);
        return;
    }
    const char *rest = json_get_str(json_get(reply->json, "metadata"), "continue");
    take_pods(f, json_get(reply->json, "items"));
    if (f->full) {
        f->more = true;
        f->unsure = f->unsure || f->with_own;
    } else if (rest != NULL && rest[0] != '\0') {
        ask_page(f, rest);
        return;
    } else {
        forget_others(f);
        f->looked_ms = uv_now(f->tasks->loop);
    }
    count_round_down(f);
}

static void ask_page(struct kube_fronts *f, const char *rest)
{
    CLEANUP_FREE char *escaped = http_escape(rest);
    CLEANUP_FREE char *path =
        alloc_printf("%s%s%s", f->list, rest[0] != '\0' ? "&continue=" : "", escaped);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = CALL_MS};
    kube_api_call(f->api, &request, on_page, f);
}

static void list_pods(struct kube_fronts *f)
{
    CLEANUP_BUF struct buf alive;
    buf_init(&alive, (size_t)OTHERS_MAX * 64);
    f->with_own = f->unsure || f->looked_ms == 0;
    int rc = f->with_own ? 0 : buf_add_str(&alive, f->own, NULL);
    for (size_t i = 0; i < f->other_count; i++) {
        struct other *o = &f->others[i];
        o->has_pods = false;
        if (rc == 0 && o->mark[0] != '\0' && !o->dead) {
            rc = buf_printf(&alive, NULL, "%s%s", alive.len > 0 ? "," : "", o->id);
        }
    }
    const char *ids = rc == 0 && alive.len > 0 ? buf_cstr(&alive) : NULL;
    CLEANUP_FREE char *but =
        ids != NULL ? alloc_printf("," KUBE_LABEL_FRONT " notin (%s)", ids) : alloc_strdup("");
    CLEANUP_FREE char *labels =
        alloc_printf(KUBE_LABEL_MANAGED "=" KUBE_MANAGED "," KUBE_LABEL_FRONT "%s", but);
    CLEANUP_FREE char *escaped = http_escape(labels);
    CLEANUP_FREE char *pods = kube_api_path(f->api, "pods", "");
    free(f->list);
    f->list = alloc_printf("%s?labelSelector=%s&limit=%d", pods, escaped, PODS_MAX);
    f->unsure = false;
    f->pending = 1; /* the list itself */
    ask_page(f, "");
}

/* ---- leases ---- */

/* Of all servers; to be freed. */
static char *leases_list(const struct kube_fronts *f)
{
    CLEANUP_FREE char *escaped = http_escape(KUBE_LABEL_MANAGED "=" KUBE_MANAGED);
    CLEANUP_FREE char *leases = kube_lease_path(f->api, "");
    return alloc_printf("%s?labelSelector=%s", leases, escaped);
}

static void on_leases_listed(void *arg, int rc, const struct kube_reply *reply,
                             const struct err *err)
{
    struct kube_fronts *f = arg;
    if (rc < 0) {
        fail_round(f, "leases of other servers could not be listed", err);
        return;
    }
    take_leases(f, json_get(reply->json, "items"));
    if (wants_pods(f)) {
        list_pods(f);
    } else {
        end_round(f, 0, NULL);
    }
}

static void list_leases(struct kube_fronts *f)
{
    CLEANUP_FREE char *path = leases_list(f);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = CALL_MS};
    kube_api_call(f->api, &request, on_leases_listed, f);
}

static void on_lease_made(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_fronts *f = arg;
    if (rc < 0 && !reply->is_there) {
        fail_round(f, NO_LEASE, err);
    } else {
        list_leases(f);
    }
}

static void on_renewed(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_fronts *f = arg;
    if (reply->is_absent) {
        CLEANUP_FREE char *path = kube_lease_path(f->api, "");
        CLEANUP_FREE char *body = kube_lease_renew(f->own, f->lease_ms, true);
        struct kube_request request = {
            .method = "POST", .path = path, .json = body, .total_ms = CALL_MS};
        kube_api_call(f->api, &request, on_lease_made, f);
    } else if (rc < 0) {
        fail_round(f, NO_LEASE, err);
    } else {
        list_leases(f);
    }
}

static void begin_round(struct kube_fronts *f)
{
    f->state = ROUND_RUNS;
    f->alarmed = false;
    f->full = false;
    f->more = false;
    f->list_err = (struct err)ERR_INIT;
    CLEANUP_FREE char *path = kube_lease_path(f->api, f->own);
    CLEANUP_FREE char *body = kube_lease_renew(f->own, f->lease_ms, false);
    struct kube_request request = {
        .method = "PATCH", .path = path, .json = body, .total_ms = CALL_MS};
    kube_api_call(f->api, &request, on_renewed, f);
}

static void on_round_due(uv_timer_t *timer)
{
    begin_round(timer->data);
}

void kube_fronts_round(struct kube_fronts *f, uint64_t lease_ms, uint64_t wait_ms,
                       backend_front_fn done, void *arg)
{
    f->lease_ms = lease_ms;
    f->done = done;
    f->arg = arg;
    f->state = ROUND_WAITS;
    uv_timer_start(&f->timer, on_round_due, f->alarmed ? 0 : wait_ms, 0);
}

/* What a watch tells is only a reason to look. */
static void on_lease_seen(void *arg, const struct kube_seen *seen)
{
    struct kube_fronts *f = arg;
    const char *id =
        json_get_str(json_get(json_get(seen->pod, "metadata"), "labels"), KUBE_LABEL_FRONT);
    bool is_end = seen->pod != NULL && !seen->is_gone && id != NULL && strcmp(id, f->own) != 0 &&
                  kube_lease_is_given_up(seen->pod);
    if (!is_end && !seen->is_anew) {
        return;
    }
    f->alarmed = true;
    if (f->state == ROUND_WAITS) {
        uv_timer_start(&f->timer, on_round_due, 0, 0);
    }
}

/* ---- the end ---- */

static void on_given_up(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_fronts *f = arg;
    bool is_ours = rc == 0 || (!reply->is_absent && reply->status != 409);
    f->mark[0] = '\0';
    if (rc == 0) {
        log_info("the lease is given up: other servers take over what this one leaves");
    }
    f->left(f->left_arg, is_ours ? rc : 0, err, "");
}

static void on_nothing_given_up(void *arg)
{
    struct kube_fronts *f = arg;
    f->left(f->left_arg, 0, NULL, "");
}

/* If it has changed meanwhile, it is somebody's who has taken it from us. */
static void give_lease_up(struct kube_fronts *f)
{
    if (f->mark[0] == '\0') {
        task_later(f->tasks, 0, on_nothing_given_up, f);
        return;
    }
    CLEANUP_FREE char *path = kube_lease_path(f->api, f->own);
    CLEANUP_FREE char *body = kube_lease_give_up(f->mark);
    struct kube_request request = {
        .method = "PATCH", .path = path, .json = body, .total_ms = GIVE_UP_MS};
    kube_api_call(f->api, &request, on_given_up, f);
}

void kube_fronts_leave(struct kube_fronts *f, backend_done_fn left, void *arg)
{
    f->left = left;
    f->left_arg = arg;
    if (f->state == ROUND_NONE) {
        give_lease_up(f);
    } else if (f->state == ROUND_WAITS) {
        uv_timer_stop(&f->timer);
        f->more = false;
        end_round(f, 0, NULL);
    } /* else it goes on when the round ends */
}

/* ---- the object ---- */

static void on_fronts_timer_closed(uv_handle_t *handle)
{
    struct kube_fronts *f = handle->data;
    task_leave(&f->task);
}

static void drop_fronts(struct task *task)
{
    struct kube_fronts *f = (struct kube_fronts *)task;
    uv_close((uv_handle_t *)&f->timer, on_fronts_timer_closed);
}

int kube_fronts_create(struct tasks *tasks, struct kube_api *api, const struct backend_spec *spec,
                       struct kube_fronts **ret, struct err *err)
{
    CLEANUP_FREE char *own = kube_front_own(spec->shared_dir);
    const char *slash = strrchr(spec->dir, '/');
    if (own == NULL || slash == NULL) {
        return err_set(err, ERR_CONFIG, "this server has no name among others");
    }
    struct kube_fronts *f = alloc_one(struct kube_fronts);
    f->tasks = tasks;
    f->api = api;
    f->own = STEAL_PTR(own);
    /* this worker's own directory lies beside those of all sandboxes */
    f->dir = alloc_viewdup(view_bytes(spec->dir, (size_t)(slash - spec->dir)));
    uv_timer_init(tasks->loop, &f->timer);
    f->timer.data = f;
    task_enter(tasks, &f->task, drop_fronts);
    CLEANUP_FREE char *leases = leases_list(f);
    f->watch = kube_watch_list(tasks, api, leases, "leases", on_lease_seen, f);
    *ret = f;
    return 0;
}

void kube_fronts_free(struct kube_fronts *f)
{
    if (f != NULL) {
        drop_taken(f);
        free(f->own);
        free(f->dir);
        free(f->list);
        free(f);
    }
}
