/*
 * Birth and death of one worker process, and nothing in between.
 * Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_WORKERS_SPAWN_H
#define CLOISTER_SUPERVISOR_FLEET_WORKERS_SPAWN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct fleet_host;
struct worker_process;

/* What the worker is told on its command line. Borrowed during worker_spawn(). */
struct worker_args {
    const char *sandbox;    /* id */
    const char *dir;        /* private directory of the sandbox */
    const char *shared_dir; /* of the instance */
    uint64_t generation;
    bool expendable; /* asked to end when the server stops: its task has no use any more */
};

/* The path of the socket between a worker of that generation and its supervisor, in the directory
 * of its sandbox. Free with free(). */
char *worker_socket_path(const char *dir, uint64_t generation);

/* exit_code is -1 if it was ended by `signal`. */
typedef void (*worker_exit_fn)(void *arg, int exit_code, int signal);

/* Starts host->worker_path in a session of its own, with /dev/null as stdin and stdout, its log as
 * stderr and the lifeline as fd 3. Errors: -ERR_ENGINE with the reason (no processes or descriptors
 * left, program absent, …); nothing is left behind then. */
int worker_spawn(struct fleet_host *host, const struct worker_args *args, worker_exit_fn on_exit,
                 void *arg, struct worker_process **ret, struct err *err) WARN_UNUSED;

/* Watches a worker that an earlier server started: the process with this pid and start time. Its
 * exit is told with exit_code -1 and signal 0, since only a parent learns more. -ERR_GONE if there
 * is no such process (any more), -ERR_IO if this system cannot watch one (no pidfd). Released, it
 * is let go of alive. */
int worker_watch(struct fleet_host *host, int pid, uint64_t start_time, worker_exit_fn on_exit,
                 void *arg, struct worker_process **ret, struct err *err) WARN_UNUSED;

int worker_process_pid(const struct worker_process *p);

/* SIGTERM: end in order. */
void worker_process_stop(struct worker_process *p);

/* SIGKILL. The exit callback follows, unless the kernel cannot let go of it. */
void worker_process_kill(struct worker_process *p);

/* No callback any more; a process that still lives is killed. Freed later by itself. */
void worker_process_release(struct worker_process *p);

/* No callback any more; a process that still lives goes on, for the next server. */
void worker_process_abandon(struct worker_process *p);

/* When a process started, in the kernel's own unit and together with its pid a name that is never
 * used twice during one boot; 0 if this system does not tell. */
uint64_t worker_process_start_time(int pid);

#endif
