/*
 * What a tree of files takes, counted from outside by a thread of the loop's pool.
 *
 * Thread: the loop's. Nothing blocks there.
 */
#ifndef CLOISTER_WORKER_BACKEND_TREE_SIZE_H
#define CLOISTER_WORKER_BACKEND_TREE_SIZE_H

#include <stdint.h>

#include "common/err.h"
#include "worker/backend/task.h"

#define TREE_SIZE_ENTRY 4096 /* bytes that an entry counts for at least: an inode costs, too */
#define TREE_SIZE_DEPTH 128  /* directories below each other that are followed */

/* rc 0: the tree takes `bytes`, or more than `max_bytes`, from where counting stops. A tree that is
 * not there takes nothing. -ERR_IO: a directory cannot be opened, -ERR_TOO_BIG: they are nested
 * more deeply than TREE_SIZE_DEPTH; what is in it is not known then. */
typedef void (*tree_size_fn)(void *arg, int rc, uint64_t bytes, const struct err *err);

/* Counts the blocks of all entries below `path` (copied), without following a link; a file with
 * several names counts for each. fn is called once, unless the tasks are closed before. */
void tree_size_start(struct tasks *tasks, const char *path, uint64_t max_bytes, tree_size_fn fn,
                     void *arg);

#endif
