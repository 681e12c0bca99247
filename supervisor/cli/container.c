/*
 * A plain container lets its processes make no containers: its engine filters the system calls and
 * covers parts of /proc, so every trial of a runtime fails with words about mounts or namespaces
 * that lead nobody to the cause. So the cause is named, with the two ways out: the engine's socket,
 * by which sandboxes are containers beside this one, or two flags that take away just these
 * protections. An engine that is reached by a network needs neither.
 *
 * Engines leave a file in the root or mount one; others show in the control group of the first
 * process. There is no sure sign, and a wrong one costs a paragraph that does not fit.
 */
#include "supervisor/cli/container.h"

#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"

#define GROUPS_MAX (64u << 10)

const char *container_sign(const char *root)
{
    static const char *const files[] = {"/.dockerenv", "/run/.containerenv"};
    static const char *const groups[] = {"/docker", "/libpod", "/kubepods", "/lxc/", "/containerd"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        CLEANUP_FREE char *path = alloc_printf("%s%s", root, files[i]);
        if (access(path, F_OK) == 0) {
            return files[i];
        }
    }
    CLEANUP_FREE char *path = alloc_printf("%s/proc/1/cgroup", root);
    CLEANUP_BUF struct buf text;
    struct err err;
    buf_init(&text, GROUPS_MAX);
    if (file_read(path, &text, &err) < 0 || buf_cstr(&text) == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (strstr(buf_cstr(&text), groups[i]) != NULL) {
            return "/proc/1/cgroup";
        }
    }
    return NULL;
}

/* Whether the backends in question keep sandboxes by an engine's socket, or by runtimes in here. */
static void find_kinds(const struct config *config, bool *ret_socket, bool *ret_runtimes)
{
    const struct backend_row *meant = config_backend(config);
    *ret_socket = *ret_runtimes = false;
    for (size_t i = 0; i < BACKEND_COUNT; i++) {
        const struct backend_row *row = &backend_rows[i];
        if (row->is_automatic && (meant == NULL || meant == row)) {
            *ret_socket = *ret_socket || row->has_engine;
            *ret_runtimes = *ret_runtimes || row->is_its_runtime;
        }
    }
    if (strstr(config->engine, "://") != NULL &&
        strncmp(config->engine, "unix://", strlen("unix://")) != 0) {
        *ret_socket = false;
    }
}

bool container_advise(const char *root, const struct config *config, FILE *out)
{
    const char *sign = container_sign(root);
    bool socket, runtimes;
    find_kinds(config, &socket, &runtimes);
    if (sign == NULL || (!socket && !runtimes)) {
        return false;
    }
    fprintf(
        out,
        "This is a container (%s), and one that was started plainly can isolate nothing in it.\n"
        "What works:\n",
        sign);
    if (socket) {
        fprintf(
            out,
            "  docker run -v /var/run/docker.sock:/var/run/docker.sock ... cloister --image %s\n"
            "    The engine's socket (of Podman: /run/podman/podman.sock): sandboxes are "
            "containers\n"
            "    beside this one. Whoever has that socket can do anything on its host.\n",
            config->image[0] != '\0' && !image_is_path(config->image) ? config->image
                                                                      : IMAGE_DOCKER_DEFAULT);
    }
    if (runtimes) {
        fprintf(
            out,
            "  docker run --security-opt seccomp=unconfined --security-opt "
            "systempaths=unconfined ...\n"
            "    Sandboxes are inside this one, by its runc or crun (podman run takes the same\n"
            "    flags; where AppArmor is on, --security-opt apparmor=unconfined as well).\n");
    }
    return true;
}
