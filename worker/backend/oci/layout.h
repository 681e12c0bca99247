/*
 * What a sandbox's root is made of: the entries at the top of the host's root or of an image, and
 * the directories of our own that every root has.
 *
 * Thread: any. Looks at directories only; oci_layout_read() reads a small file.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_LAYOUT_H
#define CLOISTER_WORKER_BACKEND_OCI_LAYOUT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"
#include "worker/backend/backend.h"

/* A directory of every root, which ends with an entry without a name; spec.c decides what is
 * mounted there. */
struct oci_layout_dir {
    const char *name;
    mode_t mode;
};
extern const struct oci_layout_dir oci_layout_dirs[];

/* One entry at the top of the tree that the root is made of. */
struct oci_entry {
    char name[NAME_MAX + 1];
    mode_t type;
    char link[PATH_MAX]; /* of a symlink */
    mode_t access;       /* of a file: what a copy of it gets */
    /* of a file: why it is bound and not copied into a skeleton, as an overlay shows directories
     * only; NULL: it can be copied */
    const char *uncopied;
};

struct oci_layout {
    bool host;
    char *top; /* directory whose entries are taken */
    struct oci_entry *entries;
    size_t count;
};

/* Takes /usr and the links into it from the host, nothing else. -ERR_IMAGE. The caller finishes the
 * layout in any case, as with the next. */
int oci_layout_host(const char *fs_root, struct oci_layout *l, struct err *err) WARN_UNUSED;

/* Takes an image, a directory; `shares`: whether directories of the host are shown, so that the
 * image's own of that name is not. -ERR_IMAGE with a hint. */
int oci_layout_image(const char *image, bool shares, struct oci_layout *l,
                     char hint[BACKEND_HINT_MAX], struct err *err) WARN_UNUSED;

void oci_layout_finish(struct oci_layout *l);

bool oci_layout_has(const struct oci_layout *l, const char *name);

/* Reads a file that can be copied. `out` is initialised in any case. */
int oci_layout_read(const struct oci_layout *l, const struct oci_entry *e, struct buf *out,
                    struct err *err) WARN_UNUSED;

#endif
