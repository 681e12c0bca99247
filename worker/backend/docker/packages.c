/*
 * Packages are in volumes, because a bind mount needs a directory that the engine sees, and an
 * engine in a virtual machine or on another host sees none of ours. There is one volume per
 * subdirectory, because files in a volume can only be made through a container: subdirectories of a
 * single volume would take a helper container for every sandbox. As mount points they exist without
 * one.
 *
 * The root of a new volume belongs to the container's root and is closed to others; the agent of an
 * installer, which is that root, opens it (worker/agent/main.c).
 *
 * Only the engine's disk limits the size of a volume: its usual driver has a size for volumes in
 * memory only, and where the files are, is known to the engine alone. Only installers write there,
 * whose programs count; with --build-packages code of packages does, too, and only the size of each
 * single file is bounded then (spec.c).
 */
#include "worker/backend/docker/packages.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/json_build.h"
#include "worker/backend/owner.h"

/* One volume of the two. */
struct part {
    struct docker_packages *all;
    struct docker_call *call;
};

struct docker_packages {
    char *sandbox;
    struct part parts[DOCKER_PACKAGES_COUNT];
    size_t pending;
    struct err err; /* the first failure */
    docker_packages_fn done;
    void *arg;
};

static const char *const names[DOCKER_PACKAGES_COUNT] = {"python", "node"};
static const char *const paths[DOCKER_PACKAGES_COUNT] = {BACKEND_PACKAGES "/python",
                                                         BACKEND_PACKAGES "/node"};

const char *docker_packages_path(size_t i)
{
    return paths[i];
}

char *docker_packages_volume(const char *sandbox, size_t i)
{
    return alloc_printf(DOCKER_PACKAGES_PREFIX "%s-%s", sandbox, names[i]);
}

bool docker_packages_is_volume(const char *name)
{
    size_t prefix = strlen(DOCKER_PACKAGES_PREFIX);
    if (strncmp(name, DOCKER_PACKAGES_PREFIX, prefix) != 0) {
        return false;
    }
    const char *sandbox = name + prefix;
    size_t len = strspn(sandbox, "abcdefghijklmnopqrstuvwxyz0123456789");
    for (size_t i = 0; len > 0 && i < DOCKER_PACKAGES_COUNT; i++) {
        if (sandbox[len] == '-' && strcmp(sandbox + len + 1, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool docker_packages_are_borrowed(const struct backend_spec *spec)
{
    return spec->packages[0] != '\0' && strcmp(spec->packages, spec->id) != 0;
}

static struct docker_packages *packages_new(const char *sandbox, docker_packages_fn done, void *arg)
{
    struct docker_packages *p = alloc_one(struct docker_packages);
    p->sandbox = alloc_strdup(sandbox);
    p->pending = DOCKER_PACKAGES_COUNT;
    p->done = done;
    p->arg = arg;
    for (size_t i = 0; i < DOCKER_PACKAGES_COUNT; i++) {
        p->parts[i].all = p;
    }
    return p;
}

static void packages_free(struct docker_packages *p)
{
    free(p->sandbox);
    free(p);
}

void docker_packages_cancel(struct docker_packages *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < DOCKER_PACKAGES_COUNT; i++) {
        if (p->parts[i].call != NULL) {
            docker_api_cancel(p->parts[i].call);
        }
    }
    packages_free(p);
}

/* Handles an answer; `err` is NULL if it is a success. */
static void settle_part(struct part *part, const struct err *err)
{
    struct docker_packages *p = part->all;
    part->call = NULL;
    if (err != NULL && p->err.code == 0) {
        p->err = *err;
    }
    if (--p->pending > 0) {
        return;
    }
    docker_packages_fn done = p->done;
    void *arg = p->arg;
    struct err first = p->err;
    packages_free(p);
    done(arg, -first.code, first.code != 0 ? &first : NULL);
}

/* ---- make ----------------------------------------------------------------------------------- */

static void on_volume_made(void *arg, int rc, const struct docker_reply *reply,
                           const struct err *failure)
{
    struct err err = ERR_INIT;
    (void)reply;
    if (rc < 0) {
        err = *failure;
        err_ignore(err_wrap(&err, "no volume for packages"));
    }
    settle_part(arg, rc < 0 ? &err : NULL);
}

struct docker_packages *docker_packages_make(struct docker_api *api, const char *sandbox,
                                             const char *dir, docker_packages_fn done, void *arg)
{
    struct docker_packages *p = packages_new(sandbox, done, arg);
    for (size_t i = 0; i < DOCKER_PACKAGES_COUNT; i++) {
        CLEANUP_FREE char *name = docker_packages_volume(sandbox, i);
        cJSON *body = json_build_new();
        json_build_string(body, "Name", name);
        owner_label(json_build_object(body, "Labels"), sandbox, dir);
        CLEANUP_FREE char *text = json_build_print(body);
        cJSON_Delete(body);
        struct docker_request request = {.method = "POST", .path = "/volumes/create", .json = text};
        p->parts[i].call = docker_api_call(api, &request, on_volume_made, &p->parts[i]);
    }
    return p;
}

/* ---- check ---------------------------------------------------------------------------------- */

static void on_volume_inspected(void *arg, int rc, const struct docker_reply *reply,
                                const struct err *failure)
{
    struct part *part = arg;
    struct err err = ERR_INIT;
    const char *owner = json_get_str(json_get(reply->json, "Labels"), OWNER_LABEL "sandbox");
    if (rc < 0 && reply->status != 404) {
        err = *failure;
    } else if (owner == NULL || strcmp(owner, part->all->sandbox) != 0) {
        err_set(&err, ERR_GONE, "the sandbox to install for is gone, and its packages with it");
    }
    settle_part(part, err.code != 0 ? &err : NULL);
}

struct docker_packages *docker_packages_check(struct docker_api *api, const char *sandbox,
                                              docker_packages_fn done, void *arg)
{
    struct docker_packages *p = packages_new(sandbox, done, arg);
    for (size_t i = 0; i < DOCKER_PACKAGES_COUNT; i++) {
        CLEANUP_FREE char *name = docker_packages_volume(sandbox, i);
        CLEANUP_FREE char *path = alloc_printf("/volumes/%s", name);
        struct docker_request request = {.method = "GET", .path = path};
        p->parts[i].call = docker_api_call(api, &request, on_volume_inspected, &p->parts[i]);
    }
    return p;
}
