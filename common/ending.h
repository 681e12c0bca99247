/*
 * Files by which a server, its sweeper and the workers of its sandboxes communicate when an
 * instance ends:
 *
 *     <instance>/ending                  the end of all of its sandboxes is wanted
 *     <instance>/sandboxes/<id>/first      how to kill all that runs in it, see below
 *     <instance>/sandboxes/<id>/destroyed  its worker has ended it, only files are left of it
 *
 * `dir` is a sandbox's directory. Thread: any. Small files, nothing is synced.
 */
#ifndef CLOISTER_COMMON_ENDING_H
#define CLOISTER_COMMON_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define ENDING_FIRST     "first"
#define ENDING_GROUP_MAX 512

/* The first process of a sandbox: when it ends, the kernel ends all others in it. */
struct ending_first {
    int pid;
    uint64_t start_time;          /* in clock ticks since boot; the pid may be reused */
    char group[ENDING_GROUP_MAX]; /* directory of the control group that holds this sandbox and
                                     nothing else; "" = there is none, or nobody here sees it */
};

/* Marks the instance with this directory as ending. */
int ending_begin(const char *instance_dir, struct err *err) WARN_UNUSED;

/* True if the instance of this sandbox is marked. */
bool ending_has_begun(const char *dir);

/* Writes the note atomically: a reader sees the old one or the new one. */
int ending_note_first(const char *dir, const struct ending_first *first,
                      struct err *err) WARN_UNUSED;

/* False if there is no such note. */
bool ending_read_first(const char *dir, struct ending_first *ret_first) WARN_UNUSED;

/* Called by the sandbox's worker as its last step of ending the sandbox. */
void ending_mark_destroyed(const char *dir);
bool ending_is_destroyed(const char *dir);

#endif
