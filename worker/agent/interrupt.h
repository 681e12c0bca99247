/*
 * SIGINT to what takes part in a run, with care for shells. For keepers. Blocks as /proc does.
 */
#ifndef CLOISTER_WORKER_AGENT_INTERRUPT_H
#define CLOISTER_WORKER_AGENT_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "worker/agent/procs.h"

#define INTERRUPT_NOTICE    SIGURG /* what a shell's driver has a trap for; others ignore it */
#define INTERRUPT_KNOWN_MAX 64

/* Who had a handler for SIGINT, and in how many interrupts so far. */
struct interrupt {
    struct {
        pid_t pid;
        unsigned met;
    } known[INTERRUPT_KNOWN_MAX];
    size_t known_count;
};

/* Interrupts `leader`, a child of the caller, and what it has started since that moment. With
 * `careful` the leader is a shell, which gets INTERRUPT_NOTICE as well; then what looks like a copy
 * of it is spared once as long as it has a handler for SIGINT, and those that run its program and
 * outlive some interrupts are ended by SIGTERM. Whoever was stopped goes on, to act on it. */
void interrupt_run(struct interrupt *i, pid_t leader, const struct procs_moment *since,
                   bool careful);

#endif
