/*
 * What this host allows the calling process: mappable ids, control groups, swap, resource limits.
 * Each creation reads it again (a few small files, well under a millisecond), so a change of the
 * host needs no restart.
 *
 * `fs_root` is "" for the real system; tests point it at a directory with canned files.
 * Thread: any. Reads small files only.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_HOST_HOST_H
#define CLOISTER_WORKER_BACKEND_OCI_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host/cgroup.h"

#define OCI_RANGE_SIZE 65536u

/* A run of ids: as seen by us, or granted to us. */
struct oci_ids {
    uint32_t first, count;
};

struct oci_host {
    bool root;
    uid_t uid;
    gid_t gid;
    struct oci_ids uids; /* root: ids that exist in our own namespace; user: /etc/subuid */
    struct oci_ids gids;
    bool booted;        /* by systemd */
    bool systemd;       /* the system's (root) or the user's service manager could make scopes */
    bool swap_active;   /* there is swap at all */
    uint64_t files_max; /* hard limit of open descriptors */
    uint64_t inotify_instances; /* that the kernel gives each user; 0: it does not say */
    uint64_t inotify_watches;
    uint64_t core_max;    /* hard limit of core files; root may raise it */
    bool core_handler;    /* crashes run a program of this host */
    bool old_kernel;      /* whose netlink sockets the agent cannot count (netlink.c) */
    int oom_score_adj;    /* our own; a child can only raise it */
    bool apparmor;        /* the kernel has our profile, and we may put sandboxes under it */
    char userns_off[160]; /* why user namespaces cannot be made, or "" */
    struct oci_cgroup_host cgroup;
};

/* Never fails: what cannot be read counts as absent. */
void oci_host_read(const char *fs_root, uid_t uid, gid_t gid, struct oci_host *ret_host);

/* Appends the limits that this host leaves unapplied; what its kernel does matters less to a
 * sandbox with a kernel of its own. */
void oci_host_unapplied(const struct oci_host *host, bool own_kernel, struct oci_notes *notes);

/* One extent of an id mapping. */
struct oci_extent {
    uint32_t inside, outside, count;
};

#define OCI_EXTENTS_MAX 3

/* Mapping with OCI_USERNS_RANGE for a sandbox; returns the number of extents, 0 if there are too
 * few ids. `id` spreads sandboxes over the ids, so that the code of two of them rarely has the
 * same. */
size_t oci_host_extents(const struct oci_host *host, const struct oci_ids *ids, uint32_t own,
                        const char *id, struct oci_extent ret_extents[OCI_EXTENTS_MAX]);

/* True if both kinds of ids suffice for OCI_USERNS_RANGE. */
bool oci_host_has_range(const struct oci_host *host);

/* FNV-1a; for names and spreading, not for secrets. Start with OCI_HASH_INIT. */
#define OCI_HASH_INIT 0xcbf29ce484222325u
uint64_t oci_hash(uint64_t seed, const void *data, size_t len);

#endif
