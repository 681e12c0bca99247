/*
 * A worker that lost a stream sends its INPUT again, and so does the next worker. So each INPUT
 * says where its bytes belong, and what has come already is passed over: nothing is written twice.
 * It is taken as a whole or refused as a whole, so that whoever repeats it later knows with what.
 *
 * Bytes that the program does not read wait here, at most LIMIT_INPUT of them. They do not slow the
 * agent down: the pipe is written when it has room.
 *
 * A terminal has no end of file. The line discipline makes one of the EOF character, which it
 * passes on only at the beginning of a line; in a line it first hands over the line so far. After
 * an incomplete line it is written twice.
 */
#include "worker/agent/run/input.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/fd.h"
#include "worker/agent/process/terminal.h"

#define TTY_EOF       "\x04\x04"
#define PENDING_BYTES (LIMIT_INPUT + sizeof(TTY_EOF))

void input_init(struct input *in)
{
    *in = (struct input){.fd = -1, .rows = TERMINAL_ROWS, .cols = TERMINAL_COLS};
    buf_init(&in->pending, PENDING_BYTES);
}

void input_finish(struct input *in)
{
    fd_close(&in->fd);
    buf_finish(&in->pending);
}

/* Keeps in mind whether the bytes that have come end within a line. */
static void note_line(struct input *in, struct view data)
{
    if (data.len > 0) {
        in->in_line = data.data[data.len - 1] != '\n';
    }
}

int input_expect(struct input *in, const struct msg_start *m, struct err *err)
{
    in->tty = (m->flags & OP_FLAG_TTY) != 0;
    in->open = in->tty || (m->flags & OP_FLAG_STDIN_OPEN) != 0;
    if (!in->open || !m->has_stdin) {
        return 0;
    }
    if (m->stdin_data.len > LIMIT_INPUT) {
        return err_set(err, ERR_TOO_BIG, "stdin that stays open begins with at most %u bytes",
                       LIMIT_INPUT);
    }
    note_line(in, m->stdin_data);
    return buf_add(&in->pending, m->stdin_data.data, m->stdin_data.len, err);
}

static void refuse_input(struct input *in)
{
    in->refused = true;
    buf_finish(&in->pending);
    if (!in->tty) {
        fd_close(&in->fd);
    }
}

/* Writes what there is room for. */
static void write_input(struct input *in)
{
    while (in->fd >= 0 && in->pending.len > 0) {
        ssize_t n = write(in->fd, in->pending.data, in->pending.len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno != EAGAIN) {
            refuse_input(in);
        }
        if (n <= 0) {
            return;
        }
        buf_consume(&in->pending, (size_t)n);
    }
    if (in->fd >= 0 && in->eof && !in->tty) {
        fd_close(&in->fd);
    }
    if (in->pending.len == 0) {
        buf_finish(&in->pending);
    }
}

static void set_size(struct input *in)
{
    const struct winsize size = {.ws_row = (unsigned short)in->rows,
                                 .ws_col = (unsigned short)in->cols};
    if (in->tty && in->fd >= 0) {
        (void)ioctl(in->fd, TIOCSWINSZ, &size); /* fails when nobody has the terminal any more */
    }
}

void input_begin(struct input *in, int fd)
{
    in->fd = fd;
    write_input(in);
}

/* How much of an INPUT has come already. */
static size_t known_bytes(const struct input *in, const struct msg_input *m)
{
    uint64_t known = in->next - m->at;
    return known < m->data.len ? (size_t)known : m->data.len;
}

static int check_input(const struct input *in, const struct msg_input *m, struct err *err)
{
    bool writes = m->data.len > 0 || m->eof;
    bool repeats = m->at + m->data.len <= in->next && (in->eof || !m->eof);
    if (!in->open) {
        return err_set(err, ERR_INVALID, "its stdin was not left open when it was started");
    }
    if ((m->rows > 0 || m->cols > 0) && !in->tty) {
        return err_set(err, ERR_INVALID, "it does not run in a terminal");
    }
    if (m->at > in->next) {
        return err_set(err, ERR_INVALID,
                       "stdin has had %" PRIu64 " bytes so far, and these begin at %" PRIu64,
                       in->next, m->at);
    }
    if (!writes || repeats) {
        return 0;
    }
    if (in->eof) {
        return err_set(err, ERR_INVALID, "its stdin has been ended");
    }
    if (in->refused) {
        return err_set(err, ERR_INVALID, "the program has closed its stdin");
    }
    if (m->data.len - known_bytes(in, m) > LIMIT_INPUT - in->pending.len) {
        return err_set(err, ERR_TOO_BIG,
                       "%zu bytes of earlier input wait for the program to read them, and at most "
                       "%u may",
                       in->pending.len, LIMIT_INPUT);
    }
    return 0;
}

/* Part of a repeated INPUT is known if its first copy came with fewer bytes: it never does, but a
 * client may repeat its own with more. */
int input_take(struct input *in, const struct msg_input *m, struct err *err)
{
    int rc = check_input(in, m, err);
    if (rc < 0) {
        return rc;
    }
    size_t known = known_bytes(in, m);
    struct view rest = view_bytes(m->data.data + known, m->data.len - known);
    bool ends = m->eof && !in->eof;
    if (rest.len > 0 || ends) {
        rc = buf_reserve(&in->pending, rest.len + sizeof(TTY_EOF), err);
        if (rc == 0) {
            rc = buf_add(&in->pending, rest.data, rest.len, err);
        }
        if (rc < 0) {
            return rc;
        }
        in->next += rest.len;
        note_line(in, rest);
    }
    if (ends && in->tty) {
        err_ignore(buf_add(&in->pending, TTY_EOF, in->in_line ? 2 : 1, NULL)); /* there is room */
    }
    in->eof = in->eof || m->eof;
    if (m->rows > 0 || m->cols > 0) {
        in->rows = m->rows > 0 ? m->rows : in->rows;
        in->cols = m->cols > 0 ? m->cols : in->cols;
        set_size(in);
    }
    write_input(in);
    if (in->refused && rest.len > 0) {
        in->next -= rest.len;
        in->eof = false;
        return err_set(err, ERR_INVALID, "the program has closed its stdin");
    }
    return 0;
}

void input_end(struct input *in)
{
    in->open = false;
    input_finish(in);
}

void input_poll(struct input *in, struct poll_set *set)
{
    in->slot = poll_set_add(set, in->pending.len > 0 ? in->fd : -1, POLLOUT);
}

void input_handle(struct input *in, const struct poll_set *set)
{
    if (poll_set_got(set, in->slot) != 0) {
        write_input(in);
    }
}
