/*
 * The limits and the environment that every backend gives user code, so that a program behaves the
 * same under each of them.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_SANDBOX_DEFAULTS_H
#define CLOISTER_WORKER_BACKEND_SANDBOX_DEFAULTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/backends.h"
#include "common/err.h"
#include "common/view.h"

#define SANDBOX_UID  1000 /* of user code, where ids of the sandbox are its own */
#define SANDBOX_HOME BACKEND_HOME
#define SANDBOX_HOST "sandbox"

/* Where the agent puts `pip` and `npm` for code; in /run, which only the agent can write. */
#define SANDBOX_INSTALLS "/run/installs"

/* Uid and gid of user code if ids are those of the host. Derived from `name`, so that sandboxes
 * differ, because the kernel counts processes by uid; outside of the ranges of users, services and
 * containers. Only ids below `end` exist. */
uint32_t sandbox_uid_apart(const char *name, uint64_t end);

/* Beside the places that common/room.h gives their sizes. */
#define SANDBOX_RUN_BYTES ((uint64_t)1 << 20)
#define SANDBOX_APP_BYTES ((uint64_t)1 << 20)

/* The agent's own descriptors: three pipes for each remembered operation, and its links. */
#define SANDBOX_AGENT_FILES 4096

/* If the whole host is short of memory, the kernel kills a sandbox before the server. */
#define SANDBOX_OOM_SCORE_ADJ 500

/* Inodes for a tmpfs of that size: one for each page, within reason, as they are kernel memory. */
uint64_t sandbox_inodes(uint64_t size_bytes);

/* Paths that show or change the host's state, and that no program of a sandbox needs; those that an
 * engine masks by itself are among them. Not all exist everywhere. */
const char *const *sandbox_masked(size_t *ret_count);

/* What an installer may need on its way to packages of `bytes` (packages_bytes of a spec): what it
 * fetches, and what it makes of that. No file of it is larger. */
uint64_t sandbox_packages_file_max(uint64_t bytes);

/* Pseudo-terminals of a sandbox; the host has some three thousand for all. */
#define SANDBOX_PTYS 32

/* Where the buffers of sockets are not counted as memory of the sandbox: how much they may be, all
 * together. */
uint64_t sandbox_sockets(uint64_t memory_bytes);

/* Limits of a sandbox's IPC namespace, as names below /proc/sys/kernel: writes the i-th one's value
 * and returns its name. */
#define SANDBOX_SYSCTLS    4
#define SANDBOX_SYSCTL_MAX 40
const char *sandbox_sysctl(size_t i, uint64_t memory_bytes, char ret_value[SANDBOX_SYSCTL_MAX]);

/* Where control groups of version 1 limit what is written to disks. */
#define SANDBOX_NOTE_IO_WRITES                                                                     \
    "io writes: cgroups of version 1 limit those that go by the cache, as nearly all do, for "     \
    "nobody"

/* Where the agent cannot bound the netlink sockets of user code. */
#define SANDBOX_WHY_NETLINK                                                                        \
    "this kernel (before Linux 5.9) does not let the agent make the sockets of user code and so "  \
    "count them; answers that nobody reads hold memory of the host"

struct sandbox_env {
    bool path;    /* PATH is one of the defaults; false where the image says it */
    bool network; /* there is one */
    const struct view_list *extra;
};

/* Appends "NAME=VALUE" strings: the defaults that `extra` does not name, then `extra`. -ERR_INVALID
 * for an entry that is no NAME=VALUE in UTF-8. */
int sandbox_env_add(cJSON *array, const struct sandbox_env *env, struct err *err) WARN_UNUSED;

#endif
