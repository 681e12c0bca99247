/*
 * Operations that are run by programs: code in a language of the runner table, which takes one or
 * two programs, and OP_RUN, which is one program. No process of a run outlives it.
 *
 *           place is free            has compiled                ended                 removed
 *   queued --------------> COMPILING ------------> RUNNING -----------------> CLEARING -------->
 * FREE
 *                 '--- nothing to compile ------------^  '-- no directory of its own
 * --------------^
 *
 * At most LIMIT_PROGRAMS run side by side; others are queued in the order of their START.
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_PROGRAM_H
#define CLOISTER_WORKER_AGENT_RUN_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "worker/agent/link/poll_set.h"
#include "worker/agent/process/keeper.h"
#include "worker/agent/process/procs.h"
#include "worker/agent/run/op.h"
#include "worker/agent/run/runners.h"

enum program_state { PROGRAM_FREE, PROGRAM_COMPILING, PROGRAM_RUNNING, PROGRAM_CLEARING };

struct program {
    enum program_state state;
    struct op *op; /* borrowed; NULL once it was ended before the directory was gone */
    const struct runner *runner; /* NULL: OP_RUN */
    struct buf request;          /* see request.h */
    char dir[64];                /* "" if it has none */
    struct keeper keeper;
    int out_fd, err_fd; /* owned, our ends; -1 if there is none */
    struct procs_moment begun;
    uint64_t cpu_us, max_rss_kb; /* sums of the finished steps */
    pid_t clearer;               /* removes the directory; 0 while there is none */
    uint64_t tell_at_ms;         /* when the outcome is told even if it still runs */
    uint64_t kill_at_ms;         /* when it is killed */
    struct poll_slot slot_status, slot_out, slot_err;
};

struct programs {
    const struct spawn_config *spawn;
    bool last_resort; /* see killtree.h */
    bool has_orphans; /* keepers leave us those of programs (keeper.h) */
    struct runners runners;
    struct program places[LIMIT_PROGRAMS];
};

void programs_init(struct programs *p, const struct spawn_config *spawn, bool last_resort);

/* Orders the end of all that runs and frees the rest. */
void programs_finish(struct programs *p);

/* Makes a created operation wait for its turn. `runner` is NULL for an OP_RUN. */
int programs_queue(struct op_table *t, struct op *op, const struct runner *runner,
                   const struct msg_start *m, struct err *err) WARN_UNUSED;

bool programs_have_room(const struct programs *p);

/* Lets a queued operation begin; there must be room. On failure it is done, as failed. */
void programs_begin(struct programs *p, struct op_table *t, struct op *op);

/* Stops a running operation: by SIGINT, or with `force` by killing everything. */
void program_stop(struct op *op, enum op_stop reason, bool force);

/* programs_poll() adds the descriptors of all runs and returns the clock_ms() of the next timeout,
 * UINT64_MAX if there is none. programs_handle() handles what came. */
uint64_t programs_poll(struct programs *p, struct poll_set *set);
void programs_handle(struct programs *p, const struct poll_set *set, struct op_table *t);

/* A child was reaped: true if it was one of ours. */
bool programs_reaped(struct programs *p, struct op_table *t, pid_t pid);

/* True for the keeper of a run. */
bool programs_have_keeper(const struct programs *p, pid_t pid);

/* Our children, for killtree_strays(): at most 2 * LIMIT_PROGRAMS, returns how many. */
size_t programs_children(const struct programs *p, pid_t *ret);

#endif
