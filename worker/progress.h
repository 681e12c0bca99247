/*
 * The progress of a sandbox's creation: the last step, for PROGRESS requests, and the timeout of
 * the creation, which each step restarts.
 *
 * Thread: the loop thread. Nothing blocks. Answers may come from inside the calls below.
 */
#ifndef CLOISTER_WORKER_PROGRESS_H
#define CLOISTER_WORKER_PROGRESS_H

#include <uv.h>

#include "common/err.h"
#include "proto/msg.h"

#define PROGRESS_ASKERS_MAX 8 /* waiting callers; one more makes the first be answered */

struct progress;
struct ipc_request;

struct progress_setup {
    uv_loop_t *loop;
    uint64_t patience_ms; /* timeout from one step to the next */
    uint64_t cap_ms;      /* timeout of the whole creation */
    /* Called once when the creation has taken too long, with -ERR_TIMEOUT. */
    void (*on_late)(void *arg, const struct err *err);
    /* Answers a request, exactly once each; the answer has its seq and is borrowed. */
    void (*answer)(void *arg, struct ipc_request *request, const struct msg *answer);
    void *arg;
};

struct progress *progress_create(const struct progress_setup *setup);

/* Begin and end of a creation. In between there may be steps, whose text is borrowed and cut to
 * what a message can hold; steps at other times are ignored. Ending twice is fine. */
void progress_begin(struct progress *p);
void progress_step(struct progress *p, const char *text, uint64_t done, uint64_t total);
void progress_over(struct progress *p);

/* Handles a PROGRESS request. `request` is only passed back to the answer function. */
void progress_ask(struct progress *p, struct ipc_request *request, const struct msg *m);

/* Frees it in the next turn of the loop. Waiting callers are not answered: call progress_over()
 * before. NULL is fine. */
void progress_destroy(struct progress *p);

#endif
