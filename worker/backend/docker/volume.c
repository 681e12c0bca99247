/*
 *     our turn --> create volume --> create helper --> put archive --> remove helper --> done
 *
 * Engines do not put two archives into one volume at once, and a program cannot start while it is
 * written. So the workers of an instance take turns, by a lock on a file, which ends with whoever
 * holds it. The file has a byte for each time that the volume was filled: who finds more of them
 * than before its container was started fills nothing, since the container may have come too early.
 *
 * The archive endpoint can write into a container's volumes only, so the helper is a container that
 * never starts. It may have any image; the sandbox's exists on the engine.
 *
 * The name contains a hash of the agent's bytes, which only has to differ when the agent does. It
 * need not resist forgery, because a client that can write to an engine's volumes is root there.
 *
 * An update leaves the volume of the old build behind. Its labels name the file that it was filled
 * from, so any server of that host can tell that it is not needed; if that is wrong, the next
 * creation fills it again.
 */
#include "worker/backend/docker/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/str.h"
#include "worker/backend/docker/spec.h"
#include "worker/backend/docker/tar.h"
#include "worker/backend/json_build.h"

#define AGENT_NAME "cloister-agent"
#define AGENT_MAX  (32u << 20) /* a static program; an instrumented one is large */
#define TAR_ROOM   (64u << 10)
#define LABEL_PATH OWNER_LABEL "agent-path"
#define TURN_MS    50 /* between two looks whether it is our turn */

struct docker_volume {
    struct tasks *tasks;
    struct docker_api *api;
    struct docker_call *call;
    int lock;       /* -1: it cannot be made, so nobody is waited for */
    uint64_t fills; /* bytes in its file when the container was made */
    bool by_others; /* that filled the volume since then */
    bool stopped;   /* before it began */
    char *name, *agent_path, *image;
    char *helper; /* id of the helper container, once there is one */
    struct buf tar;
    struct err err; /* the first failure; the helper is removed in any case */
    docker_volume_fn done;
    void *arg;
};

void docker_volume_stop(struct docker_volume *v)
{
    v->stopped = true;
}

void docker_volume_cancel(struct docker_volume *v)
{
    if (v != NULL) {
        if (v->call != NULL) {
            docker_api_cancel(v->call);
        }
        if (v->lock >= 0) {
            close(v->lock);
        }
        buf_finish(&v->tar);
        free(v->name);
        free(v->agent_path);
        free(v->image);
        free(v->helper);
        free(v);
    }
}

/* ---- the agent's bytes ---------------------------------------------------------------------- */

static int read_agent(const char *path, struct buf *out, struct err *err)
{
    char chunk[64 << 10];
    struct stat st;
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return err_sys(err, ERR_CONFIG, errno, "the agent %s", path);
    }
    if (!S_ISREG(st.st_mode)) { /* a label may name any file */
        return err_set(err, ERR_CONFIG, "the agent %s: not a regular file", path);
    }
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(err, ERR_IO, errno, "the agent %s", path);
        }
        if (n == 0) {
            return 0;
        }
        int rc = buf_add(out, chunk, (size_t)n, err);
        if (rc < 0) {
            return err_wrap(err, "the agent %s", path);
        }
    }
}

int docker_volume_name(const char *agent_path, char **ret, struct err *err)
{
    CLEANUP_BUF struct buf bytes;
    buf_init(&bytes, AGENT_MAX);
    int rc = read_agent(agent_path, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    *ret = alloc_printf(AGENT_NAME "-%016" PRIx64, hash_bytes(bytes.data, bytes.len));
    return 0;
}

void docker_volume_label(cJSON *labels, const char *name, const char *agent_path)
{
    char host[OWNER_HOST_SIZE];
    owner_host(host);
    json_build_string(labels, OWNER_LABEL "host", host);
    json_build_string(labels, DOCKER_VOLUME_LABEL, name);
    json_build_string(labels, LABEL_PATH, agent_path);
}

char *docker_volume_body(const char *name, const char *agent_path)
{
    cJSON *body = json_build_new();
    json_build_string(body, "Name", name);
    docker_volume_label(json_build_object(body, "Labels"), name, agent_path);
    char *text = json_build_print(body);
    cJSON_Delete(body);
    return text;
}

bool docker_volume_is_old(const cJSON *labels)
{
    char own_host[OWNER_HOST_SIZE];
    CLEANUP_FREE char *now = NULL;
    const char *host = json_get_str(labels, OWNER_LABEL "host");
    const char *name = json_get_str(labels, DOCKER_VOLUME_LABEL);
    const char *path = json_get_str(labels, LABEL_PATH);
    owner_host(own_host);
    if (host == NULL || name == NULL || path == NULL || own_host[0] == '\0' ||
        strcmp(host, own_host) != 0) {
        return false;
    }
    if (docker_volume_name(path, &now, NULL) < 0) {
        return access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
    }
    return strcmp(now, name) != 0;
}

/* The tar archive that fills the volume. */
static int make_tar(const char *agent_path, struct buf *out, struct err *err)
{
    CLEANUP_BUF struct buf bytes;
    buf_init(&bytes, AGENT_MAX);
    int rc = read_agent(agent_path, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    /* the mark comes last, so that it exists only when the agent is complete */
    struct docker_tar_file files[] = {
        {AGENT_NAME, view_bytes(bytes.data, bytes.len)},
        {DOCKER_AGENT_MARK, view_of("")},
    };
    return docker_tar_write(files, sizeof(files) / sizeof(files[0]), out, err);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void finish_volume(struct docker_volume *v)
{
    docker_volume_fn done = v->done;
    void *arg = v->arg;
    struct err err = v->err;
    bool by_others = v->by_others;
    docker_volume_cancel(v);
    done(arg, -err.code, by_others, err.code != 0 ? &err : NULL);
}

static void ask_engine(struct docker_volume *v, const char *method, const char *path,
                       const char *json, docker_reply_fn next)
{
    struct docker_request request = {.method = method, .path = path, .json = json};
    v->call = docker_api_call(v->api, &request, next, v);
}

static void on_helper_gone(void *arg, int rc, const struct docker_reply *reply,
                           const struct err *err)
{
    struct docker_volume *v = arg;
    (void)reply;
    v->call = NULL;
    if (rc < 0) {
        log_warn("the helper container that brought the agent stays: %s", err->text);
    }
    finish_volume(v);
}

static void remove_helper(struct docker_volume *v)
{
    CLEANUP_FREE char *path = alloc_printf("/containers/%s?force=1&v=0", v->helper);
    ask_engine(v, "DELETE", path, NULL, on_helper_gone);
}

static void on_archive_sent(void *arg, int rc, const struct docker_reply *reply,
                            const struct err *err)
{
    struct docker_volume *v = arg;
    (void)reply;
    v->call = NULL;
    if (rc < 0) {
        v->err = *err;
        err_ignore(err_wrap(&v->err, "cannot bring the agent to the engine"));
    } else if (v->lock >= 0 && write(v->lock, "+", 1) < 0) {
        log_warn("other sandboxes may fill the agent's volume again: %s", strerror(errno));
    }
    remove_helper(v);
}

static void on_helper(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker_volume *v = arg;
    const char *id = json_get_str(reply->json, "Id");
    v->call = NULL;
    if (rc == 0 && id == NULL) {
        rc = err_set(&v->err, ERR_ENGINE, "the engine made a container without an id");
    } else if (rc < 0) {
        v->err = *err;
    }
    if (rc < 0) {
        err_ignore(err_wrap(&v->err, "no helper container to bring the agent to the engine"));
        finish_volume(v);
        return;
    }
    v->helper = http_escape(id);
    CLEANUP_FREE char *path = alloc_printf("/containers/%s/archive?path=%s&noOverwriteDirNonDir=1",
                                           v->helper, DOCKER_AGENT_DIR);
    struct docker_request request = {
        .method = "PUT",
        .path = path,
        .body = view_bytes(v->tar.data, v->tar.len),
        .content_type = "application/x-tar",
    };
    v->call = docker_api_call(v->api, &request, on_archive_sent, v);
}

/* No user and no limits, because it never runs. Podman makes the container's user the owner of a
 * new volume. */
static char *helper_body(const struct docker_volume *v)
{
    static const char *const entry[] = {DOCKER_AGENT_PATH};
    cJSON *body = json_build_new();
    json_build_string(body, "Image", v->image);
    json_build_strings(body, "Entrypoint", entry, 1);
    json_build_strings(body, "Cmd", entry, 0);
    json_build_bool(body, "NetworkDisabled", true);
    owner_label(json_build_object(body, "Labels"), "", "");
    cJSON *host = json_build_object(body, "HostConfig");
    json_build_string(host, "NetworkMode", "none");
    cJSON *mount = json_build_append_object(json_build_array(host, "Mounts"));
    json_build_string(mount, "Type", "volume");
    json_build_string(mount, "Source", v->name);
    json_build_string(mount, "Target", DOCKER_AGENT_DIR);
    json_build_bool(json_build_object(mount, "VolumeOptions"), "NoCopy", true);
    char *text = json_build_print(body);
    cJSON_Delete(body);
    return text;
}

int docker_volume_made(int rc, const struct err *err)
{
    return rc < 0 && strcasestr(err->text, "volume already exists") != NULL ? 0 : rc;
}

static void on_volume(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker_volume *v = arg;
    (void)reply;
    v->call = NULL;
    if (docker_volume_made(rc, err) < 0) {
        v->err = *err;
        err_ignore(err_wrap(&v->err, "no volume for the agent"));
        finish_volume(v);
        return;
    }
    CLEANUP_FREE char *body = helper_body(v);
    ask_engine(v, "POST", "/containers/create", body, on_helper);
}

static char *lock_path(const struct backend_spec *spec)
{
    return alloc_printf("%s/agent-volume.lock", spec->shared_dir);
}

uint64_t docker_volume_fills(const struct backend_spec *spec)
{
    CLEANUP_FREE char *path = lock_path(spec);
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void begin_volume(void *arg)
{
    struct docker_volume *v = arg;
    struct stat st;
    if (v->stopped) {
        err_set(&v->err, ERR_SHUTTING_DOWN, "closed while it was being created");
        finish_volume(v);
        return;
    }
    if (v->lock >= 0 && flock(v->lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        task_later(v->tasks, TURN_MS, begin_volume, v);
        return;
    }
    v->by_others = v->lock >= 0 && fstat(v->lock, &st) == 0 && (uint64_t)st.st_size != v->fills;
    if (v->by_others || make_tar(v->agent_path, &v->tar, &v->err) < 0) {
        finish_volume(v);
        return;
    }
    log_info("bringing the agent to the engine: volume %s", v->name);
    CLEANUP_FREE char *text = docker_volume_body(v->name, v->agent_path);
    ask_engine(v, "POST", "/volumes/create", text, on_volume);
}

struct docker_volume *docker_volume_fill(struct tasks *tasks, struct docker_api *api,
                                         const struct backend_spec *spec, uint64_t fills,
                                         const char *name, const char *image, docker_volume_fn done,
                                         void *arg)
{
    struct docker_volume *v = alloc_one(struct docker_volume);
    CLEANUP_FREE char *path = lock_path(spec);
    v->tasks = tasks;
    v->api = api;
    v->lock = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    v->fills = fills;
    v->name = alloc_strdup(name);
    v->agent_path = alloc_strdup(spec->agent_path);
    v->image = alloc_strdup(image);
    v->done = done;
    v->arg = arg;
    buf_init(&v->tar, AGENT_MAX + TAR_ROOM);
    task_later(tasks, 0, begin_volume, v);
    return v;
}
