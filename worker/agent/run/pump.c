/*
 * A read that returns less than was asked for has emptied the pipe, so the usual case takes one
 * system call. Only after a full chunk is it worth asking how much more there is.
 */
#include "worker/agent/run/pump.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHUNK_BYTES 16384

/* Returns the number of bytes taken, 0 if there are none, -1 at end of file. */
static ssize_t take(int fd, struct op_stream *s, size_t most)
{
    char chunk[CHUNK_BYTES];
    ssize_t n = read(fd, chunk, most < sizeof(chunk) ? most : sizeof(chunk));
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    if (n == 0) {
        return -1;
    }
    /* callers stay below the cap; without memory these bytes are lost and the run goes on */
    err_ignore(op_stream_add(s, chunk, (size_t)n, NULL));
    return n;
}

bool pump_stream(int fd, struct op_stream *s)
{
    size_t room = op_stream_room(s);
    while (room > 0) {
        size_t most = room < CHUNK_BYTES ? room : CHUNK_BYTES;
        ssize_t n = take(fd, s, most);
        if (n < 0) {
            return false;
        }
        if ((size_t)n < most) {
            return true;
        }
        room = op_stream_room(s);
    }
    return true;
}

void pump_tail(int fd, struct op_stream *s)
{
    if (fd < 0 || take(fd, s, CHUNK_BYTES) < CHUNK_BYTES) {
        return;
    }
    int there = 0;
    if (ioctl(fd, FIONREAD, &there) < 0 || there <= 0) {
        return;
    }
    size_t left =
        (size_t)there < OP_TAIL_MAX - CHUNK_BYTES ? (size_t)there : OP_TAIL_MAX - CHUNK_BYTES;
    while (left > 0) {
        ssize_t n = take(fd, s, left);
        if (n <= 0) {
            return;
        }
        left -= (size_t)n;
    }
}

void pump_terminal(int fd, struct op_stream *s)
{
    size_t left = OP_TAIL_MAX - CHUNK_BYTES;
    ssize_t n = 1;
    while (fd >= 0 && n > 0 && left > 0) {
        n = take(fd, s, left);
        left -= n > 0 ? (size_t)n : 0;
    }
}
