/*
 * The limits of a container that are set from outside when it runs and no code in it does yet:
 * those of its namespaces, by a program on this host (`cloister-agent limit`), and in its control
 * groups those that runtimes do not set.
 *
 * `fs_root` is "" for the real system; tests point it at a directory with canned files.
 * Thread: the loop's. Nothing blocks; small files are written and read.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_LIMITS_H
#define CLOISTER_WORKER_BACKEND_OCI_LIMITS_H

#include "worker/backend/oci/box.h"
#include "worker/backend/oci/exec.h"

/* Starts the program; `pid` is the container's first process. `most_ms`, not 0, is its limit by the
 * clock (exec.h). Its result is for oci_limits_keep(). */
struct oci_exec *oci_limits_start(struct tasks *tasks, const struct backend_spec *spec,
                                  const struct oci_mode *mode, const struct oci_host *host,
                                  pid_t pid, uint64_t most_ms, oci_exec_fn fn, void *arg);

/* Limits the buffers of sockets, where they are not counted as memory of the cgroup of this first
 * process. What is missing is written down. */
int oci_limits_sockets(const struct oci_box *box, const struct backend_spec *spec,
                       const struct oci_mode *mode, const struct oci_host *host, pid_t pid,
                       struct err *err) WARN_UNUSED;

/* Writes down what could not be set (oci_box_add_note()). */
int oci_limits_keep(const struct oci_box *box, const struct oci_exec_result *result,
                    struct err *err) WARN_UNUSED;

/* ---- what it may read and write of this host's disks in a second ---- */

#define OCI_DISKS_MAX 8
#define OCI_DISK_NAME 24 /* "MAJOR:MINOR", as control groups have it */

/* Whole disks, as the kernel limits no partitions. */
struct oci_disks {
    char names[OCI_DISKS_MAX][OCI_DISK_NAME];
    size_t count;
    bool more;        /* than there are places for */
    char missed[128]; /* a path whose disk is not known, or "" */
};

/* The disks of what a sandbox reads and writes, or the one that the operator has named. What is in
 * memory has none. */
void oci_disks_find(const char *fs_root, const struct backend_spec *spec, struct oci_disks *ret);

/* Appends what this host does not apply of the limits, if there are any. */
void oci_io_unapplied(const struct backend_spec *spec, const struct oci_mode *mode,
                      const struct oci_host *host, struct oci_notes *notes);

/* Appends why no limit holds for some or all of the disks, having set the others. Without a group
 * (dirs->io "") there is none to write to. */
void oci_io_limit_disks(const struct oci_disks *disks, const struct backend_limits *limits,
                        const struct oci_cgroup_dirs *dirs, struct oci_notes *notes);

/* Sets the limits for the control group of a container's first process. What the kernel does not
 * take is written down (oci_box_add_note()). */
int oci_io_limit(const struct oci_box *box, const struct backend_spec *spec,
                 const struct oci_mode *mode, const struct oci_host *host, pid_t pid,
                 struct err *err) WARN_UNUSED;

#endif
