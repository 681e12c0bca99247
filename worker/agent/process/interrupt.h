/*
 * SIGINT to what takes part in a run, with care for shells. For keepers. Blocks as /proc does.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_INTERRUPT_H
#define CLOISTER_WORKER_AGENT_PROCESS_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "worker/agent/process/procs.h"

#define INTERRUPT_NOTICE    SIGURG /* what a shell's driver has a trap for; others ignore it */
#define INTERRUPT_KNOWN_MAX 64

/* What the leader of a run takes. */
enum interrupt_by {
    INTERRUPT_BY_SIGNAL,      /* SIGINT */
    INTERRUPT_WITH_NOTICE,    /* INTERRUPT_NOTICE as well, which it catches when it is up */
    INTERRUPT_NOTICE_TO_SHELL /* the same, and of a shell that waits for programs only the notice */
};

/* Who had a handler for SIGINT, and in how many interrupts so far. */
struct interrupt {
    struct {
        pid_t pid;
        unsigned met;
    } known[INTERRUPT_KNOWN_MAX];
    size_t known_count;
    struct procs_moment since; /* when the run began that was interrupted last */
    bool leader_is_up;         /* it has its handlers: an interrupt does not end it any more */
};

/* Interrupts `leader`, a child of the caller, and what it has started since that moment. Unless by
 * SIGINT alone, what looks like a copy of the leader is spared once as long as it has a handler for
 * SIGINT, those that run its program and outlive some interrupts are ended by SIGTERM, and a leader
 * that is still starting is left alone: false, interrupt again. Whoever was stopped goes on, to act
 * on it. */
bool interrupt_run(struct interrupt *i, pid_t leader, const struct procs_moment *since,
                   enum interrupt_by by);

#endif
