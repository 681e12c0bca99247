/*
 * A keeper: the process between the agent and one interpreter, which makes sure that whatever
 * descends from the interpreter dies with it.
 *
 * Thread: the agent has one. Nothing here blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_KEEPER_H
#define CLOISTER_WORKER_AGENT_PROCESS_KEEPER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "worker/agent/process/interrupt.h"
#include "worker/agent/process/procs.h"
#include "worker/agent/process/spawn.h"

#define KEEPER_FDS_MAX     8
#define KEEPER_WAKE_SIGNAL SIGURG /* ignored unless a driver asks for it */

/* A descriptor of ours and the number it gets in the program. */
struct keeper_fd {
    int from;
    int to;
};

struct keeper_job {
    const char *path; /* program */
    char *const *argv;
    char *const *envp;
    const char *cwd;
    /* Instead of the four above: called in the process-to-be, which is the sandbox user already;
     * returns only if there is no way to become the program. NULL: the four above. */
    int (*become)(void *arg, struct err *err);
    void *become_arg;
    struct keeper_fd fds[KEEPER_FDS_MAX]; /* everything else is closed */
    size_t fd_count;
    const struct spawn_config *spawn;
    bool last_resort; /* see killtree.h */
    enum interrupt_by interrupt_by;
    bool hold_interrupt; /* the program starts with SIGINT blocked, and unblocks it when it is up */
};

struct keeper {
    pid_t pid;      /* 0 while there is none */
    pid_t main_pid; /* the program; 0 until it is reported */
    int command_fd; /* owned */
    int status_fd;  /* owned; readable when there is news */
    unsigned owed;  /* interrupts that have been ordered and not sent yet */
    bool too_early; /* the last one was not sent, the program is still starting */
    enum {
        KEEPER_SWEEP_NONE,
        KEEPER_SWEEP_ORDERED,
        KEEPER_SWEEP_DONE,
        KEEPER_SWEEP_FAILED, /* there is always more */
    } sweep;
    bool ended; /* the program and everything below it is gone */
    int wait_status;
    uint64_t cpu_us; /* of the program and what it waited for, in all its life */
    uint64_t max_rss_kb;
    int exec_errno;      /* why the program could not even be started; 0 if it was */
    int exec_code;       /* enum err_code, as the process-to-be sees it */
    char exec_step[512]; /* what failed then */
};

void keeper_init(struct keeper *k);

/* Forks. -ERR_BUSY if there is no process left, -ERR_IO for anything else. */
int keeper_start(struct keeper *k, const struct keeper_job *job, struct err *err) WARN_UNUSED;

/* SIGINT to the program and what it has started since that moment. Until `owed` is 0 again it may
 * still come. */
void keeper_interrupt(struct keeper *k, const struct procs_moment *since);

/* Kills what the program has started since that moment, but not the program; `sweep` tells how that
 * went. */
void keeper_sweep(struct keeper *k, const struct procs_moment *since);

/* Sends the program a signal that means nothing, so that a system call which began in the very
 * moment of an interrupt ends and the interrupt is seen. */
void keeper_wake(const struct keeper *k);

/* Kills the program and everything below it; `ended` follows. */
void keeper_kill(const struct keeper *k);

/* Reads news from status_fd. A keeper that vanishes without a word counts as ended by SIGKILL. */
void keeper_read(struct keeper *k);

/* Closes the descriptors. A keeper that is still there takes that as an order to kill. */
void keeper_finish(struct keeper *k);

#endif
