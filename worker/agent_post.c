/*
 * What the socket does not take at once libuv holds. An honest agent reads: of a door it has asked
 * for at most its windows, and the limit is twice that. So whoever reaches it does not read.
 */
#include "worker/agent_post.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "proto/codec.h"

struct posted {
    uv_write_t write;
    size_t *bytes;
    struct buf frame;
};

static void on_posted(uv_write_t *write, int status)
{
    struct posted *p = write->data;
    *p->bytes -= p->frame.len;
    buf_finish(&p->frame);
    free(p);
}

static int hand_over(size_t *bytes, uv_stream_t *stream, struct buf *frame)
{
    if (*bytes + frame->len > LIMIT_DOOR_QUEUE) {
        return -ERR_BUSY;
    }
    struct posted *p = alloc_one(struct posted);
    p->bytes = bytes;
    p->frame = *frame;
    p->write.data = p;
    buf_init(frame, frame->max);
    uv_buf_t out = uv_buf_init((char *)p->frame.data, (unsigned)p->frame.len);
    if (uv_write(&p->write, stream, &out, 1, on_posted) < 0) {
        buf_finish(&p->frame);
        free(p);
        return -ERR_NO_MEMORY;
    }
    *bytes += p->frame.len;
    return 0;
}

int agent_post(size_t *bytes, uv_stream_t *stream, const struct msg *event)
{
    CLEANUP_BUF struct buf frame;
    buf_init(&frame, LIMIT_AGENT_FRAME);
    int rc = msg_encode_frame(&frame, event, NULL);
    if (rc < 0) {
        return rc;
    }
    uv_buf_t out = uv_buf_init((char *)frame.data, (unsigned)frame.len);
    int sent = uv_try_write(stream, &out, 1);
    if (sent > 0) { /* else it is full, or broken, which reading reports */
        buf_consume(&frame, (size_t)sent);
    }
    return frame.len == 0 ? 0 : hand_over(bytes, stream, &frame);
}
