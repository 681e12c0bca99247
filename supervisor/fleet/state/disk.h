/*
 * File operations that may wait for a disk, off the loop.
 *
 * Call on the loop thread; `done` runs there too, exactly once, later. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_DISK_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_DISK_H

#include "common/err.h"
#include "common/view.h"

struct fleet_host;

typedef void (*disk_done_fn)(void *arg, int rc, const struct err *err);

/* Replaces the file's content as file_replace() does, with mode 0600. Copies path and data. */
void disk_write(struct fleet_host *host, const char *path, struct view data, disk_done_fn done,
                void *arg);

/* Removes the tree as dir_remove() does. */
void disk_remove(struct fleet_host *host, const char *path, disk_done_fn done, void *arg);

#endif
