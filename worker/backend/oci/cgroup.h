/*
 * Control groups as seen from outside a sandbox: which limits this host can apply, where the
 * figures of a running container are, and what a container left behind.
 *
 * `fs_root` is "" for the real system; tests point it at a directory with canned files.
 * Thread: any. Reads and writes small kernel files only.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_CGROUP_H
#define CLOISTER_WORKER_BACKEND_OCI_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "worker/backend/backend.h"

enum oci_cgroup_version {
    OCI_CGROUP_VERSION_NONE, /* no cgroup file system is mounted */
    OCI_CGROUP_VERSION_1,    /* controllers in hierarchies of their own, also "hybrid" hosts */
    OCI_CGROUP_VERSION_2,    /* one hierarchy */
};

#define OCI_CGROUP_MOUNTS_MAX 24
#define OCI_CGROUP_PATH_MAX   512

struct oci_cgroup_mount {
    char point[OCI_CGROUP_PATH_MAX]; /* without fs_root */
    char root[OCI_CGROUP_PATH_MAX];  /* the cgroup that shows at `point` */
    char controllers[128];           /* ",memory,"; empty for the unified hierarchy */
};

struct oci_cgroup_host {
    enum oci_cgroup_version version;
    struct oci_cgroup_mount mounts[OCI_CGROUP_MOUNTS_MAX];
    size_t mount_count;
    bool memory, swap, cpu, pids;     /* controllers that could limit a sandbox */
    char parent[OCI_CGROUP_PATH_MAX]; /* where the cgroup file system would hold it; "" = top */
    bool parent_writable;             /* false: we surely may not make a group there */
};

/* Never fails: what cannot be read is not there. */
void oci_cgroup_detect(const char *fs_root, bool as_root, struct oci_cgroup_host *ret_host);

/* Directories with the figures of one container; "" = none. They include fs_root. */
struct oci_cgroup_dirs {
    char memory[OCI_CGROUP_PATH_MAX], cpu[OCI_CGROUP_PATH_MAX], pids[OCI_CGROUP_PATH_MAX];
    bool unified;
};

/* By the process's own membership. Groups whose path does not name the container are left out, so
 * figures of our own group are never taken for the sandbox's. False if nothing was found. */
bool oci_cgroup_find(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                     const char *container, struct oci_cgroup_dirs *ret_dirs);

/* Figures that cannot be read are 0. */
void oci_cgroup_usage(const struct oci_cgroup_dirs *dirs, struct backend_usage *ret_usage);
uint64_t oci_cgroup_oom_kills(const struct oci_cgroup_dirs *dirs);

/* Kills whatever is still in the groups that the cgroup file system holds for this container and
 * removes them. True when none is left; otherwise worth another try in a few milliseconds. */
bool oci_cgroup_remove(const char *fs_root, const struct oci_cgroup_host *host,
                       const char *container);

#endif
