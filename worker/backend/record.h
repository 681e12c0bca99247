/*
 * The record of a container that its worker writes, so that the next worker of the sandbox finds it
 * and a sweep removes it; and names of processes that stay unique when pids are reused.
 *
 * Thread: any. Small files only.
 */
#ifndef CLOISTER_WORKER_BACKEND_RECORD_H
#define CLOISTER_WORKER_BACKEND_RECORD_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

enum oci_record_state {
    OCI_RECORD_RUNNING,    /* pid is the agent; nothing is missing */
    OCI_RECORD_STARTING,   /* pid is the runtime that is creating the container */
    OCI_RECORD_UNFINISHED, /* pid is the agent; limits or network are not set up yet */
};

struct oci_record {
    enum oci_record_state state;
    pid_t pid;      /* on this host */
    uint64_t start; /* its start time, from /proc */
    uint64_t mode;  /* oci_mode_pack() */
    char runtime[PATH_MAX];
    char image[PATH_MAX]; /* for people */
};

/* Replaces the file atomically. Not synced, because a crash of the host also ends the container.
 * The strings may not contain control characters. */
int oci_record_write(const char *path, const struct oci_record *record,
                     struct err *err) WARN_UNUSED;

/* -ERR_FILE_NOT_FOUND if there is none, -ERR_GONE if it was written before the last boot,
 * -ERR_INVALID if it is none of ours, -ERR_IO if it could not be read. */
int oci_record_read(const char *path, struct oci_record *ret_record, struct err *err) WARN_UNUSED;

/* Start time of a process in clock ticks since boot; false if it is gone or a zombie, or cannot be
 * looked at. */
bool oci_process_start(pid_t pid, uint64_t *ret_start);

/* True if exactly this process has certainly ended. False also if descriptors are exhausted,
 * because nothing may be removed on a guess. */
bool oci_process_gone(pid_t pid, uint64_t start);

/* A pidfd of exactly this process (caller closes it), or -1 if it is gone. */
int oci_process_open(pid_t pid, uint64_t start);

/* SIGKILL by pidfd. A process that is gone is fine. */
void oci_process_kill(int pid_fd);

#endif
