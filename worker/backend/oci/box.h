/*
 * The files of one container in a sandbox's directory.
 *
 * Thread: any. Small files only.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_BOX_H
#define CLOISTER_WORKER_BACKEND_OCI_BOX_H

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/oci/root.h"

#define OCI_NOTES_NAME "notes" /* in the bundle: what is found to be unapplied, a line each */

/* Paths and name of one container. */
struct oci_box {
    char *dir;       /* of the sandbox, or of a trial inside it */
    char *bundle;    /* <dir>/bundle, holds config.json */
    char *state;     /* <dir>/runtime, the runtime's --root */
    char *record;    /* <dir>/oci.record */
    char *pid_file;  /* <dir>/oci.pid, written by the runtime */
    char *relay;     /* <dir>/relay.pid, written by the runtime for each relay that it starts */
    char *container; /* "cloister-<id>" */
};

void oci_box_init(struct oci_box *box, const char *dir, const char *id);
void oci_box_copy(struct oci_box *box, const struct oci_box *from);
void oci_box_finish(struct oci_box *box);

/* Makes the bundle with its config.json and an empty state directory. `packages` is the tree that
 * becomes /packages, NULL for none. The caller owns *ret_root in any case (oci_root_finish). */
int oci_box_prepare(const struct oci_box *box, const struct backend_spec *spec,
                    const struct oci_mode *mode, const struct oci_host *host, const char *verb,
                    const char *packages, struct oci_root *ret_root, char hint[BACKEND_HINT_MAX],
                    struct err *err) WARN_UNUSED;

/* Pid that the runtime wrote; -ERR_ENGINE if there is none. */
int oci_box_read_pid(const struct oci_box *box, int *ret_pid, struct err *err) WARN_UNUSED;

/* Writes down what turns out to be unapplied, for this worker and later ones: whole lines, behind
 * those there are. */
int oci_box_add_note(const struct oci_box *box, struct view lines, struct err *err) WARN_UNUSED;

/* Appends what was written down and is not there yet: a probe finds some of it as well, and other
 * limits write again. Usually nothing. */
void oci_box_notes(const struct oci_box *box, struct oci_notes *notes);

/* True if the runtime may know the container. */
bool oci_box_has_state(const struct oci_box *box);

/* True if the file system of the sandbox's directory is full or nearly full. */
bool oci_box_is_disk_full(const struct oci_box *box);

/* Unmounts what a killed runtime has mounted in its state directory, if anything. A failure shows
 * in the removal. */
void oci_box_unmount(const struct oci_box *box);

/* Removes all files of the box, the agent's socket included, but not dir itself. */
int oci_box_clear(const struct oci_box *box, struct err *err) WARN_UNUSED;

#endif
