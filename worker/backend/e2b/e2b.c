/*
 * The `e2b` backend: a sandbox is a virtual machine of E2B's service, or of one that speaks as it
 * does. This file has the order of the steps; the other files do them, see README.md.
 *
 * A sandbox is found by its metadata, so the service has all state. The object has the connection
 * to the service, made when it is first needed, and of a sandbox that it has found or made: who it
 * is, the connection to its daemon, and the lease that keeps it alive.
 *
 * A service that does not answer is -ERR_ENGINE, after which the caller may retry. -ERR_GONE is
 * returned only if the service says that there is no such sandbox.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"
#include "worker/backend/backend.h"
#include "worker/backend/e2b/agent.h"
#include "worker/backend/e2b/api.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/e2b/create.h"
#include "worker/backend/e2b/end.h"
#include "worker/backend/e2b/envd.h"
#include "worker/backend/e2b/lease.h"
#include "worker/backend/e2b/probe.h"
#include "worker/backend/e2b/seek.h"
#include "worker/backend/e2b/stream.h"
#include "worker/backend/spec_copy.h"
#include "worker/backend/task.h"

#define HINT_KEY                                                                                   \
    "set E2B_API_KEY, and E2B_DOMAIN or --engine for another service than the hosted one; "        \
    "`cloister doctor --backend e2b` shows what was tried"
#define HINT_LEFT                                                                                  \
    "the service removes it by itself when its time is over; `cloister` sweeps what is left at "   \
    "its next start"

/* Requests that have been accepted and begin in the loop's next turn. */
enum { WANT_CREATE = 1, WANT_ATTACH = 2, WANT_DESTROY = 4 };

struct e2b {
    struct backend base;
    struct tasks tasks;
    struct e2b_service service;
    struct e2b_host *api; /* NULL until it is needed */
    struct spec_copy request;
    bool has_request;
    struct e2b_agent agent; /* of the request; its path is NULL until it is read */
    unsigned wanted;
    bool called;        /* on_e2b_turn() is under way */
    struct err refusal; /* why `wanted` cannot be done; code 0: it can */

    struct e2b_box box;    /* its id is "" until there is one */
    struct e2b_host *envd; /* of the box */
    struct e2b_lease *lease;
    int fd; /* first stream of a creation until it is requested; else -1 */

    struct e2b_probe *probing;
    backend_probe_fn probe_done;
    void *probe_arg;
    struct e2b_create *creating;
    backend_create_fn create_done;
    void *create_arg;
    struct e2b_seek *seeking; /* for an attach, or after a stream that did not open */
    backend_create_fn attach_done;
    void *attach_arg;
    backend_stream_fn stream_done;
    void *stream_arg;
    struct err stream_err;
    bool again; /* the stream is opened a second time */
    backend_usage_fn usage_done;
    void *usage_arg;
    struct e2b_end *ending;
    backend_done_fn destroy_done; /* set from the call of destroy to its end */
    void *destroy_arg;

    size_t open; /* parts still on the loop while closing */
    void (*closed)(void *arg);
    void *closed_arg;
};

static struct e2b *e2b_of(struct backend *b)
{
    return (struct e2b *)b;
}

static struct backend *e2b_open(uv_loop_t *loop)
{
    struct e2b *e = alloc_one(struct e2b);
    e->base.ops = &backend_e2b;
    e->fd = -1;
    tasks_init(&e->tasks, loop);
    return &e->base;
}

/* ---- connection ----------------------------------------------------------------------------- */

static const char *variable(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static int connect_service(struct e2b *e, const struct place *place, struct err *err)
{
    if (e->api != NULL) {
        return 0;
    }
    int rc = e2b_service_find(place, variable, NULL, &e->service, err);
    if (rc == 0) {
        rc = e2b_api_open(&e->tasks, &e->service, &e->api, err);
        if (rc < 0) {
            e2b_service_finish(&e->service);
        }
    }
    return rc;
}

static void e2b_begin_create(struct e2b *e);
static void e2b_begin_attach(struct e2b *e);
static void e2b_begin_destroy(struct e2b *e);

static void refuse_e2b(struct e2b *e, unsigned wanted)
{
    const struct err err = e->refusal;
    if (wanted & WANT_CREATE) {
        e->create_done(e->create_arg, -err.code, NULL, &err, HINT_KEY);
    }
    if (wanted & WANT_ATTACH) {
        e->attach_done(e->attach_arg, -err.code, NULL, &err, HINT_KEY);
    }
    if (wanted & WANT_DESTROY) {
        backend_done_fn done = e->destroy_done;
        e->destroy_done = NULL;
        done(e->destroy_arg, -err.code, &err, HINT_KEY);
    }
}

static void on_e2b_turn(void *arg)
{
    struct e2b *e = arg;
    unsigned wanted = e->wanted;
    e->wanted = 0;
    e->called = false;
    if (e->refusal.code != 0) {
        refuse_e2b(e, wanted);
        return;
    }
    if (wanted & WANT_CREATE) {
        e2b_begin_create(e);
    }
    if (wanted & WANT_ATTACH) {
        e2b_begin_attach(e);
    }
    if (wanted & WANT_DESTROY) {
        e2b_begin_destroy(e);
    }
}

static void forget_request(struct e2b *e)
{
    if (e->has_request) {
        spec_copy_finish(&e->request);
    }
    if (e->agent.path != NULL) {
        e2b_agent_finish(&e->agent);
    }
    e->has_request = false;
}

/* Copies a spec, connects, and starts `want` with both in the next turn. */
static void with_service(struct e2b *e, const struct backend_spec *spec, unsigned want)
{
    e->wanted |= want;
    if (e->called) {
        return;
    }
    e->called = true;
    forget_request(e);
    e->refusal = (struct err)ERR_INIT;
    int rc = spec_copy_init(&e->request, spec, &e->refusal);
    e->has_request = rc == 0;
    rc = rc < 0 ? rc : connect_service(e, &e->request.spec.place, &e->refusal);
    if (rc == 0 && want != WANT_DESTROY) {
        rc = e2b_agent_read(e->request.spec.agent_path, &e->agent, &e->refusal);
    }
    err_ignore(rc); /* kept in `refusal` */
    task_later(&e->tasks, 0, on_e2b_turn, e);
}

static uint64_t ttl_of(const struct e2b *e)
{
    return e2b_lease_ttl(e->request.spec.grace_ms);
}

/* ---- probe ---------------------------------------------------------------------------------- */

static void on_e2b_probe(void *arg, const struct backend_probe *probe)
{
    struct e2b *e = arg;
    e->probing = NULL;
    e->probe_done(e->probe_arg, probe);
}

static void e2b_probe(struct backend *b, const struct backend_spec *spec, backend_probe_fn done,
                      void *arg)
{
    struct e2b *e = e2b_of(b);
    struct err err = ERR_INIT;
    e->probe_done = done;
    e->probe_arg = arg;
    bool connected = connect_service(e, &spec->place, &err) == 0;
    e->probing =
        e2b_probe_start(&e->tasks, connected ? e->api : NULL, &e->service, &err, on_e2b_probe, e);
}

/* ---- create, destroy ------------------------------------------------------------------------ */

static void fill_e2b_info(const struct e2b *e, struct backend_info *ret)
{
    *ret = (struct backend_info){.runtime = "", .image = e->request.spec.image};
    ret->unapplied_count = e2b_agent_unapplied(ret->unapplied);
}

/* Takes over the box and its daemon. */
static void take_found(struct e2b *e, const struct e2b_box *box, struct e2b_host *envd)
{
    e->box = *box;
    e->box.token = box->token != NULL ? alloc_strdup(box->token) : NULL;
    e->box.domain = box->domain != NULL ? alloc_strdup(box->domain) : NULL;
    e->envd = envd;
}

static void on_e2b_create(void *arg, int rc, const struct e2b_made *made, const struct err *err,
                          const char *hint)
{
    struct e2b *e = arg;
    struct backend_info info;
    e->creating = NULL;
    e->fd = made->fd;
    e->envd = made->envd; /* to be closed in any case */
    if (rc == 0) {
        take_found(e, made->box, made->envd);
        e->lease = e2b_lease_start(e->api, e->box.id, ttl_of(e));
    }
    fill_e2b_info(e, &info);
    /* read before the callback, which may call destroy itself */
    bool cancelled = e->destroy_done != NULL;
    e->create_done(e->create_arg, rc, rc == 0 ? &info : NULL, err, hint);
    if (cancelled && e->closed == NULL) {
        e2b_begin_destroy(e);
    }
}

static void e2b_begin_create(struct e2b *e)
{
    struct err err = ERR_INIT;
    if (e->destroy_done != NULL) { /* destroy was called before it began */
        err_ignore(err_set(&err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        e->create_done(e->create_arg, -ERR_SHUTTING_DOWN, NULL, &err, "");
        return;
    }
    const struct e2b_create_in in = {&e->tasks, e->api, &e->service, &e->request.spec, ttl_of(e)};
    e->creating = e2b_create_start(&in, &e->agent, on_e2b_create, e);
}

static void e2b_create(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                       void *arg)
{
    struct e2b *e = e2b_of(b);
    e->create_done = done;
    e->create_arg = arg;
    with_service(e, spec, WANT_CREATE);
}

static void on_e2b_destroy(void *arg, int rc, const struct err *err)
{
    struct e2b *e = arg;
    backend_done_fn done = e->destroy_done;
    e->ending = NULL;
    e->destroy_done = NULL;
    done(e->destroy_arg, rc, err, rc == 0 ? "" : HINT_LEFT);
}

static void e2b_begin_destroy(struct e2b *e)
{
    if (e->creating != NULL) {
        e2b_create_cancel(e->creating); /* on_e2b_create() goes on from there */
        return;
    }
    e->ending = e2b_end_start(e->api, e->request.spec.id, on_e2b_destroy, e);
}

static void e2b_destroy(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                        void *arg)
{
    struct e2b *e = e2b_of(b);
    e->destroy_done = done;
    e->destroy_arg = arg;
    if (e->creating != NULL) {
        e2b_begin_destroy(e);
    } else {
        with_service(e, spec, WANT_DESTROY);
    }
}

/* ---- attach --------------------------------------------------------------------------------- */

static void on_e2b_attached(void *arg, int rc, const struct e2b_box *box, const struct err *failure)
{
    struct e2b *e = arg;
    struct backend_info info;
    struct err err = ERR_INIT;
    e->seeking = NULL;
    if (rc < 0) {
        err = *failure;
    } else if ((rc = e2b_envd_create(&e->tasks, &e->service, box, &e->envd, &err)) == 0) {
        take_found(e, box, e->envd);
        e->lease = e2b_lease_start(e->api, e->box.id, ttl_of(e));
    }
    fill_e2b_info(e, &info);
    e->attach_done(e->attach_arg, rc, rc == 0 ? &info : NULL, rc == 0 ? NULL : &err,
                   rc == 0 || rc == -ERR_GONE ? "" : HINT_KEY);
}

static void e2b_begin_attach(struct e2b *e)
{
    e->seeking = e2b_seek_sandbox(e->api, e->request.spec.id, ttl_of(e), on_e2b_attached, e);
}

static void e2b_attach(struct backend *b, const struct backend_spec *spec, backend_create_fn done,
                       void *arg)
{
    struct e2b *e = e2b_of(b);
    e->attach_done = done;
    e->attach_arg = arg;
    with_service(e, spec, WANT_ATTACH);
}

/* ---- stream --------------------------------------------------------------------------------- */

static void open_e2b_stream(struct e2b *e);

static void fail_e2b_stream(struct e2b *e, const struct err *err)
{
    e->stream_done(e->stream_arg, -err->code, -1, err);
}

/* The sandbox is there, and there is no stream. If its agent has ended, there will be none. */
static void on_agent_listed(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b *e = arg;
    struct err why = e->stream_err;
    (void)err;
    if (rc == 0 && cJSON_IsObject(reply->json) &&
        !e2b_agent_is_listed(reply->json, e->request.spec.id)) {
        err_ignore(err_set(&why, ERR_GONE, BACKEND_ENDED "its agent has"));
    }
    fail_e2b_stream(e, &why);
}

/* What became of the sandbox says more than a stream that did not open. If it has another token
 * now, or was asleep, a stream may open. */
static void on_e2b_judged(void *arg, int rc, const struct e2b_box *box, const struct err *err)
{
    struct e2b *e = arg;
    e->seeking = NULL;
    if (rc == -ERR_GONE) {
        fail_e2b_stream(e, err);
        return;
    }
    const char *old = e->box.token != NULL ? e->box.token : "";
    bool other = rc == 0 && box->token != NULL && strcmp(box->token, old) != 0;
    if (rc < 0) {
        fail_e2b_stream(e, &e->stream_err);
        return;
    }
    e2b_lease_go_on(e->lease);
    if (e->again || !(other || box->paused)) {
        e2b_envd_list(e->envd, on_agent_listed, e);
        return;
    }
    if (other) {
        log_info("sandbox %s has another token", e->box.id);
        free(e->box.token);
        e->box.token = alloc_strdup(box->token);
        e2b_envd_token(e->envd, e->box.token);
    }
    e->again = true;
    open_e2b_stream(e);
}

static void on_e2b_stream(void *arg, int rc, int fd, int status, const struct err *err)
{
    struct e2b *e = arg;
    (void)status;
    if (rc == 0) {
        e2b_lease_go_on(e->lease);
        e->stream_done(e->stream_arg, 0, fd, NULL);
        return;
    }
    e->stream_err = *err;
    e->seeking = e2b_seek_box(e->api, e->box.id, ttl_of(e), on_e2b_judged, e);
}

static void open_e2b_stream(struct e2b *e)
{
    e2b_stream_open(&e->tasks, e->envd, e->agent.path, on_e2b_stream, e);
}

/* Reports the stream of the creation, or -ERR_GONE. */
static void on_e2b_first_stream(void *arg)
{
    struct e2b *e = arg;
    struct err err = ERR_INIT;
    int fd = e->fd;
    e->fd = -1;
    if (fd >= 0) {
        e->stream_done(e->stream_arg, 0, fd, NULL);
    } else {
        err_ignore(err_set(&err, ERR_GONE, "there is no sandbox"));
        fail_e2b_stream(e, &err);
    }
}

static void e2b_stream(struct backend *b, backend_stream_fn done, void *arg)
{
    struct e2b *e = e2b_of(b);
    e->stream_done = done;
    e->stream_arg = arg;
    e->again = false;
    if (e->fd >= 0 || e->envd == NULL || e->agent.path == NULL) {
        task_later(&e->tasks, 0, on_e2b_first_stream, e);
    } else {
        open_e2b_stream(e);
    }
}

/* ---- usage ---------------------------------------------------------------------------------- */

/* The service's figures are samples of the whole machine, some seconds old. The agent knows better,
 * also what the kernel killed. */
static void on_e2b_usage(void *arg)
{
    struct e2b *e = arg;
    const struct backend_usage usage = {.oom_kills_coarse = true};
    struct err err = ERR_INIT;
    if (e->envd == NULL) {
        err_ignore(err_set(&err, ERR_GONE, "there is no sandbox"));
        e->usage_done(e->usage_arg, -ERR_GONE, NULL, &err);
        return;
    }
    e->usage_done(e->usage_arg, 0, &usage, NULL);
}

static void e2b_usage(struct backend *b, backend_usage_fn done, void *arg)
{
    struct e2b *e = e2b_of(b);
    e->usage_done = done;
    e->usage_arg = arg;
    task_later(&e->tasks, 0, on_e2b_usage, e);
}

/* ---- close ---------------------------------------------------------------------------------- */

static void e2b_closed_by_nobody(void *arg)
{
    (void)arg;
}

static void on_e2b_part_closed(void *arg)
{
    struct e2b *e = arg;
    if (--e->open > 0) {
        return;
    }
    void (*closed)(void *) = e->closed;
    void *closed_arg = e->closed_arg;
    forget_request(e);
    e2b_box_finish(&e->box);
    e2b_service_finish(&e->service);
    if (e->fd >= 0) {
        close(e->fd);
    }
    free(e);
    closed(closed_arg);
}

static void close_host(struct e2b *e, struct e2b_host *host)
{
    if (host != NULL) {
        e->open++;
        e2b_host_close(host, on_e2b_part_closed, e);
    }
}

static void e2b_close(struct backend *b, void (*closed)(void *arg), void *arg)
{
    struct e2b *e = e2b_of(b);
    e->closed = closed != NULL ? closed : e2b_closed_by_nobody;
    e->closed_arg = arg;
    e->open = 1;
    tasks_close(&e->tasks, on_e2b_part_closed, e);
    e2b_probe_free(e->probing);
    e2b_end_free(e->ending);
    e2b_seek_free(e->seeking);
    e2b_lease_free(e->lease);
    close_host(e, e2b_create_free(e->creating));
    close_host(e, e->envd);
    close_host(e, e->api);
}

const struct backend_ops backend_e2b = {
    .name = "e2b",
    .open = e2b_open,
    .probe = e2b_probe,
    .create = e2b_create,
    .attach = e2b_attach,
    .stream = e2b_stream,
    .usage = e2b_usage,
    .destroy = e2b_destroy,
    .close = e2b_close,
};
