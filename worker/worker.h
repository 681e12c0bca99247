/*
 * One worker: the link to the supervisor on one side, one sandbox on the other.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_WORKER_H
#define CLOISTER_WORKER_WORKER_H

#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "proto/exit_codes.h"
#include "proto/msg.h"

struct worker;

enum worker_state {
    WORKER_NEW,     /* no sandbox yet */
    WORKER_OPENING, /* being created or found again */
    WORKER_OPEN,    /* the agent has said hello */
    WORKER_CLOSING, /* being removed on request */
    WORKER_GONE,    /* ended by itself; its remains are being removed */
    WORKER_LEAVING, /* the sandbox is removed, or no longer ours; the process is about to end */
};

struct worker_setup {
    const char *socket; /* the supervisor's socket, dialled */
    const char *sandbox;
    uint64_t generation;
    const char *dir;
    const char *shared_dir;
    const char *agent_path;
};

/* Called once, after all of the worker's handles are closed and the worker is freed. */
typedef void (*worker_ended_fn)(void *arg, enum exit_code code);

/* Starts dialling. The setup is borrowed for the life of the worker. */
int worker_create(uv_loop_t *loop, const struct worker_setup *setup, worker_ended_fn ended,
                  void *arg, struct worker **ret, struct err *err) WARN_UNUSED;

/* Ends the sandbox in an orderly way, as CLOSE does; then the worker ends with EXIT_CODE_OK. */
void worker_stop(struct worker *w);

/* The supervisor's process has ended. The sandbox goes on: another supervisor may take it over
 * within the grace period, which counts from the loss of the link. */
void worker_supervisor_died(struct worker *w);

#endif
