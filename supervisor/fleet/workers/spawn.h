/*
 * Starts, watches and ends one worker process.
 *
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_SPAWN_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_SPAWN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct fleet_host;
struct worker_process;

/* Arguments on the worker's command line. Borrowed during worker_spawn(). */
struct worker_args {
    const char *sandbox;    /* id */
    const char *dir;        /* private directory of the sandbox */
    const char *shared_dir; /* of the instance */
    const char *backend;    /* which it will be asked for; NULL: not known */
    uint64_t generation;
    bool expendable; /* stopped when the server stops: its task is useless then */
};

/* The path of the socket between a worker of this generation and its supervisor, in the sandbox's
 * directory. The caller frees it. */
char *worker_socket_path(const char *dir, uint64_t generation);

/* exit_code is -1 if `signal` ended it. */
typedef void (*worker_exit_fn)(void *arg, int exit_code, int signal);

/* Starts host->worker_path in its own session, with /dev/null as stdin and stdout, its log as
 * stderr and the lifeline as fd 3. -ERR_ENGINE gives the reason (no processes or descriptors left,
 * program absent, …); nothing is left then. */
int worker_spawn(struct fleet_host *host, const struct worker_args *args, worker_exit_fn on_exit,
                 void *arg, struct worker_process **ret, struct err *err) WARN_UNUSED;

/* Watches a worker of an earlier server: the process with this pid and start time. Its exit is
 * reported with exit_code -1 and signal 0, since only a parent learns more. -ERR_GONE if there is
 * no such process (any more), -ERR_IO if this system cannot watch it (no pidfd). Releasing it
 * leaves it alive. */
int worker_watch(struct fleet_host *host, int pid, uint64_t start_time, worker_exit_fn on_exit,
                 void *arg, struct worker_process **ret, struct err *err) WARN_UNUSED;

int worker_process_pid(const struct worker_process *p);

/* SIGTERM: asks it to end in order. */
void worker_process_stop(struct worker_process *p);

/* SIGKILL. The exit callback follows, unless the kernel cannot end the process. */
void worker_process_kill(struct worker_process *p);

/* No more callbacks; a child that still lives is killed. The object frees itself later. */
void worker_process_release(struct worker_process *p);

/* No more callbacks; a process that still lives goes on, for the next server. */
void worker_process_abandon(struct worker_process *p);

/* The start time of a process in the kernel's unit. Together with the pid it identifies a process
 * during one boot; 0 if this system does not show it. */
uint64_t worker_process_start_time(int pid);

#endif
