/*
 * What a sandbox's directory says about it, for a server that has to clean up after this one.
 *
 *     record   the OPEN message, framed: its backend, engine and runtime, and its specification
 *     worker   "<pid> <start time> <generation>" of the worker that was started last
 *
 * Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_RECORD_H
#define CLOISTER_SUPERVISOR_RECORD_H

#include "common/err.h"
#include "proto/msg.h"
#include "supervisor/disk.h"

/* Writes `record` off the loop. Fails at once only if the message cannot be encoded. */
int record_save(struct fleet_host *host, const char *dir, const struct msg *open, disk_done_fn done,
                void *arg, struct err *err) WARN_UNUSED;

/* Where a sandbox is; texts owned by the holder. */
struct record_place {
    char *backend, *engine, *runtime;
};

/* Reads back where it is, to be freed with record_place_finish(). -ERR_IO or -ERR_PROTOCOL if there
 * is no whole record. */
int record_load(const char *dir, struct record_place *ret, struct err *err) WARN_UNUSED;
void record_place_finish(struct record_place *place);

/* Notes who works on the sandbox now. Not synced: after a power failure there is no worker. */
int record_save_worker(const char *dir, int pid, uint64_t generation, struct err *err) WARN_UNUSED;

/* Kills the worker that the note names, if a process with this very pid and start time exists.
 * True if there was one. */
bool record_kill_worker(const char *dir);

#endif
