/*
 * The length is looked at before anything is waited for, so a peer cannot make us keep more than
 * one message of the size that we allow. Compression is offered in no request: a message that
 * claims it is malformed.
 */
#include "worker/backend/e2b/envelope.h"

enum { FLAG_END = 2 };

int envelope_next(struct view data, struct view *ret_message, size_t *ret_used, bool *ret_end,
                  struct err *err)
{
    if (data.len < ENVELOPE_HEAD_BYTES) {
        return 0;
    }
    const uint8_t *head = (const uint8_t *)data.data;
    size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if (head[0] != 0 && head[0] != FLAG_END) {
        return err_set(err, ERR_PROTOCOL, "a message with the flags %u, which were not asked for",
                       (unsigned)head[0]);
    }
    if (len > ENVELOPE_MESSAGE_MAX) {
        return err_set(err, ERR_TOO_BIG, "a message of %zu bytes; at most %u are taken", len,
                       ENVELOPE_MESSAGE_MAX);
    }
    if (data.len - ENVELOPE_HEAD_BYTES < len) {
        return 0;
    }
    *ret_message = view_bytes(data.data + ENVELOPE_HEAD_BYTES, len);
    *ret_used = ENVELOPE_HEAD_BYTES + len;
    *ret_end = head[0] == FLAG_END;
    return 1;
}

void envelope_head(size_t len, uint8_t ret[ENVELOPE_HEAD_BYTES])
{
    ret[0] = 0;
    ret[1] = (uint8_t)(len >> 24);
    ret[2] = (uint8_t)(len >> 16);
    ret[3] = (uint8_t)(len >> 8);
    ret[4] = (uint8_t)len;
}
