/*
 * Composes a sandbox's root directory from a skeleton with empty mount points and a generated /etc,
 * and a list of read-only bind mounts. Nothing is ever written into the host's or an image's tree.
 *
 * Skeletons are in the instance's shared directory. Their name is a hash of their sources, so
 * sandboxes of the same image share one, and a changed image or host gets another. The owner of the
 * shared directory removes them with it.
 *
 * Thread: any. Makes small files, copies the linker's cache once per skeleton.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_ROOT_H
#define CLOISTER_WORKER_BACKEND_OCI_ROOT_H

#include <stddef.h>

#include "common/err.h"
#include "worker/backend/backend.h"

#define OCI_ROOT_AGENT "/.cloister/agent" /* where the agent's binary is inside */

struct oci_bind {
    char *source; /* absolute, on this host */
    char *target; /* absolute, in the sandbox; exists in the skeleton or in an earlier bind */
    bool deep;    /* with the mounts below it, each of which follows as a bind of its own */
    bool writable;
    bool noexec; /* the source is mounted noexec here, which a user namespace must keep */
    bool alone;  /* what is mounted below the source later does not appear */
    bool cover;  /* no bind: an empty read-only directory hides what is there */
    char *lower; /* no bind: an overlay of these directories (layers.h); NULL: it is one */
};

/* Further paths of this host that the sandbox sees. Borrowed. */
struct oci_root_reach {
    const char *packages; /* directory that becomes BACKEND_PACKAGES; NULL: that is empty */
    bool packages_write;
    bool network; /* names are looked up */
    const struct backend_mount *mounts;
    size_t mount_count;
    const struct backend_share *shares;
    size_t share_count;
    bool views; /* directories of the root are shown by overlays */
    /* Where the shares will be mounted, by their names, when the runtime runs; NULL: it binds the
     * directories themselves. */
    const char *share_base;
};

struct oci_root {
    char *path;  /* the skeleton */
    char *dir;   /* the runtime's root directory: the skeleton, or the one above it if `lower` */
    char *label; /* "host:/usr" or the image directory */
    char *lower; /* overlay of the skeleton, which becomes the root; NULL: the skeleton is it */
    char *bound; /* what is no overlay though it was to be, and why, for people; NULL: nothing */
    struct oci_bind *binds;
    size_t bind_count, bind_cap;
};

/* Builds or reuses the skeleton. `image` "" takes the host's /usr, else a directory with an
 * unpacked root file system. `fs_root` is "" for the real system; tests point it at a small
 * stand-in; `reach` is NULL for nothing besides. Errors: -ERR_IMAGE with a hint, -ERR_CONFIG (no
 * agent, nothing to mount), -ERR_INVALID (no place to mount it), -ERR_NO_SPACE, -ERR_IO. The caller
 * calls oci_root_finish() in any case. */
int oci_root_compose(const char *fs_root, const char *shared_dir, const char *image,
                     const char *agent_path, const struct oci_root_reach *reach,
                     struct oci_root *ret_root, char hint[BACKEND_HINT_MAX],
                     struct err *err) WARN_UNUSED;

void oci_root_finish(struct oci_root *root);

#endif
