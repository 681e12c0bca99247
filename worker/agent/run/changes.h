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
    int fd;             /* inotify; -1: there is none, so every run may have changed something */
    uint64_t seq;       /* counts the times that something was seen to happen */
    bool blind;         /* there may be directories that are not watched */
    uint64_t blind_seq; /* counts the times that this became so */

    /* What the latest scans have found and file operations have written, as stamps: a file that has
     * not changed since is no news to a run that began later, even if it did within the same tick
     * of the file system's clock. */
    struct {
        uint64_t print;
        uint64_t at_us; /* clock_us() when it was found */
    } known[CHANGES_KNOWN];
    size_t known_count; /* ever; the latest ones are kept */
};

/* A scan under way: a process of the sandbox user. */
struct scan {
    pid_t pid; /* 0 once it is reaped */
    int out_fd, report_fd;
    struct buf found;
    struct report report;
    bool offended;      /* what it says is malformed */
    uint64_t blind_seq; /* when it began */
    struct poll_slot slot_out, slot_report;
};

void changes_init(struct changes *c, const struct spawn_config *spawn);
void changes_finish(struct changes *c);

/* A run begins. */
void changes_begin(struct changes *c, struct op *op);

/* It is over. True if a scan has begun: the operation is done when that is. */
bool changes_end(struct changes *c, struct op *op);

/* Only with op->scan != NULL: what it waits for, and what came of it. changes_handle() ends the
 * operation with op_done() when its scan is over. */
void changes_poll(struct op *op, struct poll_set *set);
void changes_handle(struct changes *c, struct op_table *t, struct op *op,
                    const struct poll_set *set);

/* It takes too long: ends it. */
void changes_stop(const struct op *op);

/* Ends it and forgets it. NULL is fine. */
void changes_drop(struct op *op);

/* A file operation has written the file that has this stamp now (filework_stamp()); 0: unknown. */
void changes_know(struct changes *c, uint64_t stamp);

/* A child was reaped: true if it was this operation's scan. */
bool changes_reaped(struct op *op, pid_t pid);

#endif
