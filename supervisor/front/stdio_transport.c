/*
 * Reading: bytes arrive in a fixed chunk. A line that is whole in it is passed on from there; a
 * longer one is collected in a buffer up to the limit, and skipped beyond it. The chunk is
 * processed line by line, and processing pauses while the output queue is full.
 *
 * Writing: a line is first written directly, without a turn of the loop; what does not fit, and
 * everything after it, waits in one queue. libuv streams handle pipes, sockets and terminals; files
 * use uv_fs, since epoll does not accept them.
 */
#include "supervisor/front/stdio_transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "proto/limits.h"

#define CHUNK_BYTES     (64u << 10)
#define LINE_KEEP_BYTES (256u << 10) /* memory kept between long lines */
#define WRITE_LINES     16           /* lines joined into one write */

struct out_line {
    struct out_line *next;
    char *text;
    size_t len;  /* without the newline */
    size_t done; /* bytes written, including the newline */
};

/* Input or output: a libuv stream, or a plain descriptor of a file. */
struct end {
    bool is_file;
    int fd;    /* of the stream or the file */
    int flags; /* original flags of the descriptor, which other processes may share */
    union {
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tty_t tty;
        uv_tcp_t tcp;
        uv_handle_t handle;
    };
    uv_fs_t fs;
    bool fs_busy;
};

struct stdio {
    uv_loop_t *loop;
    struct stdio_events events;
    void *arg;
    struct end in, out;

    char chunk[CHUNK_BYTES];
    size_t chunk_len, chunk_at;
    struct buf line; /* the start of a line from earlier chunks */
    bool skipping;   /* inside a line that is too long */
    bool ended;      /* input */
    bool working;    /* inside work_off() */

    struct out_line *first, *last;
    size_t queued_bytes;
    size_t writing; /* number of queued lines in the current write */
    uv_write_t write;
    bool broken;

    uv_timer_t timer; /* reports a broken output from the loop; later limits the flush */
    bool closing, flush_over, finishing;
    int open_handles;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void read_on(struct stdio *s);
static void write_on(struct stdio *s);
static void finish_if_flushed(struct stdio *s);

/* ---- reading -------------------------------------------------------------------------------- */

static bool paused(const struct stdio *s)
{
    return s->closing || s->queued_bytes > LIMIT_OUT_QUEUE;
}

static void hand_on(struct stdio *s, const char *line, size_t len)
{
    if (len > 0 && line[len - 1] == '\r') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
            s->events.line(s->arg, line, len);
            return;
        }
    }
}

/* Takes a piece of a line; `whole`: the last piece. */
static void take_piece(struct stdio *s, const char *piece, size_t len, bool whole)
{
    bool fits = !s->skipping && len <= LIMIT_LINE_BYTES - s->line.len;
    if (fits && whole && s->line.len == 0) {
        hand_on(s, piece, len);
        return;
    }
    if (fits) {
        fits = buf_add(&s->line, piece, len, NULL) == 0;
    }
    if (!fits && !s->skipping) {
        s->skipping = true;
        s->events.too_long(s->arg, (const char *)s->line.data, s->line.len, false);
        buf_finish(&s->line);
    }
    if (s->skipping) {
        s->events.too_long(s->arg, piece, len, whole);
    }
    if (!whole) {
        return;
    }
    if (!s->skipping) {
        hand_on(s, (const char *)s->line.data, s->line.len);
    }
    s->skipping = false;
    buf_reset(&s->line, LINE_KEEP_BYTES);
}

/* Passes on the lines of the chunk until it is used up or the output is full. */
static void work_off(struct stdio *s)
{
    if (s->working) {
        return; /* reentered: a line's answer led back here */
    }
    s->working = true;
    while (!paused(s) && s->chunk_at < s->chunk_len) {
        const char *from = s->chunk + s->chunk_at;
        size_t left = s->chunk_len - s->chunk_at;
        const char *end = memchr(from, '\n', left);
        size_t len = end != NULL ? (size_t)(end - from) : left;
        s->chunk_at += len + (end != NULL ? 1 : 0);
        take_piece(s, from, len, end != NULL);
    }
    s->working = false;
}

static void take_bytes(struct stdio *s, size_t len)
{
    s->chunk_at = 0;
    s->chunk_len = len;
    work_off(s);
}

static void take_end(struct stdio *s)
{
    if (s->ended) {
        return;
    }
    s->ended = true;
    if (s->line.len > 0 || s->skipping) {
        take_piece(s, "", 0, true); /* a last line without newline counts */
    }
    s->events.end(s->arg, false);
}

static void on_stdin_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret)
{
    struct stdio *s = handle->data;
    (void)size;
    *ret = uv_buf_init(s->chunk, sizeof(s->chunk));
}

static void on_stdin_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk)
{
    struct stdio *s = stream->data;
    (void)chunk;
    if (n > 0) {
        take_bytes(s, (size_t)n);
        if (paused(s) || s->chunk_at < s->chunk_len) {
            uv_read_stop(stream);
        }
    } else if (n < 0) {
        uv_read_stop(stream);
        take_end(s);
    }
}

static void on_file_read(uv_fs_t *fs)
{
    struct stdio *s = fs->data;
    ssize_t n = fs->result;
    uv_fs_req_cleanup(fs);
    s->in.fs_busy = false;
    if (s->closing) {
        finish_if_flushed(s);
    } else if (n <= 0) {
        take_end(s);
    } else {
        take_bytes(s, (size_t)n);
        read_on(s);
    }
}

/* Reads more, unless there is something else to do first. */
static void read_on(struct stdio *s)
{
    work_off(s);
    if (s->ended || paused(s) || s->working || s->chunk_at < s->chunk_len) {
        return;
    }
    if (!s->in.is_file) {
        /* harmless if started already */
        uv_read_start(&s->in.stream, on_stdin_alloc, on_stdin_read);
    } else if (!s->in.fs_busy) {
        uv_buf_t chunk = uv_buf_init(s->chunk, sizeof(s->chunk));
        s->in.fs.data = s;
        s->in.fs_busy = uv_fs_read(s->loop, &s->in.fs, s->in.fd, &chunk, 1, -1, on_file_read) == 0;
    }
}

/* ---- writing -------------------------------------------------------------------------------- */

static void pop_line(struct stdio *s)
{
    struct out_line *l = s->first;
    s->first = l->next;
    s->last = s->first != NULL ? s->last : NULL;
    s->queued_bytes -= l->len + 1;
    free(l->text);
    free(l);
}

static void on_stdin_broken(uv_timer_t *timer)
{
    struct stdio *s = timer->data;
    s->events.end(s->arg, true);
}

/* Nobody reads our output: drops what is queued and what follows. */
static void break_off(struct stdio *s)
{
    if (s->broken) {
        return;
    }
    s->broken = true;
    while (s->first != NULL) {
        pop_line(s);
    }
    if (s->closing) {
        finish_if_flushed(s);
    } else {
        uv_timer_start(&s->timer, on_stdin_broken, 0, 0);
    }
}

/* `n` more bytes at the head of the queue were written. */
static void written(struct stdio *s, size_t n)
{
    while (n > 0 && s->first != NULL) {
        size_t left = s->first->len + 1 - s->first->done;
        if (n < left) {
            s->first->done += n;
            return;
        }
        n -= left;
        pop_line(s);
    }
}

static unsigned line_bufs(const struct out_line *l, uv_buf_t *ret)
{
    static char newline[] = "\n";
    unsigned n = 0;
    if (l->done < l->len) {
        ret[n++] = uv_buf_init(l->text + l->done, (unsigned)(l->len - l->done));
    }
    ret[n++] = uv_buf_init(newline, 1);
    return n;
}

static void after_write(struct stdio *s, ssize_t n)
{
    s->writing = 0;
    if (n < 0) {
        break_off(s);
        return;
    }
    written(s, (size_t)n);
    write_on(s);
    if (s->closing) {
        finish_if_flushed(s);
    } else {
        read_on(s);
    }
}

static void on_stdout_written(uv_write_t *req, int status)
{
    struct stdio *s = req->data;
    size_t n = 0;
    struct out_line *l = s->first;
    for (size_t i = 0; i < s->writing; i++, l = l->next) {
        n += l->len + 1 - l->done;
    }
    after_write(s, status < 0 ? -1 : (ssize_t)n);
}

static void on_file_written(uv_fs_t *fs)
{
    struct stdio *s = fs->data;
    ssize_t n = fs->result;
    uv_fs_req_cleanup(fs);
    s->out.fs_busy = false;
    after_write(s, n);
}

static void write_on(struct stdio *s)
{
    if (s->first == NULL || s->writing > 0) {
        return;
    }
    uv_buf_t bufs[WRITE_LINES * 2];
    unsigned count = 0;
    for (struct out_line *l = s->first; l != NULL && s->writing < WRITE_LINES; l = l->next) {
        count += line_bufs(l, bufs + count);
        s->writing++;
    }
    int rc;
    if (s->out.is_file) {
        s->out.fs.data = s;
        rc = uv_fs_write(s->loop, &s->out.fs, s->out.fd, bufs, count, -1, on_file_written);
        s->out.fs_busy = rc == 0;
    } else {
        s->write.data = s;
        rc = uv_write(&s->write, &s->out.stream, bufs, count, on_stdout_written);
    }
    if (rc < 0) {
        s->writing = 0;
        break_off(s);
    }
}

void stdio_send(struct stdio *s, char *line)
{
    if (s->broken) {
        free(line);
        return;
    }
    struct out_line *l = alloc_one(struct out_line);
    l->text = line;
    l->len = strlen(line);
    bool first = s->first == NULL;
    if (first) {
        s->first = l;
    } else {
        s->last->next = l;
    }
    s->last = l;
    s->queued_bytes += l->len + 1;
    if (first && !s->out.is_file) {
        uv_buf_t bufs[2];
        int n = uv_try_write(&s->out.stream, bufs, line_bufs(l, bufs));
        if (n < 0 && n != UV_EAGAIN) {
            break_off(s);
            return;
        }
        written(s, n > 0 ? (size_t)n : 0);
    }
    write_on(s);
}

size_t stdio_queued(const struct stdio *s)
{
    return s->queued_bytes;
}

/* ---- opening and closing -------------------------------------------------------------------- */

static void on_stdio_closed(uv_handle_t *handle)
{
    struct stdio *s = handle->data;
    if (--s->open_handles > 0) {
        return;
    }
    while (s->first != NULL) {
        pop_line(s);
    }
    buf_finish(&s->line);
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    free(s);
    if (closed != NULL) {
        closed(arg);
    }
}

static void end_close(struct stdio *s, struct end *e)
{
    err_ignore(fcntl(e->fd, F_SETFL, e->flags));
    if (e->is_file) {
        close(e->fd);
    } else {
        s->open_handles++;
        uv_close(&e->handle, on_stdio_closed);
    }
}

static void finish_stdio(struct stdio *s)
{
    s->closing = true;
    s->finishing = true;
    s->open_handles = 1;
    end_close(s, &s->in);
    end_close(s, &s->out);
    uv_close((uv_handle_t *)&s->timer, on_stdio_closed);
}

/* A file request cannot be cancelled, but files do not block for long. */
static void finish_if_flushed(struct stdio *s)
{
    bool flushed = s->first == NULL || s->flush_over;
    if (!s->finishing && flushed && !s->in.fs_busy && !s->out.fs_busy) {
        finish_stdio(s);
    }
}

static void on_flush_timeout(uv_timer_t *timer)
{
    struct stdio *s = timer->data;
    s->flush_over = true;
    finish_if_flushed(s);
}

void stdio_close(struct stdio *s, uint64_t flush_ms, void (*closed)(void *arg), void *arg)
{
    s->closing = true;
    s->closed = closed;
    s->closed_arg = arg;
    if (!s->in.is_file) {
        uv_read_stop(&s->in.stream);
    }
    uv_timer_start(&s->timer, on_flush_timeout, flush_ms, 0);
    finish_if_flushed(s);
}

/* On failure the descriptor is still open, and the caller closes it. */
static int end_open(struct stdio *s, struct end *e, int fd, const char *name, struct err *err)
{
    int rc = 0;
    *e = (struct end){.is_file = true, .fd = fd, .flags = fcntl(fd, F_GETFL)};
    e->handle.data = s;
    switch (uv_guess_handle(fd)) {
    case UV_FILE:
        return 0;
    case UV_NAMED_PIPE:
        uv_pipe_init(s->loop, &e->pipe, 0);
        rc = uv_pipe_open(&e->pipe, fd);
        break;
    case UV_TCP:
        uv_tcp_init(s->loop, &e->tcp);
        rc = uv_tcp_open(&e->tcp, fd);
        break;
    case UV_TTY:
        rc = uv_tty_init(s->loop, &e->tty, fd, 0);
        if (rc < 0) {
            return err_set(err, ERR_IO, "cannot use %s: %s", name, uv_strerror(rc));
        }
        break;
    default:
        return err_set(err, ERR_IO, "%s is no pipe, socket, terminal or file", name);
    }
    e->handle.data = s;
    e->is_file = false;
    if (rc < 0) {
        close(fd); /* the handle did not take the descriptor */
        return err_set(err, ERR_IO, "cannot use %s: %s", name, uv_strerror(rc));
    }
    return 0;
}

int stdio_open(uv_loop_t *loop, int in_fd, int out_fd, const struct stdio_events *events, void *arg,
               struct stdio **ret, struct err *err)
{
    struct stdio *s = alloc_one(struct stdio);
    s->loop = loop;
    s->events = *events;
    s->arg = arg;
    buf_init(&s->line, LIMIT_LINE_BYTES);
    uv_timer_init(loop, &s->timer);
    s->timer.data = s;
    struct err out_err = ERR_INIT;
    int rc = end_open(s, &s->in, in_fd, "stdin", err);
    int out_rc = end_open(s, &s->out, out_fd, "stdout", rc < 0 ? &out_err : err);
    if (rc < 0 || out_rc < 0) {
        finish_stdio(s);
        return rc < 0 ? rc : out_rc;
    }
    *ret = s;
    read_on(s);
    return 0;
}

bool stdio_input_is_file(const struct stdio *s)
{
    return s->in.is_file;
}

int stdio_claim(int *ret_in, int *ret_out, struct err *err)
{
    CLEANUP_FD int null = -1;
    do { /* opens 0, 1 and 2 if they are closed, so that no other file gets these numbers */
        null = open("/dev/null", O_RDWR);
    } while (null >= 0 && null <= STDERR_FILENO);
    CLEANUP_FD int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    CLEANUP_FD int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (null < 0 || in < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return err_sys(err, ERR_IO, errno, "cannot set up stdin and stdout");
    }
    *ret_in = steal_fd(&in);
    *ret_out = steal_fd(&out);
    return 0;
}
