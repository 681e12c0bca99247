/*
 * What a server, its sweeper and the workers of its sandboxes tell each other by files when an
 * instance ends:
 *
 *     <instance>/ending                  the end of all of its sandboxes is wanted
 *     <instance>/sandboxes/<id>/first    "<pid> <start time>" of the sandbox's first process
 *                              destroyed its worker has ended it and nothing of it is left but
 * files
 *
 * `dir` is a sandbox's directory. Thread: any. Small files, nothing is synced.
 */
#ifndef CLOISTER_COMMON_ENDING_H
#define CLOISTER_COMMON_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define ENDING_FIRST "first"

/* Marks the instance whose directory this is. */
int ending_begin(const char *instance_dir, struct err *err) WARN_UNUSED;

/* Whether the instance of this sandbox is marked. */
bool ending_has_begun(const char *dir);

/* Notes the process whose end is the end of everything in the sandbox; the old note or the new one
 * is there at any moment. */
int ending_note_first(const char *dir, int pid, uint64_t start_time, struct err *err) WARN_UNUSED;

/* False if there is no such note. */
bool ending_read_first(const char *dir, int *ret_pid, uint64_t *ret_start_time) WARN_UNUSED;

/* By the sandbox's worker, as the last thing that it does about it. */
void ending_mark_destroyed(const char *dir);
bool ending_is_destroyed(const char *dir);

#endif
