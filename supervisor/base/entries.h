/*
 * A directory listing from the agent: a sequence of ENTRY frames, decoded as strictly as any
 * message, since user code runs beside the agent.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_ENTRIES_H
#define CLOISTER_SUPERVISOR_BASE_ENTRIES_H

#include <stdbool.h>

#include "common/err.h"
#include "common/view.h"
#include "proto/msg.h"

/* How much of a listing is requested: room for LIMIT_ENTRIES entries with names of usual length. */
#define ENTRIES_KEEP_BYTES (2u << 20)

/* Borrowed during the call; the path is relative to the listed directory, and may be any bytes.
 * Returns false to stop. */
typedef bool (*entries_fn)(void *arg, const struct msg_entry *entry);

/* Calls `each` until the end, an incomplete frame, or false. -ERR_PROTOCOL for anything that is no
 * ENTRY. */
int entries_read(struct view frames, entries_fn each, void *arg, struct err *err) WARN_UNUSED;

#endif
