/*
 * The kernel shows the directories of an overlay as they were named in its options, to everybody
 * who sees the mount: in /proc/self/mounts. Absolute names would tell code where this host keeps
 * cloister's files and its images, and so its user's name.
 *
 * So the names are relative, or of symbolic links, which the kernel follows when it mounts:
 *
 *   DIR/skeleton/…        the root that the sandbox sees
 *   DIR/layers/empty/     the other layer, since an overlay needs two
 *   DIR/layers/0, 1, … -> /usr, or an image's directories
 *   DIR/.cloister -> skeleton/.cloister, files of ours that are bound over others
 *
 * The last are numbers, since an option cannot contain every name of a directory. Nothing of DIR is
 * seen inside, because the runtime is told that DIR is the root, and the first mount over that is
 * the overlay of the skeleton. From then on a name with ".." in it would lead there, and a name of
 * DIR to what the overlay shows: so the last link, which does not exist there, is needed before.
 *
 * Relative to what? runc mounts with DIR as its working directory. (crun does it in the bundle, but
 * mounts no overlay over a root at all; nor does runc since 1.2.8, 1.3.3 and 1.4.) A runtime that
 * does it elsewhere fails the trial with overlays, and its sandboxes share files, which they say.
 */
#include "worker/backend/oci/layers.h"

#include "common/alloc.h"
#include "common/cleanup.h"
#include "worker/backend/oci/etc.h"

#define LAYERS "layers"
#define EMPTY  "empty"

int oci_layers_put(int dir_fd, const struct oci_layout *l, struct err *err)
{
    int rc = oci_put_link(dir_fd, OCI_OWN_FILES, OCI_LAYERS_SKELETON "/" OCI_OWN_FILES, err);
    rc = rc < 0 ? rc : oci_put_dir(dir_fd, LAYERS, 0755, err);
    rc = rc < 0 ? rc : oci_put_dir(dir_fd, LAYERS "/" EMPTY, 0755, err);
    for (size_t i = 0; rc == 0 && i < l->count; i++) {
        CLEANUP_FREE char *name = alloc_printf(LAYERS "/%zu", i);
        CLEANUP_FREE char *target = alloc_printf("%s/%s", l->top, l->entries[i].name);
        rc = oci_put_link(dir_fd, name, target, err);
    }
    return rc;
}

char *oci_layers_of_skeleton(void)
{
    return alloc_strdup(OCI_LAYERS_SKELETON ":" LAYERS "/" EMPTY);
}

char *oci_layers_of_entry(size_t index, bool covered)
{
    return covered ? alloc_printf(OCI_LAYERS_SKELETON "/" OCI_IMAGE_ETC ":" LAYERS "/%zu", index)
                   : alloc_printf(LAYERS "/%zu:" LAYERS "/" EMPTY, index);
}
