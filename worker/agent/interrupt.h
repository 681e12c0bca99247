/*
 * SIGINT to a process group, with care for shells. For keepers. Blocks as /proc does.
 */
#ifndef CLOISTER_WORKER_AGENT_INTERRUPT_H
#define CLOISTER_WORKER_AGENT_INTERRUPT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define INTERRUPT_SPARED_MAX 64

struct interrupt {
    pid_t spared[INTERRUPT_SPARED_MAX]; /* by the interrupts so far */
    size_t spared_count;
};

/* Interrupts the group that `leader` leads. With `careful` its other members are spared once as
 * long as they have a handler for SIGINT. */
void interrupt_group(struct interrupt *i, pid_t leader, bool careful);

#endif
