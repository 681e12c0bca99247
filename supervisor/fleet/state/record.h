/*
 * The files in a sandbox's directory that tell the next server about it: to take the sandbox over,
 * or to remove it.
 *
 *     record   two framed messages: OPEN (where it is and what was asked for) and RECORD (whose it
 * is) worker   "<pid> <start time> <generation>" of the worker that was started last
 *
 * Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_RECORD_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"
#include "supervisor/fleet/state/disk.h"

struct fleet_host;

/* Writes `record` off the loop. Fails at once only if a message cannot be encoded. */
int record_save(struct fleet_host *host, const char *dir, const struct msg_open *open,
                const struct msg_record *whose, disk_done_fn done, void *arg,
                struct err *err) WARN_UNUSED;

/* The same for another server, as KEEP takes it: without what is this host's or secret.
 * -ERR_TOO_BIG if it is longer than LIMIT_RECORD. */
int record_encode_public(struct buf *out, const struct msg_open *open,
                         const struct msg_record *whose, struct err *err) WARN_UNUSED;

struct record {
    struct msg open, whose; /* types MSG_OPEN and MSG_RECORD; borrow from `text` */
    struct buf text;
};

/* Reads it back; record_finish() frees it. -ERR_IO or -ERR_PROTOCOL if there is no complete record
 * of this version. */
int record_load(const char *dir, struct record *ret, struct err *err) WARN_UNUSED;

/* The same of bytes, which are copied. */
int record_read(struct view bytes, struct record *ret, struct err *err) WARN_UNUSED;
void record_finish(struct record *r);

/* Removes the record of a destroyed sandbox; the rest of its directory is garbage. */
void record_drop(const char *dir);

/* The id of the current boot, as in records; "" if the system does not show it, which matches no
 * record. */
const char *record_boot(void);

/* The worker in the note. */
struct record_worker {
    int pid;
    uint64_t start_time;
    uint64_t generation;
    bool alive; /* a process with exactly this pid and start time exists */
};

/* -ERR_IO or -ERR_PROTOCOL if there is no such note. */
int record_load_worker(const char *dir, struct record_worker *ret, struct err *err) WARN_UNUSED;

/* Marks that the sandbox is being removed: no server will take it over, but the record stays, since
 * the removal needs it. */
void record_mark_closing(const char *dir);
bool record_is_closing(const char *dir);

/* Writes the note of the sandbox's worker, atomically. Not synced: after a power failure there is
 * no worker. */
int record_save_worker(const char *dir, int pid, uint64_t generation, struct err *err) WARN_UNUSED;

/* Asks the noted worker to end, with the same check. */
bool record_stop_worker(const char *dir);

/* Kills the noted worker, if a process with exactly this pid and start time exists. True if there
 * was one. */
bool record_kill_worker(const char *dir);

#endif
