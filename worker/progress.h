/*
 * How the creation of a sandbox gets on: the last news, for those who ask, and the patience of the
 * worker, which lasts as long as there is news now and then.
 *
 * Thread: the loop thread. Nothing blocks. Answers may come from inside the calls below.
 */
#ifndef CLOISTER_WORKER_PROGRESS_H
#define CLOISTER_WORKER_PROGRESS_H

#include <uv.h>

#include "common/err.h"
#include "proto/msg.h"

#define PROGRESS_ASKERS_MAX 8 /* who wait; one more, and the first of them is answered */

struct progress;
struct ipc_request;

struct progress_setup {
    uv_loop_t *loop;
    uint64_t patience_ms; /* from one piece of news to the next */
    uint64_t cap_ms;      /* from the beginning, whatever news there is */
    /* The creation has taken too long; told once. -ERR_TIMEOUT. */
    void (*on_late)(void *arg, const struct err *err);
    /* Answers a request, exactly once each; the answer has its seq and is borrowed. */
    void (*answer)(void *arg, struct ipc_request *request, const struct msg *answer);
    void *arg;
};

struct progress *progress_create(const struct progress_setup *setup);

/* A creation begins, and is over. In between there may be news, all of it borrowed; text is cut to
 * what a message can hold. News at other times is none. Ending twice is fine. */
void progress_begin(struct progress *p);
void progress_news(struct progress *p, const char *text, uint64_t done, uint64_t total);
void progress_over(struct progress *p);

/* A PROGRESS request. `request` is handed back to the answer function and not looked at. */
void progress_ask(struct progress *p, struct ipc_request *request, const struct msg *m);

/* Frees, as soon as the loop comes round. Whoever still waits is not answered: see
 * progress_over(). NULL is fine. */
void progress_destroy(struct progress *p);

#endif
