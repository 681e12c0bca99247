/*
 *     AGENT --> POD --> WAIT (GET again and again) --> STREAM --> done
 *                         |                              |
 *                         +------- REMOVE --> error <----+     also if it is cancelled
 *
 * The pod's name comes from the sandbox's id. So a creation that is repeated, because an answer was
 * lost or a worker died, finds the pod that there is and goes on with it, if its labels say that it
 * is this sandbox's.
 *
 * Nothing is waited for that will not come: states from which no pod recovers end the creation with
 * the words of the kubelet; and a pod for which no node has room gets PATIENCE_MS, since another
 * sandbox may end meanwhile.
 */
#include "worker/backend/kubernetes/create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "worker/backend/kubernetes/agent.h"
#include "worker/backend/kubernetes/end.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/kubernetes/stream.h"

#define LOOK_FIRST_MS   100
#define LOOK_MAX_MS     1000
#define PATIENCE_MS     20000  /* for a node with room */
#define CREATE_MS       300000 /* all of it; an image is fetched meanwhile */
#define STREAMS_MAX     5      /* attempts at the first stream */
#define STREAM_AGAIN_MS 300

struct kube_create {
    struct tasks *tasks;
    struct kube_api *api;
    const struct backend_spec *spec;
    char *pod;
    struct kube_agent *agent;
    struct kube_call *call;
    struct kube_stream *stream;
    struct kube_end *end;
    bool made;    /* the pod may exist */
    bool waiting; /* for a timer */
    bool cancelled;
    bool ending;
    uint64_t begin_ms, homeless_ms, look_ms;
    unsigned streams;
    char told[200]; /* the last progress */
    struct err err;
    const char *hint;
    kube_create_fn done;
    void *arg;
};

static void look_at_pod(void *arg);

void kube_create_free(struct kube_create *c)
{
    if (c != NULL) {
        kube_agent_free(c->agent);
        kube_end_free(c->end);
        free(c->pod);
        free(c);
    }
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void finish_kube_create(struct kube_create *c, int rc, int fd)
{
    kube_create_fn done = c->done;
    void *arg = c->arg;
    struct err err = c->err;
    const char *hint = c->hint != NULL && rc < 0 ? c->hint : "";
    if (c->call != NULL) {
        kube_api_cancel(STEAL_PTR(c->call));
    }
    kube_create_free(c);
    done(arg, rc, fd, rc < 0 ? &err : NULL, hint);
}

static void on_removed(void *arg, int rc, const struct err *err)
{
    struct kube_create *c = arg;
    c->end = NULL;
    if (rc < 0) {
        log_warn("a pod that did not come to life stays: %s", err->text);
    }
    finish_kube_create(c, -c->err.code, -1);
}

static void on_finish_later(void *arg)
{
    struct kube_create *c = arg;
    finish_kube_create(c, -c->err.code, -1);
}

/* Removes what was made so far, then reports c->err. */
static void fail(struct kube_create *c)
{
    c->ending = true;
    if (c->cancelled) {
        err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        c->hint = "";
    }
    if (c->stream != NULL) {
        kube_stream_cancel(STEAL_PTR(c->stream));
    }
    if (c->made) {
        c->end = kube_end_start(c->tasks, c->api, c->spec->id, c->pod, on_removed, c);
    } else {
        task_later(c->tasks, 0, on_finish_later, c);
    }
}

static void kube_fail_with(struct kube_create *c, const struct err *err, const char *hint)
{
    c->err = *err;
    if (c->err.code == ERR_GONE) { /* of a creation this is a failure like another */
        c->err.code = ERR_ENGINE;
    }
    c->hint = hint;
    fail(c);
}

static uint64_t now(const struct kube_create *c)
{
    return uv_now(c->tasks->loop);
}

static void wait_for(struct kube_create *c, uint64_t ms, task_later_fn fn)
{
    c->waiting = true;
    task_later(c->tasks, ms, fn, c);
}

/* ---- the first stream ----------------------------------------------------------------------- */

static void on_kube_greeted(void *arg, int rc, int fd, const struct err *err)
{
    struct kube_create *c = arg;
    c->stream = NULL;
    if (rc == 0) {
        finish_kube_create(c, 0, fd);
        return;
    }
    c->err = *err;
    if (c->cancelled) {
        fail(c);
    } else { /* the pod's state says more, or the runtime was not ready for an exec */
        wait_for(c, STREAM_AGAIN_MS, look_at_pod);
    }
}

static void kube_open_stream(struct kube_create *c)
{
    if (c->streams++ == STREAMS_MAX) {
        struct err err = c->err;
        kube_fail_with(
            c, &err,
            "`kubectl logs` of the pod has the agent's words; `cloister doctor` shows whether "
            "the rights for pods/exec are there");
        return;
    }
    c->stream = kube_stream_open(c->tasks, c->api, c->pod, on_kube_greeted, c);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void kube_tell(struct kube_create *c, const char *words)
{
    if (c->spec->progress != NULL && words[0] != '\0' && strcmp(words, c->told) != 0) {
        snprintf(c->told, sizeof(c->told), "%s", words);
        c->spec->progress(c->spec->progress_arg, words, 0, 0);
    }
}

static void wait_more(struct kube_create *c, const struct kube_state *s)
{
    struct err err = ERR_INIT;
    bool homeless = s->kind == KUBE_STATE_HOMELESS;
    c->homeless_ms = !homeless ? 0 : c->homeless_ms != 0 ? c->homeless_ms : now(c);
    kube_tell(c, s->words);
    if (homeless && now(c) - c->homeless_ms >= PATIENCE_MS) {
        err_ignore(err_set(&err, ERR_ENGINE, "no node has room for the pod: %s", s->words));
        kube_fail_with(
            c, &err,
            "give the cluster more nodes, ask for less with --memory-mb and --cpus, or close "
            "sandboxes");
        return;
    }
    if (now(c) - c->begin_ms >= CREATE_MS) {
        err_ignore(err_set(&err, ERR_TIMEOUT, "the pod did not start within %d s%s%s",
                           CREATE_MS / 1000, s->words[0] != '\0' ? ": " : "", s->words));
        kube_fail_with(c, &err,
                       "`kubectl describe pod` and `kubectl get events` say what it waits for");
        return;
    }
    c->look_ms = c->look_ms * 3 / 2 < LOOK_MAX_MS ? c->look_ms * 3 / 2 : LOOK_MAX_MS;
    wait_for(c, c->look_ms, look_at_pod);
}

static void on_kube_state(void *arg, int rc, const struct kube_reply *reply,
                          const struct err *failure)
{
    struct kube_create *c = arg;
    struct kube_state s = {.kind = KUBE_STATE_WAITING};
    struct err err = ERR_INIT;
    c->call = NULL;
    if (c->cancelled) {
        fail(c);
        return;
    }
    if (rc == 0) {
        rc = kube_state_read(reply->json, &s, &err);
    } else {
        err = *failure;
    }
    if (rc < 0 && reply->is_absent) {
        err_ignore(err_set(&err, ERR_ENGINE,
                           "the pod was deleted by somebody else while it was being created"));
        kube_fail_with(c, &err,
                       "see who deletes pods of this namespace; `kubectl get events` may say it");
        return;
    }
    if (rc < 0) { /* a server that does not answer now may do so soon */
        snprintf(s.words, sizeof(s.words), "%.190s", err.text);
        wait_more(c, &s);
        return;
    }
    switch (s.kind) {
    case KUBE_STATE_RUNNING:
        kube_open_stream(c);
        break;
    case KUBE_STATE_ENDED:
        kube_fail_with(c, &s.err,
                       "the image must be able to run a static program of its architecture");
        break;
    case KUBE_STATE_HOPELESS:
        kube_fail_with(c, &s.err,
                       s.err.code == ERR_IMAGE
                           ? "name another image, or see that the cluster's nodes can pull this one"
                           : "`kubectl describe pod` shows the pod as the cluster has it");
        break;
    default:
        wait_more(c, &s);
    }
}

static void look_at_pod(void *arg)
{
    struct kube_create *c = arg;
    c->waiting = false;
    if (c->cancelled) {
        fail(c);
        return;
    }
    CLEANUP_FREE char *path = kube_api_path(c->api, "pods", c->pod);
    struct kube_request request = {.method = "GET", .path = path};
    c->call = kube_api_call(c->api, &request, on_kube_state, c);
}

/* ---- the pod -------------------------------------------------------------------------------- */

static const char *hint_for(const struct err *err)
{
    static const struct {
        const char *phrase, *hint;
    } rows[] = {
        {"exceeded quota",
         "the namespace's ResourceQuota is used up: raise it, or close sandboxes"},
        {"violates PodSecurity", "the namespace must admit the standard \"restricted\""},
        {"RuntimeClass", "`kubectl get runtimeclass` lists what --runtime can be"},
        {"forbidden", "apply contrib/kubernetes/role.yaml; `cloister doctor` lists missing rights"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strstr(err->text, rows[i].phrase) != NULL) {
            return rows[i].hint;
        }
    }
    return "see whether the API server answers (`kubectl get pods`); `cloister doctor` shows what "
           "was tried";
}

static void on_there(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube_create *c = arg;
    struct err err = ERR_INIT;
    c->call = NULL;
    if (rc == 0 && kube_state_is_of(reply->json, c->spec->id)) {
        c->made = true;
        on_kube_state(c, rc, reply, failure);
        return;
    }
    if (rc < 0) {
        err = *failure;
    } else {
        err_ignore(
            err_set(&err, ERR_ENGINE, "there is a pod %s which is no sandbox of ours", c->pod));
    }
    kube_fail_with(c, &err, "remove it by hand, if it is nobody's");
}

static void on_pod(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube_create *c = arg;
    c->call = NULL;
    /* a lost answer, or a server that stumbled, may have made it */
    c->made = rc == 0 || reply->status == 0 || reply->status >= 500;
    if (reply->is_there) {
        CLEANUP_FREE char *path = kube_api_path(c->api, "pods", c->pod);
        struct kube_request request = {.method = "GET", .path = path};
        c->call = kube_api_call(c->api, &request, on_there, c);
        return;
    }
    if (rc < 0) {
        struct err err = *failure;
        err_ignore(err_wrap(&err, "the pod cannot be created"));
        kube_fail_with(c, &err, hint_for(failure));
        return;
    }
    c->look_ms = LOOK_FIRST_MS;
    if (c->cancelled) {
        fail(c);
    } else {
        wait_for(c, c->look_ms, look_at_pod);
    }
}

static void on_agent_there(void *arg, int rc, const struct err *failure)
{
    struct kube_create *c = arg;
    struct err err = ERR_INIT;
    CLEANUP_FREE char *body = NULL;
    if (rc < 0 || c->cancelled) {
        err = failure != NULL ? *failure : err;
        kube_fail_with(c, &err, failure != NULL ? hint_for(failure) : "");
        return;
    }
    if (kube_pod_build(c->spec, c->agent, &body, &err) < 0) {
        kube_fail_with(c, &err, "");
        return;
    }
    CLEANUP_FREE char *path = kube_api_path(c->api, "pods", "");
    struct kube_request request = {.method = "POST", .path = path, .json = body};
    c->call = kube_api_call(c->api, &request, on_pod, c);
}

struct kube_create *kube_create_start(struct tasks *tasks, struct kube_api *api,
                                      const struct backend_spec *spec, kube_create_fn done,
                                      void *arg)
{
    struct kube_create *c = alloc_one(struct kube_create);
    c->tasks = tasks;
    c->api = api;
    c->spec = spec;
    c->done = done;
    c->arg = arg;
    c->begin_ms = now(c);
    c->look_ms = LOOK_FIRST_MS;
    c->pod = kube_pod_name(spec->id);
    if (c->pod == NULL) {
        err_ignore(err_set(&c->err, ERR_INVALID, "the sandbox's id makes no name of a pod"));
        fail(c);
    } else if (kube_agent_read(spec->agent_path, &c->agent, &c->err) < 0) {
        fail(c);
    } else {
        kube_agent_put(c->agent, api, on_agent_there, c);
    }
    return c;
}

void kube_create_cancel(struct kube_create *c)
{
    c->cancelled = true;
    if (c->stream != NULL && !c->ending) {
        fail(c);
    } /* else the step under way goes on to there when it ends */
}
