/*
 * The stdio transport: lines in, lines out. Knows nothing of what is in them.
 *
 * Input may be a pipe, a socket, a terminal or a file. Lines of any length cost bounded memory.
 * Output keeps the order of stdio_send(); while the reader of our output is slow, no input is
 * read, so that a client can only make us hold LIMIT_OUT_QUEUE and one answer more.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_STDIO_TRANSPORT_H
#define CLOISTER_SUPERVISOR_FRONT_STDIO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

struct stdio;

struct stdio_events {
    /* A line without its end (LF or CRLF), never blank; borrowed. */
    void (*line)(void *arg, const char *line, size_t len);
    /* A line over LIMIT_LINE_BYTES has begun; it is skipped. */
    void (*too_long)(void *arg);
    /* Input has ended, or (broken) nobody reads our output any more. Each is told once, from the
     * loop; stdio_close() is still to be called. */
    void (*end)(void *arg, bool broken);
};

/* Takes the descriptors 0 and 1 for the protocol: moves them to close-on-exec ones, and leaves
 * /dev/null and stderr in their places, so that nothing else, no library and no child, can read
 * or write a byte of it. Call once, first thing; closed standard descriptors are opened on
 * /dev/null. */
int stdio_claim(int *ret_in, int *ret_out, struct err *err) WARN_UNUSED;

/* Owns both descriptors from now on, also on error. */
int stdio_open(uv_loop_t *loop, int in_fd, int out_fd, const struct stdio_events *events, void *arg,
               struct stdio **ret, struct err *err) WARN_UNUSED;

/* True for a regular file: it ends because it was read, not because anyone hung up. */
bool stdio_input_is_file(const struct stdio *s);

/* Queues a line; owns `line` (no newline in it) and frees it. */
void stdio_send(struct stdio *s, char *line);

/* Bytes that nobody has taken yet. */
size_t stdio_queued(const struct stdio *s);

/* Stops reading, writes what is queued for at most flush_ms, then closes, calls back, frees. */
void stdio_close(struct stdio *s, uint64_t flush_ms, void (*closed)(void *arg), void *arg);

#endif
