/*
 * Which files below the workspace a run has created or changed.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_CHANGES_H
#define CLOISTER_WORKER_AGENT_RUN_CHANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "worker/agent/link/poll_set.h"
#include "worker/agent/process/spawn.h"
#include "worker/agent/run/op.h"

#define CHANGES_KNOWN 256u

struct changes {
    const struct spawn_config *spawn;
    int fd;             /* inotify; -1 if there is none: then every run ends with a scan */
    uint64_t seq;       /* counts reads that found an event */
    bool blind;         /* there may be directories that are not watched */
    uint64_t blind_seq; /* counts how often `blind` was set */

    /* Stamps of files that the latest scans have found and file operations have written. A file
     * that still has its stamp was not changed by a later run, even if that run began within the
     * same tick of the file system's clock. */
    struct {
        uint64_t print;
        uint64_t at_us; /* clock_us() when it was found */
    } known[CHANGES_KNOWN];
    size_t known_count; /* stamps ever added; the latest ones are kept */
};

/* A scan under way: a process of the sandbox user. */
struct scan {
    pid_t pid; /* 0 once it is reaped */
    int out_fd, report_fd;
    struct buf found;
    struct report report;
    bool offended;      /* its report was malformed */
    uint64_t blind_seq; /* when it began */
    struct poll_slot slot_out, slot_report;
};

void changes_init(struct changes *c, const struct spawn_config *spawn);
void changes_finish(struct changes *c);

/* A run begins. */
void changes_begin(struct changes *c, struct op *op);

/* The run is over. True if a scan has begun; the operation is done when the scan is. */
bool changes_end(struct changes *c, struct op *op);

/* Both need op->scan != NULL. changes_poll() adds what the scan waits for; changes_handle() handles
 * what came, and calls op_done() when the scan is over. */
void changes_poll(struct op *op, struct poll_set *set);
void changes_handle(struct changes *c, struct op_table *t, struct op *op,
                    const struct poll_set *set);

/* Kills a scan that takes too long. */
void changes_stop(const struct op *op);

/* Kills and forgets the operation's scan, if it has one. */
void changes_drop(struct op *op);

/* A file operation has written a file whose stamp (filework_stamp()) is now this; 0 if unknown. */
void changes_know(struct changes *c, uint64_t stamp);

/* A child was reaped: true if it was this operation's scan. */
bool changes_reaped(struct op *op, pid_t pid);

#endif
