/*
 * Pieces are passed on as they arrive and never collected, because a piece may be up to 4 GiB long;
 * the reader's buffer decides how much comes at a time. Only the head may be assembled from several
 * reads.
 */
#include "worker/backend/docker/frames.h"

#include <string.h>

static void drop_bytes(struct view *data, size_t n)
{
    data->data += n;
    data->len -= n;
}

static int read_head(struct docker_frames *f, struct err *err)
{
    const uint8_t *h = f->head;
    if (h[0] > DOCKER_SYSTEM_ERROR || h[1] != 0 || h[2] != 0 || h[3] != 0) {
        return err_set(err, ERR_PROTOCOL, "the engine's stream is not framed as it should be");
    }
    f->remaining = (uint64_t)h[4] << 24 | (uint64_t)h[5] << 16 | (uint64_t)h[6] << 8 | h[7];
    return 0;
}

int docker_frames_next(struct docker_frames *f, struct view *data,
                       enum docker_stream_type *ret_type, struct view *ret_piece, struct err *err)
{
    while (data->len > 0) {
        if (f->head_len < sizeof(f->head)) {
            size_t missing = sizeof(f->head) - f->head_len;
            size_t n = data->len < missing ? data->len : missing;
            memcpy(f->head + f->head_len, data->data, n);
            f->head_len += n;
            drop_bytes(data, n);
            if (f->head_len < sizeof(f->head)) {
                return 0;
            }
            int rc = read_head(f, err);
            if (rc < 0) {
                return rc;
            }
        }
        size_t n = data->len < f->remaining ? data->len : (size_t)f->remaining;
        f->remaining -= n;
        if (f->remaining == 0) {
            f->head_len = 0;
        }
        if (n > 0) {
            *ret_type = (enum docker_stream_type)f->head[0];
            *ret_piece = view_bytes(data->data, n);
            drop_bytes(data, n);
            return 1;
        }
    }
    return 0;
}
