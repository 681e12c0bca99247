/*
 * The way to a file below the directories of --local-files, for those who read and who write there
 * (local_file.c, local_save.c).
 *
 * Thread: any. Blocks like file operations.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_LOCAL_REACH_H
#define CLOISTER_SUPERVISOR_BASE_LOCAL_REACH_H

#include <stdbool.h>

#include "common/err.h"

/* The end of a path: a name in an open directory. What is taken out of it is the taker's. */
struct local_target {
    int dir; /* -1: none */
    char *name;
};

void local_target_finish(struct local_target *t);

/* Called with the target; -ERR_FILE_NOT_FOUND goes on with the next directory if the path is
 * relative. */
typedef int (*local_reached_fn)(struct local_target *target, const char *path, void *arg,
                                struct err *err);

/* Walks to the file in the first directory of the list that can have it, with `writing` only in
 * those that can be written to. */
int local_reach(const char *dirs, bool writing, const char *path, local_reached_fn reached,
                void *arg, struct err *err) WARN_UNUSED;

/* The error for a path that could not be walked or opened, by errno. */
int local_refuse(struct err *err, int sys, const char *path);

#endif
