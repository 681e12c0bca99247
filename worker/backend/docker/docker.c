/*
 * The `docker` backend: a sandbox is one container of a Docker Engine, or of Podman's compatible
 * socket. This file has the order of the steps; the other files do them, see README.md.
 *
 * The container's name is derived from the sandbox's id, so it can be found without a record: the
 * engine has all state. The object has only the connection, made when it is first needed, and the
 * first stream of a creation.
 *
 * An engine that does not answer is -ERR_ENGINE, after which the caller may retry. -ERR_GONE is
 * returned only if the engine reports that the sandbox is gone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/backend.h"
#include "worker/backend/docker/api.h"
#include "worker/backend/docker/create.h"
#include "worker/backend/docker/end.h"
#include "worker/backend/docker/first.h"
#include "worker/backend/docker/packages.h"
#include "worker/backend/docker/probe.h"
#include "worker/backend/docker/shares.h"
#include "worker/backend/docker/spec.h"
#include "worker/backend/docker/stream.h"
#include "worker/backend/spec_copy.h"
#include "worker/backend/task.h"

#define HINT_ENGINE                                                                                \
    "start the engine (Docker Desktop, `systemctl start docker`, `colima start`, `podman machine " \
    "start`) or name another with --engine; `cloister doctor` shows what was tried"

#define USAGE_MS 3000

/* Requests that wait for a connection to the engine. */
enum { WANT_CREATE = 1, WANT_ATTACH = 2, WANT_DESTROY = 4 };

struct docker {
    struct backend base;
    struct tasks tasks;
    struct docker_api *api; /* NULL until it is needed */
    struct docker_engine engine;
    struct spec_copy request; /* the last spec */
    bool has_request;
    char *container; /* its container's name */
    int fd;          /* first stream of a creation until it is requested; else -1 */

    unsigned wanted;
    struct docker_probe *connecting; /* for `wanted` */
    struct docker_probe *probing;    /* for its own sake */
    backend_probe_fn probe_done;
    void *probe_arg;
    struct docker_create *creating;
    backend_create_fn create_done;
    void *create_arg;
    backend_create_fn attach_done;
    void *attach_arg;
    backend_stream_fn stream_done;
    void *stream_arg;
    struct backend_usage usage;
    backend_usage_fn usage_done;
    void *usage_arg;
    struct docker_call *noting; /* asks for the first process of a new container */
    struct docker_end *ending;
    backend_done_fn destroy_done; /* set from the call of destroy to its end */
    void *destroy_arg;

    size_t open; /* parts still on the loop while closing */
    void (*closed)(void *arg);
    void *closed_arg;
};

static struct docker *docker_of(struct backend *b)
{
    return (struct docker *)b;
}

static struct backend *docker_open(uv_loop_t *loop)
{
    struct docker *d = alloc_one(struct docker);
    d->base.ops = &backend_docker;
    d->fd = -1;
    tasks_init(&d->tasks, loop);
    return &d->base;
}

/* ---- probe ---------------------------------------------------------------------------------- */

static void on_docker_probe(void *arg, const struct docker_probe_result *result)
{
    struct docker *d = arg;
    d->probing = NULL;
    d->api = result->api; /* closed with the backend */
    d->engine = result->engine;
    d->probe_done(d->probe_arg, &result->probe);
}

static void docker_probe(struct backend *b, const struct backend_spec *spec, backend_probe_fn done,
                         void *arg)
{
    struct docker *d = docker_of(b);
    d->probe_done = done;
    d->probe_arg = arg;
    const struct docker_probe_wish wish = {
        .place = &spec->place,
        .runtime = spec->runtime != NULL ? spec->runtime : "",
        .image = spec->image != NULL ? spec->image : "",
        .pull = spec->pull,
        .limits = spec->limits,
        .io_device = spec->io_device,
        .packages_bytes = spec->packages_bytes,
        .sweep = true,
    };
    d->probing = docker_probe_start(d->tasks.loop, &wish, on_docker_probe, d);
}

/* ---- connection ----------------------------------------------------------------------------- */

static void begin_create(struct docker *d);
static void begin_attach(struct docker *d);
static void begin_docker_destroy(struct docker *d);

static void on_docker_connected(void *arg)
{
    struct docker *d = arg;
    unsigned wanted = d->wanted;
    d->wanted = 0;
    if (wanted & WANT_CREATE) {
        begin_create(d);
    }
    if (wanted & WANT_ATTACH) {
        begin_attach(d);
    }
    if (wanted & WANT_DESTROY) {
        begin_docker_destroy(d);
    }
}

static void refuse_docker(struct docker *d, const struct err *err)
{
    unsigned wanted = d->wanted;
    d->wanted = 0;
    if (wanted & WANT_CREATE) {
        d->create_done(d->create_arg, -err->code, NULL, err, HINT_ENGINE);
    }
    if (wanted & WANT_ATTACH) {
        d->attach_done(d->attach_arg, -err->code, NULL, err, HINT_ENGINE);
    }
    if (wanted & WANT_DESTROY) {
        backend_done_fn done = d->destroy_done;
        d->destroy_done = NULL;
        done(d->destroy_arg, -err->code, err, HINT_ENGINE);
    }
}

static void on_found(void *arg, const struct docker_probe_result *result)
{
    struct docker *d = arg;
    struct err err = ERR_INIT;
    d->connecting = NULL;
    if (result->api == NULL) {
        err_set(&err, ERR_ENGINE, "no engine: %s", result->probe.reason);
        refuse_docker(d, &err);
        return;
    }
    d->api = result->api;
    d->engine = result->engine;
    on_docker_connected(d);
}

/* Connects with the result of a probe, which needs no search and no request to the engine. */
static bool connect_known(struct docker *d)
{
    const struct backend_spec *spec = &d->request.spec;
    struct docker_endpoint endpoint;
    struct err err = ERR_INIT;
    if (spec->place.kind == PLACE_NONE || !docker_engine_unpack(spec->mode, &d->engine) ||
        docker_endpoint_of(&spec->place, &endpoint, &err) < 0) {
        return false;
    }
    int rc = docker_api_create(d->tasks.loop, &endpoint, &d->api, &err);
    docker_endpoint_finish(&endpoint);
    if (rc < 0) {
        return false; /* the search reports the reason */
    }
    docker_api_set_version(d->api, d->engine.api_minor);
    return true;
}

static void on_bad_spec(void *arg)
{
    struct docker *d = arg;
    struct err err = ERR_INIT;
    err_set(&err, ERR_INVALID, "the sandbox has no proper id or directory");
    refuse_docker(d, &err);
}

/* Copies a spec and starts `want` with it when there is a connection. */
static void with_engine(struct docker *d, const struct backend_spec *spec, unsigned want)
{
    struct err err = ERR_INIT;
    d->wanted |= want;
    if (d->connecting != NULL) {
        return;
    }
    if (d->has_request) {
        spec_copy_finish(&d->request);
        free(d->container);
        d->container = NULL;
    }
    d->has_request = spec_copy_init(&d->request, spec, &err) == 0;
    if (!d->has_request) {
        task_later(&d->tasks, 0, on_bad_spec, d);
        return;
    }
    d->container = docker_container_name(d->request.spec.id);
    if (d->api != NULL || connect_known(d)) {
        task_later(&d->tasks, 0, on_docker_connected, d);
        return;
    }
    const struct docker_probe_wish wish = {
        .place = &d->request.spec.place,
        .runtime = "",
        .image = "",
    };
    d->connecting = docker_probe_start(d->tasks.loop, &wish, on_found, d);
}

/* ---- create, destroy ------------------------------------------------------------------------ */

static void on_first(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker *d = arg;
    (void)err; /* without the note it is removed through the engine only */
    d->noting = NULL;
    if (rc == 0) {
        docker_first_note(reply->json, d->request.spec.dir);
    }
}

/* Notes the first process only on engines other than Podman, which takes ten seconds and more to
 * remove a container whose process was killed. */
static void note_first(struct docker *d)
{
    if (!d->engine.podman) {
        CLEANUP_FREE char *path = alloc_printf("/containers/%s/json", d->container);
        struct docker_request request = {.method = "GET", .path = path};
        d->noting = docker_api_call(d->api, &request, on_first, d);
    }
}

static void on_docker_create(void *arg, int rc, int fd, const struct backend_info *info,
                             const struct err *err, const char *hint)
{
    struct docker *d = arg;
    d->creating = NULL;
    d->fd = fd;
    /* read before the callback, which may call destroy itself */
    bool cancelled = d->destroy_done != NULL;
    d->create_done(d->create_arg, rc, info, err, hint);
    if (cancelled && d->closed == NULL) {
        begin_docker_destroy(d);
    } else if (rc == 0 && d->closed == NULL && d->destroy_done == NULL) {
        note_first(d);
    }
}

static void begin_create(struct docker *d)
{
    struct err err = ERR_INIT;
    if (d->destroy_done != NULL) { /* destroy was called before there was a connection */
        err_set(&err, ERR_SHUTTING_DOWN, "closed while it was being created");
        d->create_done(d->create_arg, -ERR_SHUTTING_DOWN, NULL, &err, "");
        return;
    }
    d->creating =
        docker_create_start(&d->tasks, d->api, &d->engine, &d->request.spec, on_docker_create, d);
}

static void docker_create(struct backend *b, const struct backend_spec *spec,
                          backend_create_fn done, void *arg)
{
    struct docker *d = docker_of(b);
    d->create_done = done;
    d->create_arg = arg;
    with_engine(d, spec, WANT_CREATE);
}

static void on_docker_destroy(void *arg, int rc, const struct err *err)
{
    struct docker *d = arg;
    backend_done_fn done = d->destroy_done;
    d->ending = NULL;
    d->destroy_done = NULL;
    done(d->destroy_arg, rc, err,
         rc == 0 ? ""
                 : "`docker rm -f` removes it by hand, `docker volume rm` its packages; "
                   "`cloister` sweeps what is left at its "
                   "next start");
}

static void begin_docker_destroy(struct docker *d)
{
    if (d->creating != NULL) {
        docker_create_cancel(d->creating); /* on_docker_create() goes on from there */
        return;
    }
    if (d->noting != NULL) {
        docker_api_cancel(STEAL_PTR(d->noting));
    }
    /* a sweep does not know whether the sandbox has packages; only an installer certainly has
     * none */
    const struct backend_spec *spec = &d->request.spec;
    d->ending = docker_end_start(&d->tasks, d->api, d->container,
                                 docker_packages_are_borrowed(spec) ? NULL : spec->id,
                                 on_docker_destroy, d);
}

static void docker_destroy(struct backend *b, const struct backend_spec *spec, backend_done_fn done,
                           void *arg)
{
    struct docker *d = docker_of(b);
    d->destroy_done = done;
    d->destroy_arg = arg;
    if (d->creating != NULL) {
        begin_docker_destroy(d);
    } else {
        with_engine(d, spec, WANT_DESTROY);
    }
}

/* ---- attach --------------------------------------------------------------------------------- */

static void on_container_inspected(void *arg, int rc, const struct docker_reply *reply,
                                   const struct err *failure)
{
    struct docker *d = arg;
    struct err err = ERR_INIT;
    const cJSON *state = json_get(reply->json, "State");
    if (rc < 0) {
        err = *failure;
        if (reply->status == 404) {
            rc = err_set(&err, ERR_GONE, "the sandbox has ended: its container was removed");
        }
    } else if (!cJSON_IsTrue(json_get(state, "Running"))) {
        rc = err_set(&err, ERR_GONE, "the sandbox has ended: its container is not running");
    }
    if (rc < 0) {
        d->attach_done(d->attach_arg, rc, NULL, &err, rc == -ERR_GONE ? "" : HINT_ENGINE);
        return;
    }
    char *unapplied[BACKEND_UNAPPLIED_MAX];
    struct backend_info info = {.runtime = d->request.spec.runtime, .image = d->request.spec.image};
    const struct docker_user user = docker_shares_user(&d->request.spec);
    info.unapplied_count = docker_spec_unapplied(&d->engine, NULL, 0, unapplied);
    info.unapplied_count =
        docker_shares_note(&d->request.spec, &user, info.unapplied_count, unapplied);
    info.unapplied_count =
        docker_spec_unapplied_asked(&d->engine, &d->request.spec, info.unapplied_count, unapplied);
    for (size_t i = 0; i < info.unapplied_count; i++) {
        info.unapplied[i] = unapplied[i];
    }
    d->attach_done(d->attach_arg, 0, &info, NULL, "");
    for (size_t i = 0; i < info.unapplied_count; i++) {
        free(unapplied[i]);
    }
}

static void begin_attach(struct docker *d)
{
    CLEANUP_FREE char *path = alloc_printf("/containers/%s/json", d->container);
    struct docker_request request = {.method = "GET", .path = path};
    docker_api_call(d->api, &request, on_container_inspected, d);
}

static void docker_attach(struct backend *b, const struct backend_spec *spec,
                          backend_create_fn done, void *arg)
{
    struct docker *d = docker_of(b);
    d->attach_done = done;
    d->attach_arg = arg;
    with_engine(d, spec, WANT_ATTACH);
}

/* ---- stream, usage -------------------------------------------------------------------------- */

static void on_docker_stream(void *arg, int rc, int fd, const struct err *err)
{
    struct docker *d = arg;
    d->stream_done(d->stream_arg, rc, fd, err);
}

/* Reports the stream of the creation, or -ERR_GONE. */
static void on_first_stream(void *arg)
{
    struct docker *d = arg;
    struct err err = ERR_INIT;
    int fd = d->fd;
    d->fd = -1;
    if (fd >= 0) {
        on_docker_stream(d, 0, fd, NULL);
    } else {
        err_set(&err, ERR_GONE, "there is no sandbox");
        on_docker_stream(d, -ERR_GONE, -1, &err);
    }
}

static void docker_stream(struct backend *b, backend_stream_fn done, void *arg)
{
    struct docker *d = docker_of(b);
    d->stream_done = done;
    d->stream_arg = arg;
    if (d->fd >= 0 || d->api == NULL || d->container == NULL) {
        task_later(&d->tasks, 0, on_first_stream, d);
    } else {
        docker_stream_exec(&d->tasks, d->api, d->container, on_docker_stream, d);
    }
}

static uint64_t number(const cJSON *object, const char *key)
{
    const cJSON *item = json_get(object, key);
    return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 9e18
               ? (uint64_t)item->valuedouble
               : 0;
}

static void on_stats(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker *d = arg;
    (void)err;
    if (rc == 0) { /* else it has just ended, and the last figures remain */
        const cJSON *memory = json_get(reply->json, "memory_stats");
        const cJSON *detail = json_get(memory, "stats");
        uint64_t used = number(memory, "usage");
        /* file cache that the kernel can reclaim at once; its name differs between cgroup v1 and v2
         */
        uint64_t cache = json_get(detail, "total_inactive_file") != NULL
                             ? number(detail, "total_inactive_file")
                             : number(detail, "inactive_file");
        d->usage.memory_bytes = used > cache ? used - cache : 0;
        d->usage.cpu_us =
            number(json_get(json_get(reply->json, "cpu_stats"), "cpu_usage"), "total_usage") / 1000;
        d->usage.pids = number(json_get(reply->json, "pids_stats"), "current");
    }
    d->usage_done(d->usage_arg, 0, &d->usage, NULL);
}

static void on_state(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker *d = arg;
    if (rc < 0) {
        d->usage_done(d->usage_arg, rc, NULL, err);
        return;
    }
    const cJSON *state = json_get(reply->json, "State");
    /* the engine only reports that some process was killed for memory; the agent has the count */
    d->usage.oom_kills_coarse = true;
    d->usage.oom_kills = cJSON_IsTrue(json_get(state, "OOMKilled")) ? 1 : 0;
    if (!cJSON_IsTrue(json_get(state, "Running"))) {
        d->usage_done(d->usage_arg, 0, &d->usage, NULL);
        return;
    }
    CLEANUP_FREE char *path =
        alloc_printf("/containers/%s/stats?stream=false&one-shot=true", d->container);
    struct docker_request request = {.method = "GET", .path = path, .total_ms = USAGE_MS};
    docker_api_call(d->api, &request, on_stats, d);
}

static void on_no_usage(void *arg)
{
    struct docker *d = arg;
    struct err err = ERR_INIT;
    err_set(&err, ERR_GONE, "there is no sandbox");
    d->usage_done(d->usage_arg, -ERR_GONE, NULL, &err);
}

static void docker_usage(struct backend *b, backend_usage_fn done, void *arg)
{
    struct docker *d = docker_of(b);
    d->usage_done = done;
    d->usage_arg = arg;
    d->usage = (struct backend_usage){0};
    if (d->api == NULL || d->container == NULL) {
        task_later(&d->tasks, 0, on_no_usage, d);
        return;
    }
    CLEANUP_FREE char *path = alloc_printf("/containers/%s/json", d->container);
    struct docker_request request = {.method = "GET", .path = path, .total_ms = USAGE_MS};
    docker_api_call(d->api, &request, on_state, d);
}

/* ---- close ---------------------------------------------------------------------------------- */

static void docker_closed_by_nobody(void *arg)
{
    (void)arg;
}

static void on_part_closed(void *arg)
{
    struct docker *d = arg;
    if (--d->open > 0) {
        return;
    }
    void (*closed)(void *) = d->closed;
    void *closed_arg = d->closed_arg;
    if (d->has_request) {
        spec_copy_finish(&d->request);
    }
    if (d->fd >= 0) {
        close(d->fd);
    }
    free(d->container);
    free(d);
    closed(closed_arg);
}

static void docker_close(struct backend *b, void (*closed)(void *arg), void *arg)
{
    struct docker *d = docker_of(b);
    struct docker_probe *probes[] = {d->connecting, d->probing};
    d->closed = closed != NULL ? closed : docker_closed_by_nobody;
    d->closed_arg = arg;
    d->open = 1;
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        if (probes[i] != NULL) {
            d->open++;
            docker_probe_cancel(probes[i], on_part_closed, d);
        }
    }
    /* users of the connection are freed before it */
    docker_create_free(d->creating);
    docker_end_free(d->ending);
    tasks_close(&d->tasks, on_part_closed, d);
    if (d->api != NULL) {
        d->open++;
        docker_api_close(d->api, on_part_closed, d);
    }
}

const struct backend_ops backend_docker = {
    .name = "docker",
    .open = docker_open,
    .probe = docker_probe,
    .create = docker_create,
    .attach = docker_attach,
    .stream = docker_stream,
    .usage = docker_usage,
    .destroy = docker_destroy,
    .close = docker_close,
};
