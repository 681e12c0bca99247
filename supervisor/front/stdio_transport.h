/*
 * The stdio transport: lines in, lines out, whatever they contain.
 *
 * Input may be a pipe, a socket, a terminal or a file. A line of any length costs bounded memory.
 * Output keeps the order of stdio_send(). While the reader of our output is slow, no input is read,
 * so a client can make us hold at most LIMIT_OUT_QUEUE and one answer.
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
    /* A piece of a line that is longer than LIMIT_LINE_BYTES and is not kept; `last`: the line ends
     * with it. */
    void (*too_long)(void *arg, const char *piece, size_t len, bool last);
    /* Input has ended, or (broken) nobody reads our output. Each is reported once, from the loop;
     * stdio_close() must still be called. */
    void (*end)(void *arg, bool broken);
};

/* Takes the descriptors 0 and 1 for the protocol: duplicates them close-on-exec, and puts /dev/null
 * and stderr in their places, so that no library and no child can read or write the protocol. Call
 * once, before anything else; closed standard descriptors are opened on /dev/null. */
int stdio_claim(int *ret_in, int *ret_out, struct err *err) WARN_UNUSED;

/* Owns both descriptors from now on, also on error. */
int stdio_open(uv_loop_t *loop, int in_fd, int out_fd, const struct stdio_events *events, void *arg,
               struct stdio **ret, struct err *err) WARN_UNUSED;

/* True for a regular file: its end does not mean that a client has hung up. */
bool stdio_input_is_file(const struct stdio *s);

/* Queues a line, and takes ownership of it. `line` has no newline. */
void stdio_send(struct stdio *s, char *line);

/* Bytes that the reader has not taken yet. */
size_t stdio_queued(const struct stdio *s);

/* Stops reading, writes queued lines for at most flush_ms, then closes, calls back, and frees
 * it. */
void stdio_close(struct stdio *s, uint64_t flush_ms, void (*closed)(void *arg), void *arg);

#endif
