/*
 * What a process stream says, one JSON message at a time.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_EVENT_H
#define CLOISTER_WORKER_BACKEND_E2B_EVENT_H

#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"
#include "worker/backend/e2b/words.h"

#define E2B_EVENT_WORDS 200

enum e2b_event_kind {
    E2B_EVENT_OTHER, /* keepalive, or one of a later version */
    E2B_EVENT_STARTED,
    E2B_EVENT_STDOUT,
    E2B_EVENT_STDERR,
    E2B_EVENT_ENDED, /* the process has */
};

struct e2b_event {
    enum e2b_event_kind kind;
    uint64_t pid;                /* STARTED */
    char words[E2B_EVENT_WORDS]; /* ENDED: "exit status 1" */
};

/* Reads a message. The bytes of STDOUT and STDERR are appended to `data`. No words have one of the
 * secrets. -ERR_PROTOCOL. */
int e2b_event_read(struct view message, const struct e2b_secrets *secrets, struct buf *data,
                   struct e2b_event *ret, struct err *err) WARN_UNUSED;

/* The last message of a stream, which has the error if there was one, as an error of ours: always
 * negative. */
int e2b_event_last(struct view message, const struct e2b_secrets *secrets, struct err *err);

#endif
