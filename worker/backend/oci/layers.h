/*
 * The directories that overlays of a root show, under names that tell nothing of this host.
 *
 * Thread: any. Makes a few symbolic links.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_LAYERS_H
#define CLOISTER_WORKER_BACKEND_OCI_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "worker/backend/oci/layout.h"

#define OCI_LAYERS_SKELETON "skeleton"      /* beside the names */
#define OCI_OWN_FILES       ".cloister"     /* in a skeleton: ours */
#define OCI_IMAGE_ETC       ".cloister/etc" /* in a skeleton: what covers files of an image's /etc */

/* Makes the names in the directory dir_fd, for each entry of the layout. -ERR_NO_SPACE, -ERR_IO. */
int oci_layers_put(int dir_fd, const struct oci_layout *l, struct err *err) WARN_UNUSED;

/* The option of an overlay of the skeleton, and of an entry, which may be covered by the skeleton's
 * files for an image's /etc. The names begin where the runtime mounts. The caller frees it. */
char *oci_layers_of_skeleton(void);
char *oci_layers_of_entry(size_t index, bool covered);

#endif
