/*
 * A keeper: the process between the agent and one interpreter or program. It makes sure that all
 * descendants of that program die with it.
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

#define KEEPER_FDS_MAX     9
#define KEEPER_WAKE_SIGNAL SIGURG /* ignored unless a driver asks for it */

/* A descriptor and the number that it gets in the program. */
struct keeper_fd {
    int from;
    int to;
};

struct keeper_job {
    const char *path; /* program */
    char *const *argv;
    char *const *envp;
    const char *cwd;
    /* If not NULL, used instead of the four fields above: called in the child as the sandbox user,
     * and returns only if exec fails. */
    int (*become)(void *arg, struct err *err);
    void *become_arg;
    struct keeper_fd fds[KEEPER_FDS_MAX]; /* all other descriptors are closed */
    size_t fd_count;
    const struct spawn_config *spawn;
    bool last_resort; /* see killtree.h */
    bool terminal;    /* descriptor 0 becomes the controlling terminal of its session */
    enum interrupt_by interrupt_by;
    bool hold_interrupt; /* it starts with SIGINT blocked, and unblocks it when it is ready */
};

struct keeper {
    pid_t pid;           /* 0 while there is none */
    pid_t main_pid;      /* pid of the program; 0 until it is reported */
    int command_fd;      /* owned */
    int status_fd;       /* owned; readable when there is progress */
    unsigned owed;       /* interrupts that are ordered but not sent yet */
    bool leaves_orphans; /* to pid 1, as this kernel knows no other subreapers */
    bool too_early;      /* the last one was not sent, because the program is still starting */
    enum {
        KEEPER_SWEEP_NONE,
        KEEPER_SWEEP_ORDERED,
        KEEPER_SWEEP_DONE,
        KEEPER_SWEEP_FAILED, /* there is always more */
    } sweep;
    bool ended; /* the program and all its descendants are gone */
    int wait_status;
    uint64_t cpu_us; /* CPU time of the program and the children that it has waited for */
    uint64_t max_rss_kb;
    int exec_errno;      /* errno of the failed start; 0 if the program was started */
    int exec_code;       /* enum err_code of the failed start */
    char exec_step[512]; /* what failed then */
};

void keeper_init(struct keeper *k);

/* Forks. -ERR_BUSY if there is no process left, -ERR_IO for anything else. */
int keeper_start(struct keeper *k, const struct keeper_job *job, struct err *err) WARN_UNUSED;

/* Orders a SIGINT to the program and the processes that it has started since that moment. It may be
 * sent at any time until `owed` is 0 again. */
void keeper_interrupt(struct keeper *k, const struct procs_moment *since);

/* Orders the kill of the processes that the program has started since that moment, but not of the
 * program; `sweep` tells the result. */
void keeper_sweep(struct keeper *k, const struct procs_moment *since);

/* Sends the program KEEPER_WAKE_SIGNAL, which ends a system call that began just when an interrupt
 * came, so that the program handles the interrupt. */
void keeper_wake(const struct keeper *k);

/* Orders the kill of the program and all its descendants; `ended` follows. */
void keeper_kill(const struct keeper *k);

/* Reads the keeper's reports from status_fd. A keeper that ends without a report counts as ended by
 * SIGKILL. */
void keeper_read(struct keeper *k);

/* Closes the descriptors, which orders a living keeper to kill. */
void keeper_finish(struct keeper *k);

#endif
