/*
 * The `kubernetes` backend: a sandbox is one pod of a cluster. This file has the order of the
 * steps; the other files do them, see README.md.
 *
 * The pod's name is derived from the sandbox's id, so it can be found without a record: the cluster
 * has all state. The object has only the connection, made when it is first needed, and the first
 * stream of a creation.
 *
 * An API server that does not answer is -ERR_ENGINE, after which the caller may retry. -ERR_GONE is
 * returned only if the server says that the pod does not exist or does not run.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "worker/backend/backend.h"
#include "worker/backend/kubernetes/api.h"
#include "worker/backend/kubernetes/claim.h"
#include "worker/backend/kubernetes/create.h"
#include "worker/backend/kubernetes/end.h"
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/fronts.h"
#include "worker/backend/kubernetes/offers.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/probe.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/kubernetes/stream.h"
#include "worker/backend/kubernetes/watch.h"
#include "worker/backend/spec_copy.h"
#include "worker/backend/task.h"

#define HINT_CLUSTER                                                                               \
    "name a kubeconfig with --engine or KUBECONFIG and see that `kubectl get pods` works with "    \
    "it; "                                                                                         \
    "`cloister doctor --backend kubernetes` shows what was tried"

#define USAGE_MS 3000
#define KEEP_MS  5000

/* Requests that have been accepted and begin in the loop's next turn. */
enum { WANT_CREATE = 1, WANT_ATTACH = 2, WANT_DESTROY = 4 };

struct kube {
    struct backend base;
    struct tasks tasks;
    struct kube_api *api;     /* NULL until it is needed */
    struct spec_copy request; /* the last spec */
    bool has_request;
    char *pod;
    char *front; /* the id of our server; NULL: it is alone */
    int fd;      /* first stream of a creation until it is requested; else -1 */
    unsigned wanted;
    bool called;        /* on_turn() is under way */
    struct err refusal; /* why `wanted` cannot be done; code 0: it can */

    struct kube_probe *probing;
    backend_probe_fn probe_done;
    void *probe_arg;
    struct kube_create *creating;
    backend_create_fn create_done;
    void *create_arg;
    backend_create_fn attach_done;
    void *attach_arg;
    backend_stream_fn stream_done;
    void *stream_arg;
    struct err stream_err;
    backend_usage_fn usage_done;
    void *usage_arg;
    struct kube_watch *watch; /* of the pod while it lives */
    bool asks_whose;          /* since the watch says that it is another server's */
    struct err ended; /* why the pod has ended, as the watch has seen it; code 0: it lives */
    struct kube_claim *claiming;
    struct kube_keep *keep; /* NULL until a record is kept */
    backend_done_fn keep_done;
    void *keep_arg;
    struct err keep_err;
    struct kube_fronts *fronts; /* NULL until the first round */
    struct kube_offers *offers; /* NULL until they are asked for */
    backend_offers_fn offers_done;
    void *offers_arg;
    struct err offers_err;
    backend_front_fn front_done;
    void *front_arg;
    struct err front_err;
    struct kube_end *ending;
    backend_done_fn destroy_done; /* set from the call of destroy to its end */
    void *destroy_arg;

    size_t open; /* parts still on the loop while closing */
    void (*closed)(void *arg);
    void *closed_arg;
};

static struct kube *kube_of(struct backend *b)
{
    return (struct kube *)b;
}

static struct backend *kube_open(uv_loop_t *loop)
{
    struct kube *k = alloc_one(struct kube);
    k->base.ops = &backend_kubernetes;
    k->fd = -1;
    tasks_init(&k->tasks, loop);
    return &k->base;
}

/* ---- connection ----------------------------------------------------------------------------- */

static int connect_cluster(struct kube *k, const struct place *place, struct err *err)
{
    struct kube_cluster cluster = {.server = NULL};
    if (k->api != NULL) {
        return 0;
    }
    int rc = kube_cluster_find(place, kube_probe_getenv, NULL, &cluster, err);
    rc = rc < 0 ? rc : kube_cluster_load(&cluster, err);
    rc = rc < 0 ? rc : kube_api_create(&k->tasks, &cluster, &k->api, err);
    if (rc < 0) {
        kube_cluster_finish(&cluster);
    }
    return rc;
}

static void kube_begin_create(struct kube *k);
static void kube_begin_attach(struct kube *k);
static void begin_destroy(struct kube *k);

static void refuse_wanted(struct kube *k, unsigned wanted)
{
    const struct err err = k->refusal;
    if (wanted & WANT_CREATE) {
        k->create_done(k->create_arg, -err.code, NULL, &err, HINT_CLUSTER);
    }
    if (wanted & WANT_ATTACH) {
        k->attach_done(k->attach_arg, -err.code, NULL, &err, HINT_CLUSTER);
    }
    if (wanted & WANT_DESTROY) {
        backend_done_fn done = k->destroy_done;
        k->destroy_done = NULL;
        done(k->destroy_arg, -err.code, &err, HINT_CLUSTER);
    }
}

static void on_turn(void *arg)
{
    struct kube *k = arg;
    unsigned wanted = k->wanted;
    k->wanted = 0;
    k->called = false;
    if (k->refusal.code != 0) {
        refuse_wanted(k, wanted);
        return;
    }
    if (wanted & WANT_CREATE) {
        kube_begin_create(k);
    }
    if (wanted & WANT_ATTACH) {
        kube_begin_attach(k);
    }
    if (wanted & WANT_DESTROY) {
        begin_destroy(k);
    }
}

/* Copies a spec, connects, and starts `want` with both in the next turn. */
static void with_cluster(struct kube *k, const struct backend_spec *spec, unsigned want)
{
    k->wanted |= want;
    if (k->called) {
        return;
    }
    k->called = true;
    if (k->has_request) {
        spec_copy_finish(&k->request);
        free(STEAL_PTR(k->pod));
        free(STEAL_PTR(k->front));
    }
    k->refusal = (struct err)ERR_INIT;
    int rc = spec_copy_init(&k->request, spec, &k->refusal);
    k->has_request = rc == 0;
    if (rc == 0) {
        k->front = kube_front_own(k->request.spec.shared_dir);
        k->pod = kube_pod_name(k->request.spec.id);
        rc = k->pod != NULL
                 ? connect_cluster(k, &k->request.spec.place, &k->refusal)
                 : err_set(&k->refusal, ERR_INVALID, "the sandbox's id makes no name of a pod");
    }
    err_ignore(rc); /* kept in `refusal` */
    task_later(&k->tasks, 0, on_turn, k);
}

/* ---- probe ---------------------------------------------------------------------------------- */

static void on_kube_probe(void *arg, const struct backend_probe *probe)
{
    struct kube *k = arg;
    k->probing = NULL;
    k->probe_done(k->probe_arg, probe);
}

static void kube_probe(struct backend *b, const struct backend_spec *spec, backend_probe_fn done,
                       void *arg)
{
    struct kube *k = kube_of(b);
    struct err err = ERR_INIT;
    k->probe_done = done;
    k->probe_arg = arg;
    bool connected = connect_cluster(k, &spec->place, &err) == 0;
    k->probing = kube_probe_start(&k->tasks, connected ? k->api : NULL, &err, spec->runtime,
                                  on_kube_probe, k);
}

static void ask_pod(struct kube *k, uint64_t total_ms, kube_reply_fn done)
{
    CLEANUP_FREE char *path = kube_api_path(k->api, "pods", k->pod);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = total_ms};
    kube_api_call(k->api, &request, done, k);
}

/* ---- the pod's end --------------------------------------------------------------------------- */

/* A watch may begin with what was long ago, so only an answer counts. */
static void on_kube_whose(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube *k = arg;
    (void)err; /* the next event asks again, and so does the loss of the stream */
    k->asks_whose = false;
    if (rc == 0 && kube_front_is_others(reply->json, k->front)) {
        k->request.spec.taken(k->request.spec.taken_arg);
    }
}

/* The stream to the agent tells when it ends; this keeps why, since a pod that was deleted cannot
 * be asked any more. */
static void on_kube_seen(void *arg, const struct kube_seen *seen)
{
    struct kube *k = arg;
    struct kube_state state;
    if (seen->pod != NULL && kube_state_is_of(seen->pod, k->request.spec.id) &&
        kube_state_read(seen->pod, &state, NULL) == 0 && state.kind == KUBE_STATE_ENDED) {
        k->ended = state.err;
    }
    if (seen->pod != NULL) {
        kube_keep_saw(k->keep, seen->pod);
    }
    if (seen->pod != NULL && kube_front_is_others(seen->pod, k->front)) {
        err_ignore(err_set(&k->ended, ERR_GONE, BACKEND_ENDED KUBE_TAKEN_BY_ANOTHER));
        if (!k->asks_whose && k->request.spec.taken != NULL) {
            k->asks_whose = true;
            ask_pod(k, USAGE_MS, on_kube_whose);
        }
    }
    if (seen->is_gone) {
        kube_watch_stop(STEAL_PTR(k->watch));
    }
}

static void look_after_pod(struct kube *k)
{
    k->ended = (struct err)ERR_INIT;
    k->watch =
        kube_watch_start(&k->tasks, k->api, k->pod, KUBE_WATCH_LASTING, NULL, on_kube_seen, k);
}

/* ---- create, destroy ------------------------------------------------------------------------ */

static void fill_info(const struct kube *k, struct backend_info *ret)
{
    unsigned minor = 0;
    const struct backend_spec *spec = &k->request.spec;
    bool known = kube_mode_unpack(spec->mode, &minor);
    *ret = (struct backend_info){.runtime = spec->runtime, .image = spec->image};
    ret->unapplied_count = kube_pod_unapplied(known ? minor : 0, spec->network, ret->unapplied);
}

static void on_kube_create(void *arg, int rc, int fd, const struct err *err, const char *hint)
{
    struct kube *k = arg;
    struct backend_info info;
    k->creating = NULL;
    k->fd = fd;
    fill_info(k, &info);
    if (rc == 0) {
        look_after_pod(k);
    }
    /* read before the callback, which may call destroy itself */
    bool cancelled = k->destroy_done != NULL;
    k->create_done(k->create_arg, rc, rc == 0 ? &info : NULL, err, hint);
    if (cancelled && k->closed == NULL) {
        begin_destroy(k);
    }
}

static void kube_begin_create(struct kube *k)
{
    struct err err = ERR_INIT;
    if (k->destroy_done != NULL) { /* destroy was called before it began */
        err_ignore(err_set(&err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        k->create_done(k->create_arg, -ERR_SHUTTING_DOWN, NULL, &err, "");
        return;
    }
    k->creating = kube_create_start(&k->tasks, k->api, &k->request.spec, on_kube_create, k);
}

static void kube_create(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                        void *arg)
{
    struct kube *k = kube_of(b);
    k->create_done = done;
    k->create_arg = arg;
    with_cluster(k, spec, WANT_CREATE);
}

static void on_kube_destroy(void *arg, int rc, const struct err *err)
{
    struct kube *k = arg;
    backend_done_fn done = k->destroy_done;
    k->ending = NULL;
    k->destroy_done = NULL;
    done(k->destroy_arg, rc, err,
         rc == 0 ? ""
                 : "`kubectl delete pod` removes it by hand; `cloister` sweeps what is left at its "
                   "next start");
}

static void begin_destroy(struct kube *k)
{
    if (k->creating != NULL) {
        kube_create_cancel(k->creating); /* on_kube_create() goes on from there */
        return;
    }
    kube_watch_stop(STEAL_PTR(k->watch));
    k->ending =
        kube_end_start(&k->tasks, k->api, k->request.spec.id, k->pod, k->front, on_kube_destroy, k);
}

static void kube_destroy(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                         void *arg)
{
    struct kube *k = kube_of(b);
    k->destroy_done = done;
    k->destroy_arg = arg;
    if (k->creating != NULL) {
        begin_destroy(k);
    } else {
        with_cluster(k, spec, WANT_DESTROY);
    }
}

/* ---- attach --------------------------------------------------------------------------------- */

/* What an answer to a GET of the pod says about the sandbox: 0 if it runs, -ERR_GONE if it
 * certainly does not, else another error. */
static int judge_pod(const struct kube *k, int rc, const struct kube_reply *reply,
                     const struct err *failure, struct kube_state *state, struct err *err)
{
    *state = (struct kube_state){.kind = KUBE_STATE_WAITING};
    if (reply->is_absent && k->ended.code != 0) {
        *err = k->ended;
        return -ERR_GONE;
    }
    if (reply->is_absent) {
        return err_set(err, ERR_GONE, BACKEND_ENDED "its pod was deleted");
    }
    if (rc < 0) {
        *err = *failure;
        return rc == -ERR_GONE ? -(err->code = ERR_ENGINE) : rc;
    }
    rc = kube_state_read(reply->json, state, err);
    if (rc < 0) {
        return rc;
    }
    if (!kube_state_is_of(reply->json, k->request.spec.id)) {
        return err_set(err, ERR_GONE, BACKEND_ENDED "its pod's name is another's");
    }
    if (kube_front_is_others(reply->json, k->front)) {
        return err_set(err, ERR_GONE, BACKEND_ENDED KUBE_TAKEN_BY_ANOTHER);
    }
    if (state->kind == KUBE_STATE_ENDED || state->kind == KUBE_STATE_HOPELESS) {
        *err = state->err;
        err->code = ERR_GONE;
        return -ERR_GONE;
    }
    return 0;
}

static void on_kube_found(void *arg, int rc, const struct kube_reply *reply,
                          const struct err *failure)
{
    struct kube *k = arg;
    struct kube_state state;
    struct backend_info info;
    struct err err = ERR_INIT;
    k->claiming = NULL;
    rc = judge_pod(k, rc, reply, failure, &state, &err);
    if (rc == 0 && state.kind != KUBE_STATE_RUNNING) {
        rc = err_set(&err, ERR_GONE, BACKEND_ENDED "its pod never came to life");
    }
    fill_info(k, &info);
    if (rc == 0) {
        look_after_pod(k);
    }
    k->attach_done(k->attach_arg, rc, rc == 0 ? &info : NULL, rc == 0 ? NULL : &err,
                   rc == 0 || rc == -ERR_GONE ? "" : HINT_CLUSTER);
}

static void kube_begin_attach(struct kube *k)
{
    if (k->request.spec.claim && k->front != NULL) {
        k->claiming =
            kube_claim_start(k->api, &k->request.spec, k->pod, k->front, on_kube_found, k);
    } else {
        ask_pod(k, 0, on_kube_found);
    }
}

static void kube_attach(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                        void *arg)
{
    struct kube *k = kube_of(b);
    k->attach_done = done;
    k->attach_arg = arg;
    with_cluster(k, spec, WANT_ATTACH);
}

/* ---- stream, usage -------------------------------------------------------------------------- */

/* The owner is told why there is no stream: what became of the pod says more than an exec. A pod
 * that runs, or that nobody can be asked about, is a sandbox that does not answer and may do so
 * again: servers and nodes are restarted, which takes longer than a link waits for one that has
 * been refused. */
static void on_stream_judged(void *arg, int rc, const struct kube_reply *reply,
                             const struct err *failure)
{
    struct kube *k = arg;
    struct kube_state state;
    struct err err = ERR_INIT;
    if (judge_pod(k, rc, reply, failure, &state, &err) != -ERR_GONE) {
        err = k->stream_err;
        err.code = ERR_TIMEOUT;
    }
    k->stream_done(k->stream_arg, -err.code, -1, &err);
}

static void on_kube_stream(void *arg, int rc, int fd, const struct err *err)
{
    struct kube *k = arg;
    if (rc == 0) {
        k->stream_done(k->stream_arg, 0, fd, NULL);
        return;
    }
    k->stream_err = *err;
    ask_pod(k, USAGE_MS, on_stream_judged);
}

/* Reports the stream of the creation, or -ERR_GONE. */
static void on_kube_first_stream(void *arg)
{
    struct kube *k = arg;
    struct err err = ERR_INIT;
    int fd = k->fd;
    k->fd = -1;
    if (fd >= 0) {
        k->stream_done(k->stream_arg, 0, fd, NULL);
    } else {
        err_ignore(err_set(&err, ERR_GONE, "there is no sandbox"));
        k->stream_done(k->stream_arg, -ERR_GONE, -1, &err);
    }
}

static void kube_stream(struct backend *b, backend_stream_fn done, void *arg)
{
    struct kube *k = kube_of(b);
    k->stream_done = done;
    k->stream_arg = arg;
    if (k->fd >= 0 || k->api == NULL || k->pod == NULL) {
        task_later(&k->tasks, 0, on_kube_first_stream, k);
    } else {
        kube_stream_open(&k->tasks, k->api, k->pod, on_kube_stream, k);
    }
}

/* A cluster has figures only with a metrics server, and those are some fifteen seconds old. The
 * agent knows better; what the cluster knows is whether a pod ended for want of memory. */
static void on_usage(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube *k = arg;
    struct kube_state state = {.kind = KUBE_STATE_WAITING};
    struct err err = ERR_INIT;
    rc = rc < 0 ? rc : kube_state_read(reply->json, &state, &err);
    if (rc < 0) {
        k->usage_done(k->usage_arg, rc, NULL, failure != NULL ? failure : &err);
        return;
    }
    struct backend_usage usage = {.oom_kills = state.was_oom ? 1 : 0, .oom_kills_coarse = true};
    k->usage_done(k->usage_arg, 0, &usage, NULL);
}

static void on_kube_no_usage(void *arg)
{
    struct kube *k = arg;
    struct err err = ERR_INIT;
    err_ignore(err_set(&err, ERR_GONE, "there is no sandbox"));
    k->usage_done(k->usage_arg, -ERR_GONE, NULL, &err);
}

static void kube_usage(struct backend *b, backend_usage_fn done, void *arg)
{
    struct kube *k = kube_of(b);
    k->usage_done = done;
    k->usage_arg = arg;
    if (k->api == NULL || k->pod == NULL) {
        task_later(&k->tasks, 0, on_kube_no_usage, k);
    } else {
        ask_pod(k, USAGE_MS, on_usage);
    }
}

/* ---- among other servers --------------------------------------------------------------------- */

/* The answer is the pod as it is with the record. If that is being removed, or another's, the
 * record came too late. */
static void on_kube_kept(void *arg, int rc, const struct kube_reply *reply,
                         const struct err *failure)
{
    struct kube *k = arg;
    struct kube_state state;
    struct err err = ERR_INIT;
    rc = judge_pod(k, rc, reply, failure, &state, &err);
    k->keep_done(k->keep_arg, rc, rc < 0 ? &err : NULL, "");
}

static void on_kube_not_kept(void *arg)
{
    struct kube *k = arg;
    k->keep_done(k->keep_arg, -k->keep_err.code, &k->keep_err, "");
}

static void kube_keep(struct backend *b, struct view record, backend_done_fn done, void *arg)
{
    struct kube *k = kube_of(b);
    bool is_there = k->api != NULL && k->pod != NULL;
    k->keep_done = done;
    k->keep_arg = arg;
    k->keep_err = (struct err)ERR_INIT;
    if (is_there && k->keep == NULL) {
        k->keep = kube_keep_create(k->api, &k->request.spec, k->pod, k->front);
    }
    int rc = is_there ? kube_keep_put(k->keep, record, KEEP_MS, on_kube_kept, k, &k->keep_err)
                      : err_set(&k->keep_err, ERR_GONE, "there is no sandbox");
    if (rc < 0) {
        task_later(&k->tasks, 0, on_kube_not_kept, k);
    }
}

static void on_no_offers(void *arg)
{
    struct kube *k = arg;
    k->offers_done(k->offers_arg, -k->offers_err.code, NULL, 0, 0, &k->offers_err);
}

/* Both are made once: what is asked for is the same each time. */
static int begin_offers(struct kube *k, const struct backend_spec *spec, struct err *err)
{
    CLEANUP_FREE char *like = NULL;
    CLEANUP_FREE char *own = kube_front_own(spec->shared_dir);
    if (k->offers != NULL) {
        return 0;
    }
    if (own == NULL || k->api == NULL) {
        return err_set(err, ERR_BUSY, "this server has done no round among others");
    }
    int rc = kube_claim_like(spec, &like, err);
    if (rc == 0) {
        k->offers = kube_offers_create(&k->tasks, k->api, like, own);
    }
    return rc;
}

static void kube_offers(struct backend *b, const struct backend_spec *spec, uint64_t wait_ms,
                        backend_offers_fn done, void *arg)
{
    struct kube *k = kube_of(b);
    k->offers_done = done;
    k->offers_arg = arg;
    k->offers_err = (struct err)ERR_INIT;
    if (begin_offers(k, spec, &k->offers_err) < 0) {
        task_later(&k->tasks, 0, on_no_offers, k);
    } else {
        kube_offers_ask(k->offers, wait_ms, done, arg);
    }
}

static void on_no_front(void *arg)
{
    struct kube *k = arg;
    k->front_done(k->front_arg, -k->front_err.code, NULL, 0, false, &k->front_err);
}

static void kube_front(struct backend *b, const struct backend_spec *spec, uint64_t lease_ms,
                       uint64_t wait_ms, backend_front_fn done, void *arg)
{
    struct kube *k = kube_of(b);
    k->front_done = done;
    k->front_arg = arg;
    k->front_err = (struct err)ERR_INIT;
    int rc = connect_cluster(k, &spec->place, &k->front_err);
    if (rc == 0 && k->fronts == NULL) {
        rc = kube_fronts_create(&k->tasks, k->api, spec, &k->fronts, &k->front_err);
    }
    if (rc < 0) {
        task_later(&k->tasks, 0, on_no_front, k);
    } else {
        kube_fronts_round(k->fronts, lease_ms, wait_ms, done, arg);
    }
}

static void on_never_among(void *arg)
{
    struct kube *k = arg;
    k->keep_done(k->keep_arg, 0, NULL, "");
}

static void kube_front_leave(struct backend *b, backend_done_fn done, void *arg)
{
    struct kube *k = kube_of(b);
    if (k->fronts != NULL) {
        kube_fronts_leave(k->fronts, done, arg);
        return;
    }
    k->keep_done = done;
    k->keep_arg = arg;
    task_later(&k->tasks, 0, on_never_among, k);
}

/* ---- close ---------------------------------------------------------------------------------- */

static void closed_by_nobody(void *arg)
{
    (void)arg;
}

static void on_kube_part_closed(void *arg)
{
    struct kube *k = arg;
    if (--k->open > 0) {
        return;
    }
    void (*closed)(void *) = k->closed;
    void *closed_arg = k->closed_arg;
    if (k->has_request) {
        spec_copy_finish(&k->request);
    }
    if (k->fd >= 0) {
        close(k->fd);
    }
    free(k->pod);
    free(k->front);
    kube_fronts_free(k->fronts);
    kube_offers_free(k->offers);
    free(k);
    closed(closed_arg);
}

static void kube_close(struct backend *b, void (*closed)(void *arg), void *arg)
{
    struct kube *k = kube_of(b);
    k->closed = closed != NULL ? closed : closed_by_nobody;
    k->closed_arg = arg;
    k->open = 1;
    tasks_close(&k->tasks, on_kube_part_closed, k);
    kube_probe_free(k->probing);
    kube_create_free(k->creating);
    kube_end_free(k->ending);
    kube_claim_free(k->claiming);
    kube_keep_free(k->keep);
    if (k->api != NULL) {
        k->open++;
        kube_api_close(STEAL_PTR(k->api), on_kube_part_closed, k);
    }
}

const struct backend_ops backend_kubernetes = {
    .name = "kubernetes",
    .ends_late = true,
    .open = kube_open,
    .probe = kube_probe,
    .create = kube_create,
    .attach = kube_attach,
    .stream = kube_stream,
    .usage = kube_usage,
    .keep = kube_keep,
    .front = kube_front,
    .offers = kube_offers,
    .front_leave = kube_front_leave,
    .destroy = kube_destroy,
    .close = kube_close,
};
