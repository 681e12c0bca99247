/*
 * A directory as the agent tells it: a run of ENTRY frames, read as strictly as any message, since
 * user code runs beside the agent.
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_ENTRIES_H
#define CLOISTER_SUPERVISOR_BASE_ENTRIES_H

#include <stdbool.h>

#include "common/err.h"
#include "common/view.h"
#include "proto/msg.h"

/* Most bytes of a list that are asked for: room for LIMIT_ENTRIES with names of a usual length. */
#define ENTRIES_KEEP_BYTES (2u << 20)

/* Borrowed during the call; the path is relative to the directory that was listed, and may be any
 * bytes. False: no more of them. */
typedef bool (*entries_fn)(void *arg, const struct msg_entry *entry);

/* Calls `each` until the end, a frame that is cut off, or its word. -ERR_PROTOCOL for anything that
 * is no list of entries. */
int entries_read(struct view frames, entries_fn each, void *arg, struct err *err) WARN_UNUSED;

#endif
