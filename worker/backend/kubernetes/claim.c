/*
 *     its own server:   made --> OFFERED -- put a record, and take the label off --> given
 *                                   |
 *     another server:               '--- change whose it is, and take the label off --> claimed
 *
 * A pod is offered by a label, whose value says what it is like. Both ways out of OFFERED are one
 * change that holds only for the resourceVersion that was seen, so exactly one of them happens. The
 * label is never put on again: a pod is given once. A conflict alone says nothing, since a node
 * also changes its pods: the pod is looked at, and if it is still what it was the change is sent
 * again, some times.
 *
 * The own server waits for its change before it tells a client, as it does with the record of any
 * sandbox, so this costs it no request.
 *
 * Another server takes only what is in every way what it would make itself. It compares all of the
 * pod's specification by its hash: image, limits, runtime, and the agent, whose parts are named
 * after what is in them.
 */
#include "worker/backend/kubernetes/claim.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/kubernetes/agent.h"
#include "worker/backend/kubernetes/event.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/fronts.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/state.h"

#define TRIES_MAX  5
#define CALL_MS    3000
#define RECORD_MAX ((size_t)64 << 10)

int kube_claim_like(const struct backend_spec *spec, char **ret, struct err *err)
{
    struct kube_agent *agent;
    int rc = kube_agent_read(spec->agent_path, &agent, err);
    if (rc == 0) {
        rc = kube_pod_like(spec, agent, ret, err);
        kube_agent_free(agent);
    }
    return rc;
}

/* Whether it is on offer, whosever it is. */
static bool is_offered(const cJSON *pod)
{
    return json_get_str(json_get(json_get(pod, "metadata"), "labels"), KUBE_LABEL_SPARE) != NULL &&
           kube_front_is_spare(pod);
}

/* ---- its own server ------------------------------------------------------------------------- */

struct kube_keep {
    struct kube_api *api;
    const struct backend_spec *spec;
    char *path, *own;
    bool contested;                  /* it was offered, or may have been: others may have it */
    char version[KUBE_VERSION_SIZE]; /* of the pod while it is ours and contested; "": not known */
    struct buf record;
    unsigned tries;
    uint64_t call_ms;
    kube_reply_fn done;
    void *arg;
};

static int put_record(struct kube_keep *k, struct err *err);

static void end_keep(struct kube_keep *k, int rc, const struct kube_reply *reply,
                     const struct err *err)
{
    k->done(k->arg, rc, reply, err);
}

static void on_contested(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_keep *k = arg;
    struct err unsent = ERR_INIT;
    if (rc < 0 || kube_front_is_others(reply->json, k->own)) {
        end_keep(k, rc, reply, err);
        return;
    }
    kube_event_version(reply->json, k->version);
    rc = put_record(k, &unsent);
    if (rc < 0) {
        end_keep(k, rc, &(struct kube_reply){.status = 0}, &unsent);
    }
}

static void look_at_contested(struct kube_keep *k)
{
    struct kube_request request = {.method = "GET", .path = k->path, .total_ms = k->call_ms};
    kube_api_call(k->api, &request, on_contested, k);
}

static void on_record_put(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_keep *k = arg;
    if (rc < 0 && k->contested && reply->status == 409 && ++k->tries < TRIES_MAX) {
        look_at_contested(k);
        return;
    }
    k->version[0] = '\0';
    if (rc == 0) {
        k->contested = is_offered(reply->json);
        kube_event_version(reply->json, k->version);
    }
    end_keep(k, rc, reply, err);
}

/* The offer, too, holds only for what was seen: one that arrives late, after it was given up for
 * lost, must not offer a pod that has been given meanwhile. */
static int put_record(struct kube_keep *k, struct err *err)
{
    struct err unlike = ERR_INIT;
    CLEANUP_FREE char *like = NULL;
    CLEANUP_FREE char *change = NULL;
    if (k->record.len == 0 && kube_claim_like(k->spec, &like, &unlike) < 0) {
        log_debug("the pod is offered to nobody: %s", unlike.text);
    }
    int rc = kube_front_keep(view_bytes(k->record.data, k->record.len), like,
                             k->contested ? k->version : NULL, &change, err);
    if (rc < 0) {
        return rc;
    }
    struct kube_request request = {
        .method = "PATCH", .path = k->path, .json = change, .total_ms = k->call_ms};
    kube_api_call(k->api, &request, on_record_put, k);
    return 0;
}

int kube_keep_put(struct kube_keep *k, struct view record, uint64_t call_ms, kube_reply_fn done,
                  void *arg, struct err *err)
{
    k->record.len = 0;
    k->tries = 0;
    k->call_ms = call_ms;
    k->done = done;
    k->arg = arg;
    int rc = buf_add(&k->record, record.data, record.len, err);
    if (rc < 0) {
        return rc;
    }
    k->contested = k->contested || record.len == 0;
    if (!k->contested || k->version[0] != '\0') {
        return put_record(k, err);
    }
    look_at_contested(k);
    return 0;
}

void kube_keep_saw(struct kube_keep *k, const cJSON *pod)
{
    /* never the version of a pod that another server has claimed: our change would hold for it */
    if (k != NULL && k->contested && is_offered(pod) && !kube_front_is_others(pod, k->own)) {
        kube_event_version(pod, k->version);
    }
}

struct kube_keep *kube_keep_create(struct kube_api *api, const struct backend_spec *spec,
                                   const char *pod, const char *own)
{
    struct kube_keep *k = alloc_one(struct kube_keep);
    k->api = api;
    k->spec = spec;
    k->path = kube_api_path(api, "pods", pod);
    k->own = own != NULL ? alloc_strdup(own) : NULL;
    buf_init(&k->record, RECORD_MAX);
    return k;
}

void kube_keep_free(struct kube_keep *k)
{
    if (k != NULL) {
        buf_finish(&k->record);
        free(k->path);
        free(k->own);
        free(k);
    }
}

/* ---- another server ------------------------------------------------------------------------- */

struct kube_claim {
    struct kube_api *api;
    const struct backend_spec *spec;
    char *path, *own, *dir; /* `dir` has the directories of our sandboxes */
    char *like;
    unsigned tries;
    kube_reply_fn done;
    void *arg;
};

static void look_at_offer(struct kube_claim *c);

void kube_claim_free(struct kube_claim *c)
{
    if (c != NULL) {
        free(c->path);
        free(c->own);
        free(c->dir);
        free(c->like);
        free(c);
    }
}

static void end_claim(struct kube_claim *c, int rc, const struct kube_reply *reply,
                      const struct err *err)
{
    kube_reply_fn done = c->done;
    void *arg = c->arg;
    kube_claim_free(c);
    done(arg, rc, reply, err);
}

static void refuse_claim(struct kube_claim *c, const char *why)
{
    struct err err = ERR_INIT;
    int rc = err_set(&err, ERR_BUSY, "the pod that another server has made in advance: %s", why);
    end_claim(c, rc, &(struct kube_reply){.status = 0}, &err);
}

static void on_offer_claimed(void *arg, int rc, const struct kube_reply *reply,
                             const struct err *err)
{
    struct kube_claim *c = arg;
    if (rc < 0 && reply->status == 409 && ++c->tries < TRIES_MAX) {
        look_at_offer(c);
    } else if (rc < 0) {
        refuse_claim(c, err->text);
    } else {
        end_claim(c, 0, reply, NULL);
    }
}

/* Why it is not to be had; NULL if it is. */
static const char *reject_offer(const struct kube_claim *c, const cJSON *pod)
{
    struct kube_state state;
    const cJSON *labels = json_get(json_get(pod, "metadata"), "labels");
    const char *like = json_get_str(labels, KUBE_LABEL_SPARE);
    if (kube_state_read(pod, &state, NULL) < 0 || state.kind != KUBE_STATE_RUNNING) {
        return "it does not run any more";
    }
    if (!kube_state_is_of(pod, c->spec->id)) {
        return "its name is another's";
    }
    if (!is_offered(pod) || json_get_str(labels, KUBE_LABEL_FRONT) == NULL ||
        !kube_front_is_others(pod, c->own)) {
        return "somebody was quicker";
    }
    return strcmp(like, c->like) != 0 ? "it is not like those that are made here" : NULL;
}

static void on_offer_seen_now(void *arg, int rc, const struct kube_reply *reply,
                              const struct err *err)
{
    struct kube_claim *c = arg;
    uint64_t generation = 0;
    const char *why = rc < 0 ? err->text : reject_offer(c, reply->json);
    CLEANUP_FREE char *change =
        why == NULL ? kube_fronts_claim(reply->json, c->own, c->dir, &generation) : NULL;
    if (why == NULL && generation != KUBE_GENERATIONS) {
        why = "it was somebody's before";
    }
    if (why != NULL) {
        refuse_claim(c, why);
        return;
    }
    struct kube_request request = {
        .method = "PATCH", .path = c->path, .json = change, .total_ms = CALL_MS};
    kube_api_call(c->api, &request, on_offer_claimed, c);
}

static void look_at_offer(struct kube_claim *c)
{
    struct kube_request request = {.method = "GET", .path = c->path, .total_ms = CALL_MS};
    kube_api_call(c->api, &request, on_offer_seen_now, c);
}

struct kube_claim *kube_claim_start(struct kube_api *api, const struct backend_spec *spec,
                                    const char *pod, const char *own, kube_reply_fn done, void *arg)
{
    struct kube_claim *c = alloc_one(struct kube_claim);
    const char *slash = strrchr(spec->dir, '/');
    struct err err = ERR_INIT;
    c->api = api;
    c->spec = spec;
    c->path = kube_api_path(api, "pods", pod);
    c->own = alloc_strdup(own);
    c->dir = alloc_viewdup(view_bytes(spec->dir, slash != NULL ? (size_t)(slash - spec->dir) : 0));
    c->done = done;
    c->arg = arg;
    if (kube_claim_like(spec, &c->like, &err) < 0) {
        c->like = alloc_strdup(""); /* no pod is like it */
    }
    look_at_offer(c);
    return c;
}
