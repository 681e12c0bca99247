/*
 * One look at everything alive in /proc. Blocks as /proc does, for microseconds a process: for
 * keepers, and for the agent in emergencies only.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCS_H
#define CLOISTER_WORKER_AGENT_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct proc {
    pid_t pid;
    pid_t parent;
    pid_t group;
    bool below;   /* for the caller */
    bool stopped; /* for the caller */
};

struct procs {
    struct proc *items; /* owned; ascending */
    size_t count, cap;
};

/* Everything but zombies, which neither run nor have children. What does not fit into memory is
 * left out. *ret must be empty. */
void procs_look(struct procs *ret);
void procs_finish(struct procs *p);

/* True if the process has a handler for the signal. */
bool proc_catches(pid_t pid, int sig);

/* True if both run the same executable file. */
bool procs_same_program(pid_t a, pid_t b);

#endif
