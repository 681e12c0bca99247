/*
 * The engine may still be removing the container for an earlier worker, and then refuses other
 * removals; so the request is retried until that is over. Removing a volume is refused likewise
 * while a container uses it.
 *
 * Volumes are removed after the containers that use them, both for one sandbox and in the sweep.
 *
 * An engine makes missing volumes of a container, and Podman ignores the labels of their mounts. So
 * a package volume without labels is judged by its name and by the engine: while the sandbox
 * exists, its container uses the volume, and the engine refuses to remove it.
 */
#include "worker/backend/docker/end.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/docker/packages.h"
#include "worker/backend/docker/volume.h"
#include "worker/backend/json_build.h"
#include "worker/backend/owner.h"

#define AGAIN_MS  100
#define AGAIN_MAX 30
#define REMOVE_MS 10000
#define LIST_MS   5000
#define SWEEP_MAX 32 /* containers or volumes of one sweep; the next probe removes the rest */
#define PATHS_MAX (1 + DOCKER_PACKAGES_COUNT)

struct docker_end {
    struct tasks *tasks;
    struct docker_api *api;
    char *paths[PATHS_MAX]; /* objects that are removed, one after the other */
    size_t count, next;
    int tries;
    docker_end_fn done;
    void *arg;
};

static void try_remove(void *arg);

void docker_end_free(struct docker_end *e)
{
    if (e != NULL) {
        for (size_t i = 0; i < e->count; i++) {
            free(e->paths[i]);
        }
        free(e);
    }
}

static void on_container_removed(void *arg, int rc, const struct docker_reply *reply,
                                 const struct err *err)
{
    struct docker_end *e = arg;
    docker_end_fn done = e->done;
    void *done_arg = e->arg;
    if (reply->status == 409 && ++e->tries < AGAIN_MAX) {
        task_later(e->tasks, AGAIN_MS, try_remove, e);
        return;
    }
    if (reply->status == 404 || rc == -ERR_GONE) {
        rc = 0;
    }
    if (rc == 0 && ++e->next < e->count) {
        e->tries = 0;
        try_remove(e);
        return;
    }
    docker_end_free(e);
    done(done_arg, rc, rc < 0 ? err : NULL);
}

static void try_remove(void *arg)
{
    struct docker_end *e = arg;
    struct docker_request request = {
        .method = "DELETE", .path = e->paths[e->next], .total_ms = REMOVE_MS};
    docker_api_call(e->api, &request, on_container_removed, e);
}

struct docker_end *docker_end_start(struct tasks *tasks, struct docker_api *api,
                                    const char *container, const char *packages, docker_end_fn done,
                                    void *arg)
{
    struct docker_end *e = alloc_one(struct docker_end);
    e->tasks = tasks;
    e->api = api;
    e->paths[e->count++] = alloc_printf("/containers/%s?force=1&v=1", container);
    for (size_t i = 0; packages != NULL && i < DOCKER_PACKAGES_COUNT; i++) {
        CLEANUP_FREE char *volume = docker_packages_volume(packages, i);
        e->paths[e->count++] = alloc_printf("/volumes/%s", volume);
    }
    e->done = done;
    e->arg = arg;
    try_remove(e);
    return e;
}

/* ---- what dead servers left ----------------------------------------------------------------- */

enum sweep_stage { SWEEP_CONTAINERS, SWEEP_VOLUMES, SWEEP_UNLABELLED, SWEEP_OVER };

struct docker_sweep {
    struct docker_api *api;
    enum sweep_stage stage;
    size_t judged; /* agents' volumes, for each of which a file is read */
    size_t pending;
    void (*done)(void *arg);
    void *arg;
};

void docker_sweep_free(struct docker_sweep *s)
{
    free(s);
}

static void ask_list(struct docker_sweep *s);

static void count_down(struct docker_sweep *s)
{
    if (--s->pending > 0) {
        return;
    }
    s->stage++;
    if (s->stage < SWEEP_OVER) {
        ask_list(s);
    } else {
        void (*done)(void *) = s->done;
        void *arg = s->arg;
        docker_sweep_free(s);
        done(arg);
    }
}

static void on_rest_removed(void *arg, int rc, const struct docker_reply *reply,
                            const struct err *err)
{
    if (rc < 0 && reply->status != 404 && reply->status != 409) {
        log_warn("something of a server that is gone stays: %s", err->text);
    }
    count_down(arg);
}

static bool is_stopped(const cJSON *container)
{
    const char *state = json_get_str(container, "State");
    return state != NULL && (strcmp(state, "created") == 0 || strcmp(state, "exited") == 0 ||
                             strcmp(state, "dead") == 0 || strcmp(state, "stopped") == 0);
}

static bool is_left(struct docker_sweep *s, const cJSON *item)
{
    const cJSON *labels = json_get(item, "Labels");
    if (s->stage == SWEEP_CONTAINERS) {
        return is_stopped(item) && owner_is_gone(labels);
    }
    if (s->stage == SWEEP_UNLABELLED) {
        return cJSON_GetArraySize(labels) == 0 &&
               docker_packages_is_volume(json_get_str(item, "Name"));
    }
    if (json_get(labels, DOCKER_VOLUME_LABEL) == NULL) {
        return owner_is_gone(labels);
    }
    return s->judged++ < SWEEP_MAX && docker_volume_is_old(labels);
}

/* The engine refuses to remove volumes that are in use, so these need no check. */
static void on_listed(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker_sweep *s = arg;
    bool volumes = s->stage != SWEEP_CONTAINERS;
    const cJSON *list = volumes ? json_get(reply->json, "Volumes") : reply->json;
    const char *what = volumes ? "volume" : "container";
    const cJSON *item;
    if (rc < 0) {
        log_debug("cannot look for %ss of servers that are gone: %s", what, err->text);
        list = NULL;
    }
    cJSON_ArrayForEach(item, list)
    {
        const char *id = json_get_str(item, volumes ? "Name" : "Id");
        if (id == NULL || s->pending > SWEEP_MAX || !is_left(s, item)) {
            continue;
        }
        CLEANUP_FREE char *escaped = http_escape(id);
        CLEANUP_FREE char *path =
            alloc_printf("/%ss/%s%s", what, escaped, volumes ? "" : "?force=1&v=1");
        struct docker_request request = {.method = "DELETE", .path = path, .total_ms = REMOVE_MS};
        log_info("removing %s %.64s, which is nobody's any more", what, id);
        s->pending++;
        docker_api_call(s->api, &request, on_rest_removed, s);
    }
    count_down(s);
}

static void ask_list(struct docker_sweep *s)
{
    char host[OWNER_HOST_SIZE];
    owner_host(host);
    CLEANUP_FREE char *label = alloc_printf("%shost=%s", OWNER_LABEL, host);
    cJSON *filters = json_build_new();
    if (s->stage == SWEEP_UNLABELLED) {
        json_build_append_string(json_build_array(filters, "name"), DOCKER_PACKAGES_PREFIX);
    } else {
        json_build_append_string(json_build_array(filters, "label"), label);
    }
    CLEANUP_FREE char *text = json_build_print(filters);
    CLEANUP_FREE char *escaped = http_escape(text);
    CLEANUP_FREE char *path = alloc_printf(
        s->stage == SWEEP_CONTAINERS ? "/containers/json?all=1&filters=%s" : "/volumes?filters=%s",
        escaped);
    cJSON_Delete(filters);
    struct docker_request request = {.method = "GET", .path = path, .total_ms = LIST_MS};
    s->pending = 1; /* the list itself */
    docker_api_call(s->api, &request, on_listed, s);
}

struct docker_sweep *docker_sweep_start(struct docker_api *api, void (*done)(void *arg), void *arg)
{
    struct docker_sweep *s = alloc_one(struct docker_sweep);
    s->api = api;
    s->done = done;
    s->arg = arg;
    ask_list(s);
    return s;
}
