/*
 * The agent's end of a byte stream to a worker. Requests are decoded one at a time, in place. While
 * a worker does not read its replies, its requests are not read either. So the queue exceeds
 * LIMIT_AGENT_REPLIES by at most one message.
 */
#include "worker/agent/link/link.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "proto/codec.h"
#include "proto/limits.h"

#define READ_BYTES (64u << 10)
#define KEEP_BYTES (16u << 10) /* storage that an empty queue may keep */

#define IN_MAX  (LIMIT_FRAME + 4u + READ_BYTES)
#define OUT_MAX (LIMIT_AGENT_REPLIES + 2u * LIMIT_AGENT_FRAME)

void link_init(struct link *l)
{
    *l = (struct link){.fd = -1};
    buf_init(&l->in, IN_MAX);
    buf_init(&l->out, OUT_MAX);
}

void link_open(struct link *l, int fd)
{
    link_close(l);
    l->fd = fd;
    l->since_ms = clock_ms();
}

void link_close(struct link *l)
{
    if (l->fd >= 0) {
        close(l->fd);
    }
    buf_finish(&l->in);
    buf_finish(&l->out);
    link_init(l);
}

bool link_is_open(const struct link *l)
{
    return l->fd >= 0;
}

int link_read(struct link *l, struct err *err)
{
    /* start with a small buffer; a large message grows it as its bytes arrive */
    size_t want = l->in.len < KEEP_BYTES / 2 ? KEEP_BYTES - l->in.len : READ_BYTES;
    int rc = buf_reserve(&l->in, want, err);
    if (rc < 0) {
        return rc;
    }
    size_t room = (l->in.cap < l->in.max ? l->in.cap : l->in.max) - l->in.len;
    ssize_t n = recv(l->fd, l->in.data + l->in.len, room, MSG_DONTWAIT);
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR) {
            return 0;
        }
        return err_sys(err, ERR_GONE, errno, "read from the worker");
    }
    if (n == 0) {
        return err_set(err, ERR_GONE, "the worker closed its end");
    }
    l->in.len += (size_t)n;
    return 0;
}

int link_next(struct link *l, struct msg *ret, size_t *ret_used, struct err *err)
{
    struct view payload;
    size_t used = 0;
    int rc = frame_next(l->in.data, l->in.len, LIMIT_FRAME, &payload, &used, err);
    if (rc <= 0) {
        return rc;
    }
    rc = msg_decode(MSG_LINK_A, payload.data, payload.len, ret, err);
    if (rc < 0) {
        return rc;
    }
    *ret_used = used;
    return 1;
}

void link_next_done(struct link *l, struct msg *m, size_t used)
{
    msg_finish(m);
    if (!link_is_open(l)) {
        return;
    }
    buf_consume(&l->in, used);
    if (l->in.len == 0) {
        buf_reset(&l->in, KEEP_BYTES);
    }
}

int link_flush(struct link *l, struct err *err)
{
    size_t at = 0;
    while (at < l->out.len) {
        ssize_t n = send(l->fd, l->out.data + at, l->out.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EAGAIN) {
                break;
            }
            return err_sys(err, ERR_GONE, errno, "write to the worker");
        }
        at += (size_t)n;
    }
    buf_consume(&l->out, at);
    if (l->out.len == 0) {
        buf_reset(&l->out, KEEP_BYTES);
    }
    return 0;
}

int link_send(struct link *l, const struct msg *m, struct err *err)
{
    bool idle = l->out.len == 0;
    int rc = msg_encode_frame(&l->out, m, err);
    if (rc < 0) {
        return rc;
    }
    return idle ? link_flush(l, err) : 0;
}

bool link_has_room(const struct link *l)
{
    return l->out.len < LIMIT_AGENT_REPLIES;
}
