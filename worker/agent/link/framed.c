/*
 * The messages are kept encoded, because they are only sent and never read here, and in one
 * allocation, because an operation may have hundreds and the agent keeps many operations.
 */
#include "worker/agent/link/framed.h"

#include "proto/codec.h"

#define HEAD_BYTES 4

void framed_init(struct framed *f, size_t max_bytes)
{
    buf_init(&f->bytes, max_bytes);
    f->count = 0;
}

void framed_finish(struct framed *f)
{
    buf_finish(&f->bytes);
    f->count = 0;
}

int framed_add(struct framed *f, const struct msg *m, struct err *err)
{
    int rc = msg_encode_frame(&f->bytes, m, err);
    f->count += rc == 0;
    return rc;
}

int framed_add_item(struct framed *f, struct view item, struct err *err)
{
    const uint8_t head[HEAD_BYTES] = {(uint8_t)(item.len >> 24), (uint8_t)(item.len >> 16),
                                      (uint8_t)(item.len >> 8), (uint8_t)item.len};
    int rc = buf_reserve(&f->bytes, sizeof(head) + item.len, err); /* all of it or nothing */
    if (rc == 0) {
        rc = buf_add(&f->bytes, head, sizeof(head), err);
    }
    if (rc == 0) {
        rc = buf_add(&f->bytes, item.data, item.len, err);
    }
    f->count += rc == 0;
    return rc;
}

struct view_list framed_list(const struct framed *f, struct view *ret_items, size_t max)
{
    size_t count = 0;
    size_t at = 0;
    while (at < f->bytes.len && count < max) {
        size_t used = 0;
        if (frame_next(f->bytes.data + at, f->bytes.len - at, f->bytes.len, &ret_items[count],
                       &used, NULL) <= 0) {
            break;
        }
        at += used;
        count++;
    }
    return (struct view_list){count > 0 ? ret_items : NULL, count};
}
