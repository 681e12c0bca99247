/*
 * One look at the living processes in /proc. Blocks for some microseconds per process, so it is for
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
    pid_t last_pid; /* the pid that was allocated last; 0: unknown */
};

/* Lists all processes but zombies, which neither run nor have children. Processes for which there
 * is no memory are left out. *ret must be empty. `mark` is for a keeper whose kernel knows no
 * subreapers, so that orphans become children of pid 1: those with this supplementary group, which
 * user code cannot leave, count as children of the caller; 0: none. */
void procs_look(struct procs *ret, gid_t mark);
void procs_finish(struct procs *p);

/* The present moment: processes that start from now on are later. Reads one file. */
struct procs_moment procs_now(void);

/* Sets `below` for the descendants of `root`. With `since` only for those that `main`, a child of
 * `root`, has started since that moment; older processes and their descendants are not marked. */
void procs_mark(struct procs *all, pid_t root, pid_t main, const struct procs_moment *since);

/* True if the process has a handler for the signal, and where the kernel does not tell (gVisor). */
bool proc_catches(pid_t pid, int sig);

/* False in gVisor, where the death of a stopped process sends SIGHUP to its whole group, also if
 * that was orphaned before. It is known by what it does not tell of signals. */
bool procs_may_be_stopped(void);

/* True if both have the same command line, as between fork and exec, or if one cannot be read. */
bool procs_same_words(pid_t a, pid_t b);

/* True if both run the same executable file. */
bool procs_same_program(pid_t a, pid_t b);

#endif
