/*
 *     AGENT --> POD --> WATCH --it runs--> STREAM --> done
 *                         |                  |
 *                         +-- REMOVE --------+     also if it is cancelled; then an error
 *
 * The pod's name comes from the sandbox's id. So a creation that is repeated, because a worker
 * died, finds the pod that there is and goes on with it, if its labels say that it is this
 * sandbox's; and so does one whose answer was lost, which is asked for again if there is none.
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
#include "worker/backend/kubernetes/front.h"
#include "worker/backend/kubernetes/pod.h"
#include "worker/backend/kubernetes/state.h"
#include "worker/backend/kubernetes/stream.h"
#include "worker/backend/kubernetes/watch.h"

#define PATIENCE_MS      20000  /* for a node with room */
#define CREATE_MS        300000 /* all of it; an image is fetched meanwhile */
#define AGENT_MS         3000   /* a pod that does not run by then may wait for its agent */
#define STREAMS_MAX      8      /* attempts at the first stream; a busy node needs its time */
#define STREAM_AGAIN_MS  300    /* before the second one, and longer before each later one */
#define STREAM_PAUSE_MAX 3000
#define POSTS_MAX        3     /* of one creation, if no answer comes */
#define SEARCH_MS        20000 /* for a pod that may have been made */
#define SEARCH_CALL_MS   5000
#define SEARCH_AGAIN_MS  1000

struct kube_create {
    struct tasks *tasks;
    struct kube_api *api;
    const struct backend_spec *spec;
    char *pod;
    struct kube_agent *agent;
    char *owner, *owner_uid; /* the pod that this process runs in; NULL: none */
    struct kube_call *call;
    struct kube_watch *watch;
    struct kube_state state; /* of the pod, as it was seen last */
    struct kube_stream *stream;
    uint64_t stream_at_ms; /* not before that time */
    struct kube_end *end;
    bool made; /* the pod may exist */
    bool lost; /* no answer came to the creation, so it may be made once more */
    bool cancelled;
    bool ending;
    bool agent_sought;
    uint64_t begin_ms, homeless_ms, search_ms;
    unsigned streams, posts;
    char told[200]; /* the last progress */
    struct err err;
    const char *hint;
    kube_create_fn done;
    void *arg;
};

void kube_create_free(struct kube_create *c)
{
    if (c != NULL) {
        kube_agent_free(c->agent);
        kube_end_free(c->end);
        free(c->owner);
        free(c->owner_uid);
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
    kube_watch_stop(c->watch);
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
    kube_watch_stop(STEAL_PTR(c->watch));
    if (c->cancelled) {
        err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        c->hint = "";
    }
    if (c->stream != NULL) {
        kube_stream_cancel(STEAL_PTR(c->stream));
    }
    if (c->made) {
        c->end = kube_end_start(c->tasks, c->api, c->spec->id, c->pod, NULL, on_removed, c);
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
    /* the pod's state may say more soon, or the runtime was not ready for an exec */
    uint64_t pause_ms = (uint64_t)STREAM_AGAIN_MS << (c->streams - 1);
    c->stream_at_ms = now(c) + (pause_ms < STREAM_PAUSE_MAX ? pause_ms : STREAM_PAUSE_MAX);
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

static void on_agent_sought(void *arg, int rc, const struct err *err)
{
    (void)arg;
    if (rc < 0) { /* the pod goes on waiting, and we with it */
        log_warn("whether a pod lacks its agent is not known: %s", err->text);
    }
}

/* A kubelet that lacks a ConfigMap goes on trying, and says why in events only, which we have no
 * right to read. */
static void seek_agent(struct kube_create *c)
{
    if (!c->agent_sought && now(c) - c->begin_ms >= AGENT_MS) {
        c->agent_sought = true;
        kube_agent_put(c->agent, c->api, true, on_agent_sought, c);
    }
}

/* Ends the creation if it has been waited for long enough. */
static void check_patience(struct kube_create *c)
{
    struct err err = ERR_INIT;
    const char *words = c->state.words;
    bool homeless = c->state.kind == KUBE_STATE_HOMELESS;
    c->homeless_ms = !homeless ? 0 : c->homeless_ms != 0 ? c->homeless_ms : now(c);
    kube_tell(c, words);
    if (homeless && now(c) - c->homeless_ms >= PATIENCE_MS) {
        err_ignore(err_set(&err, ERR_ENGINE, "no node has room for the pod: %s", words));
        kube_fail_with(
            c, &err,
            "give the cluster more nodes, ask for less with --memory-mb and --cpus, or close "
            "sandboxes");
    } else if (now(c) - c->begin_ms >= CREATE_MS) {
        err_ignore(err_set(&err, ERR_TIMEOUT, "the pod did not start within %d s%s%s",
                           CREATE_MS / 1000, words[0] != '\0' ? ": " : "", words));
        kube_fail_with(c, &err,
                       "`kubectl describe pod` and `kubectl get events` say what it waits for");
    }
}

/* Does what the state of the pod, which was seen just now or before, allows. */
static void go_on_creating(struct kube_create *c)
{
    switch (c->state.kind) {
    case KUBE_STATE_RUNNING:
        if (c->stream == NULL && now(c) >= c->stream_at_ms) {
            kube_open_stream(c);
        }
        break;
    case KUBE_STATE_ENDED:
        kube_fail_with(c, &c->state.err,
                       "the image must be able to run a static program of its architecture");
        break;
    case KUBE_STATE_HOPELESS:
        kube_fail_with(c, &c->state.err,
                       c->state.err.code == ERR_IMAGE
                           ? "name another image, or see that the cluster's nodes can pull this one"
                           : "`kubectl describe pod` shows the pod as the cluster has it");
        break;
    default:
        seek_agent(c);
        check_patience(c);
    }
}

/* A server that does not answer now may do so soon: its words are what is waited for. */
static void keep_trouble(struct kube_create *c, const struct err *err)
{
    if (c->state.kind == KUBE_STATE_WAITING || c->state.kind == KUBE_STATE_HOMELESS) {
        c->state.kind = KUBE_STATE_WAITING;
        snprintf(c->state.words, sizeof(c->state.words), "%.190s", err->text);
    }
}

static void on_create_seen(void *arg, const struct kube_seen *seen)
{
    struct kube_create *c = arg;
    struct err err = ERR_INIT;
    if (seen->is_gone) {
        err_ignore(err_set(&err, ERR_ENGINE,
                           "the pod was deleted by somebody else while it was being created"));
        kube_fail_with(c, &err,
                       "see who deletes pods of this namespace; `kubectl get events` may say it");
        return;
    }
    if (seen->err != NULL) {
        keep_trouble(c, seen->err);
    } else if (seen->pod != NULL && kube_state_read(seen->pod, &c->state, &err) < 0) {
        c->state = (struct kube_state){.kind = KUBE_STATE_WAITING};
        keep_trouble(c, &err);
    }
    go_on_creating(c);
}

/* There is a pod of ours, as this answer says. */
static void watch_pod(struct kube_create *c, const cJSON *pod)
{
    c->state = (struct kube_state){.kind = KUBE_STATE_WAITING};
    c->watch = kube_watch_start(c->tasks, c->api, c->pod, KUBE_WATCH_BRIEF, pod, on_create_seen, c);
    const struct kube_seen seen = {.pod = pod};
    on_create_seen(c, &seen);
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

static void post_pod(struct kube_create *c);

static void search_pod(void *arg);

/* The answer says whether there is a pod of that name, and whose. */
static void on_searched(void *arg, int rc, const struct kube_reply *reply,
                        const struct err *failure)
{
    struct kube_create *c = arg;
    struct err err = ERR_INIT;
    c->call = NULL;
    if (rc == 0 && kube_state_is_of(reply->json, c->spec->id)) {
        c->made = true;
        if (c->cancelled) {
            fail(c);
        } else {
            watch_pod(c, reply->json);
        }
    } else if (c->cancelled) {
        fail(c);
    } else if (rc == 0) {
        err_ignore(
            err_set(&err, ERR_ENGINE, "there is a pod %s which is no sandbox of ours", c->pod));
        kube_fail_with(c, &err, "remove it by hand, if it is nobody's");
    } else if (reply->is_absent && c->lost && c->posts < POSTS_MAX) {
        post_pod(c);
    } else if (!reply->is_absent && now(c) - c->search_ms < SEARCH_MS) {
        task_later(c->tasks, SEARCH_AGAIN_MS, search_pod, c);
    } else {
        err = c->err; /* why the pod was not made says more than that it is not there */
        kube_fail_with(c, &err, hint_for(&err));
    }
}

static void search_pod(void *arg)
{
    struct kube_create *c = arg;
    if (c->cancelled) {
        fail(c);
        return;
    }
    CLEANUP_FREE char *path = kube_api_path(c->api, "pods", c->pod);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = SEARCH_CALL_MS};
    c->call = kube_api_call(c->api, &request, on_searched, c);
}

/* Whether the server has said neither yes nor no: what it was asked for may be done. */
static bool is_undecided(int rc, const struct kube_reply *reply)
{
    return rc < 0 && !reply->is_unsent &&
           (reply->status == 0 || reply->status / 100 == 2 || reply->status >= 500);
}

static void on_pod(void *arg, int rc, const struct kube_reply *reply, const struct err *failure)
{
    struct kube_create *c = arg;
    bool undecided = is_undecided(rc, reply);
    c->call = NULL;
    c->made =
        rc == 0 || undecided || reply->is_there; /* whose it is, is looked at before it goes */
    c->lost = undecided && reply->status == 0 && failure->code != ERR_TOO_BIG;
    if (rc < 0) {
        c->err = *failure;
        err_ignore(err_wrap(&c->err, "the pod cannot be created"));
    }
    if (c->cancelled) {
        fail(c);
    } else if (undecided || reply->is_there) {
        c->search_ms = now(c);
        search_pod(c);
    } else if (rc < 0) {
        struct err err = c->err;
        kube_fail_with(c, &err, hint_for(failure));
    } else {
        watch_pod(c, reply->json);
    }
}

static void post_pod(struct kube_create *c)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE char *body = NULL;
    const struct kube_owner owner = {c->owner, c->owner_uid};
    if (kube_pod_build(c->spec, c->agent, c->owner_uid != NULL ? &owner : NULL, &body, &err) < 0) {
        kube_fail_with(c, &err, "");
        return;
    }
    c->posts++;
    CLEANUP_FREE char *path = kube_api_path(c->api, "pods", "");
    struct kube_request request = {.method = "POST", .path = path, .json = body};
    c->call = kube_api_call(c->api, &request, on_pod, c);
}

static void on_owner(void *arg, int rc, const struct kube_reply *reply, const struct err *err)
{
    struct kube_create *c = arg;
    const char *uid = rc == 0 ? kube_state_uid(reply->json) : NULL;
    c->call = NULL;
    c->owner_uid = uid != NULL ? alloc_strdup(uid) : NULL;
    if (c->cancelled) {
        fail(c);
    } else {
        post_pod(c);
    }
}

/* A server in a pod of the same namespace may be moved, and nobody comes after it in its place. So
 * the pods that it makes are its own pod's, with which the cluster removes them. A pod is called
 * what its host is called; where that is not so, the agents end themselves. Of several servers
 * another one comes, so there the pods outlive it. */
static void find_owner(struct kube_create *c)
{
    char name[64] = "";
    CLEANUP_FREE char *front = kube_front_own(c->spec->shared_dir);
    if (front != NULL || !kube_api_cluster(c->api)->is_ours ||
        gethostname(name, sizeof(name) - 1) < 0 || !kube_is_label(name)) {
        post_pod(c);
        return;
    }
    c->owner = alloc_strdup(name);
    CLEANUP_FREE char *path = kube_api_path(c->api, "pods", name);
    struct kube_request request = {.method = "GET", .path = path, .total_ms = SEARCH_CALL_MS};
    c->call = kube_api_call(c->api, &request, on_owner, c);
}

static void on_agent_there(void *arg, int rc, const struct err *failure)
{
    struct kube_create *c = arg;
    struct err err = ERR_INIT;
    if (rc < 0 || c->cancelled) {
        err = failure != NULL ? *failure : err;
        kube_fail_with(c, &err, failure != NULL ? hint_for(failure) : "");
    } else {
        find_owner(c);
    }
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
    c->pod = kube_pod_name(spec->id);
    if (c->pod == NULL) {
        err_ignore(err_set(&c->err, ERR_INVALID, "the sandbox's id makes no name of a pod"));
        fail(c);
    } else if (kube_agent_read(spec->agent_path, &c->agent, &c->err) < 0) {
        fail(c);
    } else {
        kube_agent_put(c->agent, api, false, on_agent_there, c);
    }
    return c;
}

void kube_create_cancel(struct kube_create *c)
{
    c->cancelled = true;
    if (c->watch != NULL && !c->ending) {
        fail(c);
    } /* else the step under way goes on to there when it ends */
}
