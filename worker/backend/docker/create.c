/*
 *     IMAGE --> PACKAGES --> MAKE --> ATTACH --> START --> GREETING --> done
 *                             ^          |         |          |
 *                             +-- FILL <-+---------+----------+    once: the agent was not there
 *
 *     from anywhere behind MAKE:  failed or cancelled --> REMOVE --> error
 *
 * The agent's volume is not checked beforehand: it exists unless this is the first sandbox on the
 * engine or somebody removed it. A container with an empty volume does not start, or starts an
 * incomplete agent; then the volume is filled and the creation retried once, so only that case
 * takes extra time. While another creation fills it, that one is waited for and retried.
 *
 * A sandbox's package volumes are made before its container. An installer uses another sandbox's
 * volumes, which are checked after MAKE, when they cannot be removed any more; its mounts are
 * copied then, too.
 *
 * Attaching before the start saves the exec that later streams need, which takes an engine about as
 * long as all other steps together.
 */
#include "worker/backend/docker/create.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/docker/copy.h"
#include "worker/backend/docker/end.h"
#include "worker/backend/docker/image.h"
#include "worker/backend/docker/packages.h"
#include "worker/backend/docker/spec.h"
#include "worker/backend/docker/stream.h"
#include "worker/backend/docker/volume.h"
#include "worker/backend/json_build.h"
#include "worker/backend/owner.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/spec_copy.h"

#define WARNINGS_MAX 16
#define RETRIES_MAX  3 /* after others have filled the volume, which they need to do once */

struct docker_create {
    struct tasks *tasks;
    struct docker_api *api;
    struct docker_engine engine;
    struct spec_copy request;
    bool has_request;
    char *container; /* name */
    char *volume;
    char *image_id;
    char *copies[BACKEND_MOUNTS_MAX]; /* mount points of volumes for copied files, each once */
    size_t copy_count;
    char *unapplied[BACKEND_UNAPPLIED_MAX];
    size_t unapplied_count;
    struct docker_user user; /* as shares decide it */
    bool made;               /* the container may exist */
    bool stored;             /* package volumes may exist that must be removed on failure */
    bool filled;             /* the agent's volume was filled; this is done only once */
    unsigned retries;        /* after others have filled it */
    uint64_t fills;          /* before the container was made */
    bool cancelled;
    bool starting; /* the engine has not answered the start yet */
    bool waiting;  /* it has, and the greeting is still to come */
    int fd;        /* the first stream, -1 before the greeting */
    struct docker_image *image;
    struct docker_volume *filling;
    struct docker_packages *packages;
    struct docker_copy *copying;
    struct docker_stream *stream;
    struct docker_end *end;
    struct err err;
    char hint[BACKEND_HINT_MAX];
    docker_create_fn fn;
    void *arg;
};

static void make(struct docker_create *c);

char *docker_container_name(const char *sandbox)
{
    return alloc_printf("cloister-%s", sandbox);
}

void docker_create_free(struct docker_create *c)
{
    if (c == NULL) {
        return;
    }
    docker_image_cancel(c->image);
    docker_volume_cancel(c->filling);
    docker_packages_cancel(c->packages);
    docker_copy_cancel(c->copying);
    docker_end_free(c->end);
    if (c->has_request) {
        spec_copy_finish(&c->request);
    }
    for (size_t i = 0; i < c->unapplied_count; i++) {
        free(c->unapplied[i]);
    }
    for (size_t i = 0; i < c->copy_count; i++) {
        free(c->copies[i]);
    }
    if (c->fd >= 0) {
        close(c->fd);
    }
    free(c->container);
    free(c->volume);
    free(c->image_id);
    free(c);
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* True if the engine reports that it cannot mount a directory over a file, quoting its runtime. */
static bool is_file_in_the_way(const struct err *err)
{
    return strcasestr(err->text, "not a directory") != NULL ||
           strcasestr(err->text, "cannot mount volume over existing file") != NULL;
}

/* Reports the error as one of the image, whatever the engine's status was. */
static void blame_image(struct docker_create *c, const struct err *err)
{
    err_set(&c->err, ERR_IMAGE, "image %.200s has a file where a sandbox has a directory: %.400s",
            c->request.spec.image, err->text);
    snprintf(c->hint, sizeof(c->hint),
             "remove the file from the image, or name another image: each of /workspace, /tmp, "
             "/run, " SANDBOX_HOME ", " BACKEND_PACKAGES ", " BACKEND_SHARES ", " DOCKER_AGENT_DIR
             " has to be a directory in it, or absent");
}

/* Sets a hint for known error messages of the engine or its connection. */
static void advise(struct docker_create *c)
{
    static const struct {
        const char *phrase, *hint;
    } rows[] = {
        {"cannot connect",
         "the container engine does not answer: start it (Docker Desktop, `systemctl start "
         "docker`), or say with --engine where it is; `cloister doctor` shows what was tried"},
        {"no space left",
         "free disk space where the engine keeps its data; `docker system df` shows what it holds"},
        {"", "look whether the engine works (`docker info`, and its log says more); `cloister "
             "doctor` makes a sandbox and shows what comes of it"},
    };
    size_t i = 0;
    while (strcasestr(c->err.text, rows[i].phrase) == NULL) {
        i++;
    }
    snprintf(c->hint, sizeof(c->hint), "%s", rows[i].hint);
}

static void finish_docker_create(struct docker_create *c, int rc)
{
    int fd = -1;
    struct backend_info info = {
        .runtime = c->has_request ? c->request.spec.runtime : "",
        .image = c->has_request ? c->request.spec.image : "",
        .unapplied_count = c->unapplied_count,
    };
    for (size_t i = 0; i < c->unapplied_count; i++) {
        info.unapplied[i] = c->unapplied[i];
    }
    if (rc == 0) {
        fd = c->fd;
        c->fd = -1;
    } else if (c->hint[0] == '\0' && c->err.code == ERR_ENGINE) {
        advise(c);
    }
    c->fn(c->arg, rc, fd, rc == 0 ? &info : NULL, rc == 0 ? NULL : &c->err, rc == 0 ? "" : c->hint);
    docker_create_free(c);
}

static void on_failed_removed(void *arg, int rc, const struct err *err)
{
    struct docker_create *c = arg;
    c->end = NULL;
    if (rc < 0) {
        log_warn("a container that did not come to life stays: %s", err->text);
    }
    finish_docker_create(c, -c->err.code);
}

/* Removes what was made so far, then reports c->err. */
static void fail_docker_create(struct docker_create *c)
{
    if (c->cancelled) {
        err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created");
        c->hint[0] = '\0';
    }
    if (c->stream != NULL) {
        docker_stream_cancel(c->stream);
        c->stream = NULL;
    }
    if (c->made || c->stored) {
        c->end =
            docker_end_start(c->tasks, c->api, c->container,
                             c->stored ? c->request.spec.packages : NULL, on_failed_removed, c);
    } else {
        finish_docker_create(c, -c->err.code);
    }
}

static void fail_with(struct docker_create *c, const struct err *err, const char *context)
{
    c->err = *err;
    err_ignore(err_wrap(&c->err, "%s", context));
    if (is_file_in_the_way(err)) {
        blame_image(c, err);
    }
    fail_docker_create(c);
}

/* Called after each step. False if the step failed or the creation was cancelled; the clean-up has
 * begun then. */
static bool may_go_on(struct docker_create *c, int rc, const struct err *err)
{
    if (rc < 0) {
        c->err = *err;
    }
    if (rc < 0 || c->cancelled) {
        fail_docker_create(c);
        return false;
    }
    return true;
}

/* ---- the agent's volume --------------------------------------------------------------------- */

static void on_unmade(void *arg, int rc, const struct err *err)
{
    struct docker_create *c = arg;
    c->end = NULL;
    if (may_go_on(c, rc, err)) {
        make(c);
    }
}

/* Starts again from the beginning, because the state of a container after a failed start depends on
 * the engine. */
static void on_volume_filled(void *arg, int rc, bool by_others, const struct err *err)
{
    struct docker_create *c = arg;
    c->filling = NULL;
    c->filled = !by_others;
    c->retries += by_others ? 1 : 0;
    if (rc < 0) {
        c->err = *err;
        fail_docker_create(c);
    } else {
        c->end = docker_end_start(c->tasks, c->api, c->container, NULL, on_unmade, c);
    }
}

/* The container did not start. The usual reason is an empty agent volume. */
static void start_failed(struct docker_create *c, const struct err *err)
{
    c->err = *err;
    err_ignore(err_wrap(&c->err, "the container does not start"));
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    if (c->stream != NULL) {
        docker_stream_cancel(c->stream);
        c->stream = NULL;
    }
    if (is_file_in_the_way(err)) { /* filling the volume would not help */
        blame_image(c, err);
        fail_docker_create(c);
        return;
    }
    if (c->filled || c->retries == RETRIES_MAX || c->cancelled || err->code == ERR_TIMEOUT) {
        fail_docker_create(c);
        return;
    }
    log_info("%s; is the agent in its volume?", c->err.text);
    c->filling = docker_volume_fill(c->tasks, c->api, &c->request.spec, c->fills, c->volume,
                                    c->image_id, on_volume_filled, c);
}

/* ---- start ---------------------------------------------------------------------------------- */

/* The answers of engine and agent come in any order; the creation ends with the second. */
static void settle_docker_create(struct docker_create *c)
{
    if (c->starting) {
        return;
    }
    if (c->cancelled) {
        fail_docker_create(c);
    } else if (c->fd >= 0) {
        finish_docker_create(c, 0);
    } else if (c->stream == NULL) {
        struct err err = c->err;
        start_failed(c, &err);
    } else {
        c->waiting = true;
    }
}

static void on_greeted(void *arg, int rc, int fd, const struct err *err)
{
    struct docker_create *c = arg;
    c->stream = NULL;
    c->waiting = false;
    c->fd = fd;
    if (rc < 0) {
        c->err = *err;
    }
    settle_docker_create(c);
}

static void on_started(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker_create *c = arg;
    (void)reply;
    c->starting = false;
    if (rc < 0 && !c->cancelled) {
        start_failed(c, err);
    } else {
        settle_docker_create(c);
    }
}

static void on_attached(void *arg, int rc, int fd, const struct err *err)
{
    struct docker_create *c = arg;
    (void)fd;
    if (rc < 0) {
        c->stream = NULL;
        start_failed(c, err); /* Podman sets up a container when a client attaches */
        return;
    }
    if (c->cancelled) {
        fail_docker_create(c);
        return;
    }
    CLEANUP_FREE char *path = alloc_printf("/containers/%s/start", c->container);
    struct docker_request request = {.method = "POST", .path = path};
    c->starting = true;
    docker_api_call(c->api, &request, on_started, c);
}

static void attach(struct docker_create *c)
{
    c->stream = docker_stream_attach(c->tasks, c->api, c->container, on_attached, on_greeted, c);
}

/* ---- make ----------------------------------------------------------------------------------- */

static void on_mounts_copied(void *arg, int rc, const struct err *err)
{
    struct docker_create *c = arg;
    c->copying = NULL;
    if (may_go_on(c, rc, err)) {
        attach(c);
    }
}

static void copy_mounts(struct docker_create *c)
{
    const struct backend_spec *spec = &c->request.spec;
    if (spec->mount_count > 0) {
        c->copying = docker_copy_start(c->api, c->container, spec->mounts, spec->mount_count,
                                       on_mounts_copied, c);
    } else {
        attach(c);
    }
}

/* Checks whether an installer's package volumes are the sandbox's, or new ones that the engine has
 * just made. */
static void on_checked(void *arg, int rc, const struct err *err)
{
    struct docker_create *c = arg;
    c->packages = NULL;
    if (rc < 0) {
        /* on -ERR_GONE the engine has made the volumes, or their owner is removing them */
        c->stored = rc == -ERR_GONE;
    }
    if (may_go_on(c, rc, err)) {
        copy_mounts(c);
    }
}

/* Collects the engine's warnings about limits that it did not apply. */
static void note_warnings(struct docker_create *c, const cJSON *reply)
{
    const char *warnings[WARNINGS_MAX];
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(reply, "Warnings"))
    {
        if (cJSON_IsString(item) && count < WARNINGS_MAX) {
            warnings[count++] = item->valuestring;
        }
    }
    for (size_t i = 0; i < c->unapplied_count; i++) { /* of a first try */
        free(c->unapplied[i]);
    }
    c->unapplied_count = docker_spec_unapplied(&c->engine, warnings, count, c->unapplied);
    c->unapplied_count =
        docker_shares_note(&c->request.spec, &c->user, c->unapplied_count, c->unapplied);
    c->unapplied_count =
        docker_spec_unapplied_asked(&c->engine, &c->request.spec, c->unapplied_count, c->unapplied);
}

static void on_container_made(void *arg, int rc, const struct docker_reply *reply,
                              const struct err *err)
{
    struct docker_create *c = arg;
    /* without an answer the container may exist or appear later; removing handles both */
    c->made = rc == 0 || reply->status == 0;
    if (c->cancelled) {
        fail_docker_create(c);
        return;
    }
    if (rc < 0) {
        if (rc == -ERR_INVALID && c->request.spec.runtime[0] != '\0') {
            snprintf(c->hint, sizeof(c->hint),
                     "`docker info` lists the runtimes that the engine knows; --runtime names one");
        }
        fail_with(c, err, "cannot create the container");
        return;
    }
    note_warnings(c, reply->json);
    if (c->request.spec.strict && c->unapplied_count > 0) {
        char names[BACKEND_NAMES_MAX];
        backend_unapplied_names((const char *const *)c->unapplied, c->unapplied_count, names);
        err_set(&c->err, ERR_ENGINE, "--strict: this engine cannot apply %s", names);
        snprintf(c->hint, sizeof(c->hint), BACKEND_HINT_STRICT);
        fail_docker_create(c);
        return;
    }
    if (docker_packages_are_borrowed(&c->request.spec)) {
        c->packages = docker_packages_check(c->api, c->request.spec.packages, on_checked, c);
    } else {
        copy_mounts(c);
    }
}

static void make(struct docker_create *c)
{
    const struct backend_spec *spec = &c->request.spec;
    cJSON *labels = json_build_new();
    owner_label(labels, spec->id, spec->dir);
    struct docker_spec_input in = {
        .spec = spec,
        .engine = &c->engine,
        .image = c->image_id,
        .volume = c->volume,
        .runtime = c->engine.podman ? "" : spec->runtime,
        .labels = labels,
        .copies = c->copies,
        .copy_count = c->copy_count,
        .user = c->user,
    };
    c->fills = docker_volume_fills(spec);
    CLEANUP_FREE char *body = NULL;
    int rc = docker_spec_build(&in, &body, &c->err);
    cJSON_Delete(labels);
    if (rc < 0) {
        fail_docker_create(c);
        return;
    }
    CLEANUP_FREE char *path = alloc_printf("/containers/create?name=%s", c->container);
    struct docker_request request = {.method = "POST", .path = path, .json = body};
    docker_api_call(c->api, &request, on_container_made, c);
}

static void on_volume_there(void *arg, int rc, const struct docker_reply *reply,
                            const struct err *err)
{
    struct docker_create *c = arg;
    (void)reply;
    if (may_go_on(c, docker_volume_made(rc, err), err)) {
        make(c);
    }
}

/* A volume that is made with a container gets the labels of its mount; Podman ignores these, so the
 * volume is made first there. */
static void make_with_volume(struct docker_create *c)
{
    if (!c->engine.podman) {
        make(c);
        return;
    }
    CLEANUP_FREE char *body = docker_volume_body(c->volume, c->request.spec.agent_path);
    struct docker_request request = {.method = "POST", .path = "/volumes/create", .json = body};
    docker_api_call(c->api, &request, on_volume_there, c);
}

static void on_packages(void *arg, int rc, const struct err *err)
{
    struct docker_create *c = arg;
    c->packages = NULL;
    if (may_go_on(c, rc, err)) {
        make_with_volume(c);
    }
}

static void on_image(void *arg, int rc, const char *id, const struct err *err, const char *hint)
{
    struct docker_create *c = arg;
    c->image = NULL;
    if (rc < 0) {
        c->err = *err;
        snprintf(c->hint, sizeof(c->hint), "%s", hint);
        fail_docker_create(c);
    } else if (c->cancelled) {
        fail_docker_create(c);
    } else {
        const struct backend_spec *spec = &c->request.spec;
        c->image_id = alloc_strdup(id);
        if (strcmp(spec->packages, spec->id) == 0) {
            c->stored = true;
            c->packages = docker_packages_make(c->api, spec->id, spec->dir, on_packages, c);
        } else {
            make_with_volume(c);
        }
    }
}

/* Files in the same directory share a volume. */
static int find_copies(struct docker_create *c)
{
    const struct backend_spec *spec = &c->request.spec;
    for (size_t i = 0; i < spec->mount_count; i++) {
        char *target;
        size_t known = 0;
        int rc = docker_copy_target(&spec->mounts[i], &target, &c->err);
        if (rc < 0) {
            return rc;
        }
        while (known < c->copy_count && strcmp(c->copies[known], target) != 0) {
            known++;
        }
        if (known < c->copy_count) {
            free(target);
        } else {
            c->copies[c->copy_count++] = target;
        }
    }
    return 0;
}

static void begin_docker_create(void *arg)
{
    struct docker_create *c = arg;
    if (c->err.code == 0 && c->request.spec.image[0] == '\0') {
        err_set(&c->err, ERR_IMAGE, "no image is named");
        snprintf(c->hint, sizeof(c->hint), "name one with --image");
    }
    if (c->err.code == 0) {
        err_ignore(docker_volume_name(c->request.spec.agent_path, &c->volume, &c->err));
    }
    if (c->err.code == 0) {
        err_ignore(find_copies(c));
    }
    if (c->err.code == 0) {
        err_ignore(docker_shares_settle(&c->request.spec, &c->engine, &c->user, c->hint, &c->err));
    }
    if (c->err.code != 0 || c->cancelled) {
        fail_docker_create(c);
        return;
    }
    c->image = docker_image_get(c->api, &c->request.spec, on_image, c);
}

struct docker_create *docker_create_start(struct tasks *tasks, struct docker_api *api,
                                          const struct docker_engine *engine,
                                          const struct backend_spec *spec, docker_create_fn fn,
                                          void *arg)
{
    struct docker_create *c = alloc_one(struct docker_create);
    c->tasks = tasks;
    c->api = api;
    c->engine = *engine;
    c->fd = -1;
    c->fn = fn;
    c->arg = arg;
    c->container = docker_container_name(spec->id);
    c->has_request = spec_copy_init(&c->request, spec, &c->err) == 0;
    task_later(tasks, 0, begin_docker_create, c);
    return c;
}

static void give_up_docker_create(void *arg)
{
    fail_docker_create(arg);
}

void docker_create_cancel(struct docker_create *c)
{
    bool idle = false;
    c->cancelled = true;
    if (c->image != NULL) { /* a pull may take minutes */
        docker_image_cancel(c->image);
        c->image = NULL;
        idle = true;
    } else if (c->copying != NULL) { /* likewise */
        docker_copy_cancel(c->copying);
        c->copying = NULL;
        idle = true;
    } else if (c->filling != NULL) { /* others may take long, too */
        docker_volume_stop(c->filling);
    } else if (c->stream != NULL && c->waiting) {
        docker_stream_cancel(c->stream);
        c->stream = NULL;
        idle = true;
    }
    if (idle) {
        task_later(c->tasks, 0, give_up_docker_create, c);
    }
}
