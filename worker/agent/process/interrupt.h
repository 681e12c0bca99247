/*
 * Sends SIGINT to the processes of a run, with care for shells. For keepers. Blocks while it reads
 * /proc.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_INTERRUPT_H
#define CLOISTER_WORKER_AGENT_PROCESS_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "worker/agent/process/procs.h"

#define INTERRUPT_NOTICE    SIGURG /* drivers of shell and node handle it; others ignore it */
#define INTERRUPT_KNOWN_MAX 64

/* How the leader of a run is interrupted. */
enum interrupt_by {
    INTERRUPT_BY_SIGNAL,      /* SIGINT */
    INTERRUPT_WITH_NOTICE,    /* and INTERRUPT_NOTICE, which it catches when it is ready */
    INTERRUPT_NOTICE_TO_SHELL /* the same, but a shell that waits for programs gets no SIGINT */
};

/* The processes that had a handler for SIGINT, with the number of interrupts so far. */
struct interrupt {
    struct {
        pid_t pid;
        unsigned met;
    } known[INTERRUPT_KNOWN_MAX];
    size_t known_count;
    gid_t mark;                /* see procs.h */
    struct procs_moment since; /* begin of the run that was interrupted last */
    bool leader_is_up;         /* the leader has its handlers, so an interrupt does not end it */
};

/* Interrupts `leader`, a child of the caller, and the processes that it has started since that
 * moment. Stopped processes are continued, so that they act on the signal. Unless `by` is
 * INTERRUPT_BY_SIGNAL: a process that looks like a copy of the leader and has a handler for SIGINT
 * is skipped once; one that runs the leader's program and outlives some interrupts gets SIGTERM;
 * and nothing is sent while the leader is still starting. Returns false in that case: interrupt
 * again later. */
bool interrupt_run(struct interrupt *i, pid_t leader, const struct procs_moment *since,
                   enum interrupt_by by);

#endif
