/*
 * Stdin that comes while code runs: from INPUT requests into the pipe or terminal of the run.
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_RUN_INPUT_H
#define CLOISTER_WORKER_AGENT_RUN_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"
#include "worker/agent/link/poll_set.h"

struct input {
    bool open;           /* asked for with START; false: its stdin is complete */
    bool tty;            /* it runs in a terminal */
    bool eof;            /* nothing follows */
    bool in_line;        /* the last byte that came was no newline */
    bool refused;        /* the program has closed its end */
    int fd;              /* owned; -1 unless it runs. Our end of the pipe, or of the terminal */
    uint64_t next;       /* bytes that INPUT requests have brought in all */
    uint64_t rows, cols; /* of the terminal */
    struct buf pending;  /* bytes that are not written yet */
    struct poll_slot slot;
};

void input_init(struct input *in);
void input_finish(struct input *in);

/* What START says about stdin. The run's first stdin is kept here if more may follow.
 * -ERR_TOO_BIG. */
int input_expect(struct input *in, const struct msg_start *m, struct err *err) WARN_UNUSED;

/* The run begins: takes over fd, which does not block, and writes what has come. */
void input_begin(struct input *in, int fd);

/* An INPUT request. -ERR_INVALID if the run takes no (more) input, if bytes before `at` are missing
 * or if it has no terminal; -ERR_TOO_BIG if the program has too much to read already. Nothing is
 * taken then. */
int input_take(struct input *in, const struct msg_input *m, struct err *err) WARN_UNUSED;

/* The run has ended. */
void input_end(struct input *in);

/* input_poll() adds the descriptor if something waits to be written, input_handle() writes it. */
void input_poll(struct input *in, struct poll_set *set);
void input_handle(struct input *in, const struct poll_set *set);

#endif
