/*
 * How a runtime works on this host: the result of a probe, packed into a number for `spec.mode`
 * (backend.h).
 *
 * Thread: any. Nothing blocks or allocates, except that notes hold short strings of their own.
 */
#ifndef CLOISTER_WORKER_BACKEND_MODE_H
#define CLOISTER_WORKER_BACKEND_MODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/backend/backend.h"

enum oci_userns {
    OCI_USERNS_RANGE = 1,  /* 65536 ids of the sandbox's own: agent and code differ in uid */
    OCI_USERNS_SINGLE = 2, /* one id: agent and code share it */
    OCI_USERNS_NONE = 3,   /* no user namespace; root only */
};

enum oci_cgroups {
    OCI_CGROUPS_FS = 1,      /* the runtime makes directories in the cgroup file system */
    OCI_CGROUPS_SYSTEMD = 2, /* the runtime asks systemd for a scope */
    OCI_CGROUPS_NONE = 3,    /* no cgroup: rlimits stand in */
};

struct oci_mode {
    enum oci_userns userns;
    enum oci_cgroups cgroups;
    bool memory, swap, cpu, pids; /* limits that the cgroup applies; false without cgroup */
    bool hide;                    /* /proc shows user code only its own processes */
    bool crun;                    /* understands --cgroup-manager=disabled */
    bool gvisor;                  /* understands --network=none and --ignore-cgroups */
    bool flawed;                  /* its version is known to let code out */
    bool views;                   /* files of the root and devices are inodes of its own */
    bool relay;                   /* passes no descriptors on: streams come by a relay */
    bool own_kernel;              /* the sandbox has a kernel that nobody else has */
    bool counted;                 /* RLIMIT_NPROC holds */
    unsigned choice;              /* 1-based place in the default list of runtimes; 0 = named */
};

/* Fits 32 bits, never 0. */
uint64_t oci_mode_pack(const struct oci_mode *mode);

/* False for a number that oci_mode_pack() does not make. */
bool oci_mode_unpack(uint64_t packed, struct oci_mode *ret_mode);

/* Short texts of our own, e.g. the limits that are not applied. */
#define OCI_NOTE_MAX 512
struct oci_notes {
    size_t count;
    char text[BACKEND_UNAPPLIED_MAX][OCI_NOTE_MAX];
};

/* Lists the default limits that this mode does not apply, as "name: reason; substitute". `why`
 * quotes the runtime about cgroups; may be "". */
void oci_mode_unapplied(const struct oci_mode *mode, bool swap_active, const char *why,
                        struct oci_notes *ret_notes);

/* Appends the note of a mode without `views`. */
void oci_mode_note_views(struct oci_notes *notes);

/* Appends a note; cut at the capacity. */
__attribute__((format(printf, 2, 3))) void oci_notes_add(struct oci_notes *notes, const char *fmt,
                                                         ...);

/* Points the `unapplied` array of backend_info or backend_probe into notes. */
size_t oci_notes_list(const struct oci_notes *notes, const char *list[BACKEND_UNAPPLIED_MAX]);

#endif
