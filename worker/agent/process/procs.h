/*
 * One look at everything alive in /proc. Blocks as /proc does, for microseconds a process: for
 * keepers, and for the agent in emergencies only.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_PROCS_H
#define CLOISTER_WORKER_AGENT_PROCESS_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
    pid_t pid;
    pid_t parent;
    pid_t group;
    uint64_t started; /* in clock ticks since the boot */
    bool below;       /* for the caller */
    bool stopped;     /* for the caller */
};

struct procs {
    struct proc *items; /* owned; ascending */
    size_t count, cap;
};

/* A point in time between the starts of two processes. */
struct procs_moment {
    uint64_t ticks;
    pid_t last_pid; /* the latest that was given out; 0: not known */
};

/* Everything but zombies, which neither run nor have children. What does not fit into memory is
 * left out. *ret must be empty. */
void procs_look(struct procs *ret);
void procs_finish(struct procs *p);

/* Now: what starts from here on is later. Reads one file. */
struct procs_moment procs_now(void);

/* Sets `below` for the descendants of `root`. With `since` only for those that `main`, one of its
 * children, has started since then: neither for older ones nor for what descends from such. */
void procs_mark(struct procs *all, pid_t root, pid_t main, const struct procs_moment *since);

/* True if the process has a handler for the signal. */
bool proc_catches(pid_t pid, int sig);

/* True if both have the same command line, as before an exec, or if that cannot be told. */
bool procs_same_words(pid_t a, pid_t b);

/* True if both run the same executable file. */
bool procs_same_program(pid_t a, pid_t b);

#endif
