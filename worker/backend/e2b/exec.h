/*
 * A process in a sandbox, and the stream on which its daemon tells what it says.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside e2b_exec_start().
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_EXEC_H
#define CLOISTER_WORKER_BACKEND_E2B_EXEC_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/e2b/host.h"

struct e2b_exec;

/* Each may call every function of this header. */
struct e2b_exec_events {
    void (*started)(void *arg, uint64_t pid);
    /* Bytes on stdout or stderr, to be used at once. After e2b_exec_hold() no more come. */
    void (*output)(void *arg, bool is_stderr, struct view data);
    /* The last one: the process has ended (-ERR_GONE), or the stream has, or there was none. The
     * object is gone. */
    void (*ended)(void *arg, int rc, int status, const struct err *err);
};

struct e2b_command {
    const cJSON *words; /* strings: the program's path and its arguments */
    const cJSON *env;   /* strings "NAME=VALUE"; NULL: none */
    bool stdin_open;
};

/* Everything is copied but `events`. The process does not end with its stream. */
struct e2b_exec *e2b_exec_start(struct e2b_host *envd, const struct e2b_command *command,
                                const struct e2b_exec_events *events, void *arg);

/* Nothing more is told until it is held no longer; the process waits when it has said much. Letting
 * it go on calls back, so that it may be gone at the return. */
void e2b_exec_hold(struct e2b_exec *x, bool hold);

/* Lets go of the stream. No callback follows. NULL is fine. */
void e2b_exec_close(struct e2b_exec *x);

#endif
