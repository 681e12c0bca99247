/*
 * A request to an interpreter, packed into one run of bytes. It waits in the queue in this form,
 * and the drivers of Python and, without stdin, of node read it as it is.
 *
 *   length of what follows (4) | run number (4) | stdin (1) | number of args (4) | of env (4)
 *   then code, stdin, each arg, each "NAME=value": length (4) and bytes
 *
 * Stdin is 0 (none), 1 (what follows here), 2 (it stays open: run/input.h), or 3: there is no code,
 * and the args are modules to import (OP_PRELOAD, Python only). Integers are big endian. Thread:
 * none of its own. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_LINK_REQUEST_H
#define CLOISTER_WORKER_AGENT_LINK_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"

/* -ERR_INVALID for an environment entry that is not NAME=value, or NUL in an entry or argument. */
int request_pack(const struct msg_start *m, struct buf *out, struct err *err) WARN_UNUSED;

/* Sets the run number, which is only known when the operation begins. */
void request_set_run(struct buf *request, uint32_t run);

/* Removes stdin's field, length and bytes, for a driver that gets them in another way. Stdin
 * becomes 0 unless it stays open. Code stays where it is; earlier views are not valid any more. */
void request_drop_stdin(struct buf *request);

/* A packed request as views; list items borrow from it too. */
struct request {
    struct view code;
    bool has_stdin;
    bool stdin_open; /* stdin comes while it runs, and not from here */
    struct view stdin_data;
    size_t arg_count, env_count;
    const uint8_t *rest; /* where args begin */
};

/* Opens bytes that request_pack() made; *ret borrows from them. */
void request_open(const struct buf *packed, struct request *ret);

/* Next argument, then next environment entry; call it arg_count + env_count times. */
struct view request_next(struct request *r);

#endif
