/*
 * Control groups from outside a sandbox: the limits that this host can apply, the usage of a
 * running container, and the removal of leftover groups.
 *
 * `fs_root` is "" for the real system; tests point it at a directory with canned files.
 * Thread: any. Reads and writes small kernel files only.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_HOST_CGROUP_H
#define CLOISTER_WORKER_BACKEND_OCI_HOST_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "worker/backend/backend.h"
#include "worker/backend/mode.h"

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

/* Controllers that could limit a sandbox. */
struct oci_controllers {
    bool memory, swap, cpu, pids;
    bool io; /* what it may read and write of a disk */
};

struct oci_cgroup_host {
    enum oci_cgroup_version version;
    struct oci_cgroup_mount mounts[OCI_CGROUP_MOUNTS_MAX];
    size_t mount_count;
    struct oci_controllers groups;    /* in groups that a runtime makes itself, below `parent` */
    struct oci_controllers scopes;    /* in those that it has the service manager make */
    bool sockets;                     /* version 1: buffers of sockets, beside its memory */
    char parent[OCI_CGROUP_PATH_MAX]; /* where its group is made; "" = root */
    bool parent_writable;             /* false if we certainly cannot make a group there */
};

/* `uid` is ours: root's groups are at the top, and each user has a service manager of its own.
 * Never fails: what cannot be read counts as absent. */
void oci_cgroup_detect(const char *fs_root, uid_t uid, struct oci_cgroup_host *ret_host);

/* The controllers of groups that are made in this way. */
struct oci_controllers oci_controllers_of(const struct oci_cgroup_host *host, enum oci_cgroups by);

/* Directories with the figures of one container; "" = none. They include fs_root. */
struct oci_cgroup_dirs {
    char memory[OCI_CGROUP_PATH_MAX], cpu[OCI_CGROUP_PATH_MAX], pids[OCI_CGROUP_PATH_MAX],
        io[OCI_CGROUP_PATH_MAX];
    bool unified;
};

/* Uses the cgroups of the process. Groups whose path does not contain the container's name are left
 * out, so figures of our own group are never used for the sandbox. False if nothing was found. */
bool oci_cgroup_find(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                     const char *container, struct oci_cgroup_dirs *ret_dirs);

/* Moves the process `helper` into the container's groups that limit memory, CPU and processes;
 * `pid` is a process of the container. Memory that it has already stays with its old group.
 * -ERR_ENGINE if it is missing in one of them. */
int oci_cgroup_join(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                    const char *container, pid_t helper, struct err *err) WARN_UNUSED;

/* Limits the buffers of sockets (version 1). -ERR_IO if the kernel does not take it. */
int oci_cgroup_limit_sockets(const struct oci_cgroup_dirs *dirs, uint64_t bytes,
                             struct err *err) WARN_UNUSED;

/* Limits what the group may read and write of a disk, "MAJOR:MINOR". -ERR_IO if the kernel does not
 * take it, or the group has no such limit. */
int oci_cgroup_limit_io(const struct oci_cgroup_dirs *dirs, const char *disk,
                        const struct backend_limits *limits, struct err *err) WARN_UNUSED;

/* What a share of the processors is in the words of the kernel. */
#define OCI_CGROUP_PERIOD_US 100000u
uint64_t oci_cgroup_quota_us(uint64_t cpu_milli);

/* Other limits for a container that runs. */
struct oci_cgroup_change {
    bool memory, swap;                  /* change this; and memory with swap */
    uint64_t memory_from, memory_bytes; /* what it has, and what it shall have */
    bool cpu;
    uint64_t cpu_milli;
};

/* Writes them into the groups of the container, of which `pid` is a process. -ERR_CONFIG: its
 * groups were not found, or memory is not limited there as it should be, so nothing was changed.
 * -ERR_IO: the kernel does not take them. */
int oci_cgroup_change(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                      const char *container, const struct oci_cgroup_change *change,
                      struct err *err) WARN_UNUSED;

/* Figures that cannot be read are 0. */
void oci_cgroup_usage(const struct oci_cgroup_dirs *dirs, struct backend_usage *ret_usage);

/* The file that counts processes killed for memory, so that the count can be read before each run
 * with one system call; -1 if there is none. The caller closes it. */
int oci_cgroup_open_kills(const struct oci_cgroup_dirs *dirs);
uint64_t oci_cgroup_kills(int fd);

/* Kills all processes in the cgroupfs groups of this container and removes the groups. True when
 * none is left; otherwise retry in a few milliseconds. */
bool oci_cgroup_remove(const char *fs_root, const struct oci_cgroup_host *host,
                       const char *container);

#endif
