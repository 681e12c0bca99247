/*
 * Decoding refuses everything that encoding would not write, so that content either arrives as it
 * was sent or is refused.
 */
#include "common/base64.h"

#include <stdbool.h>
#include <stdint.h>

static const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(struct buf *out, struct view data, struct err *err)
{
    int rc = buf_reserve(out, (data.len + 2) / 3 * 4, err);
    if (rc < 0 || data.len == 0) {
        return rc; /* out->data may be NULL then */
    }
    const uint8_t *in = (const uint8_t *)data.data;
    uint8_t *p = out->data + out->len;
    for (size_t i = 0; i < data.len; i += 3) {
        size_t n = data.len - i < 3 ? data.len - i : 3;
        uint32_t v = (uint32_t)in[i] << 16;
        v |= n > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        v |= n > 2 ? in[i + 2] : 0;
        *p++ = (uint8_t)alphabet[v >> 18];
        *p++ = (uint8_t)alphabet[v >> 12 & 63];
        *p++ = n > 1 ? (uint8_t)alphabet[v >> 6 & 63] : '=';
        *p++ = n > 2 ? (uint8_t)alphabet[v & 63] : '=';
        out->len += 4;
    }
    return 0;
}

/* 0..63, or -1. */
static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct buf *out, struct view text, struct err *err)
{
    if (text.len % 4 != 0) {
        return err_set(err, ERR_INVALID,
                       "base64 of %zu characters: expected a multiple of 4, padded with '='",
                       text.len);
    }
    int rc = buf_reserve(out, text.len / 4 * 3, err);
    if (rc < 0) {
        return rc;
    }
    size_t start = out->len;
    for (size_t i = 0; i < text.len; i += 4) {
        bool last = i + 4 == text.len;
        size_t n = 4;
        if (last && text.data[i + 3] == '=') {
            n = text.data[i + 2] == '=' ? 2 : 3;
        }
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = k < n ? digit_value(text.data[i + k]) : 0;
            if (d < 0) {
                out->len = start;
                return err_set(err, ERR_INVALID, "not base64 at character %zu", i + k);
            }
            v = v << 6 | (uint32_t)d;
        }
        if ((n == 2 && (v & 0xffff) != 0) || (n == 3 && (v & 0xff) != 0)) {
            out->len = start;
            return err_set(err, ERR_INVALID, "base64 ends in bits that belong to no byte");
        }
        uint8_t *p = out->data + out->len;
        p[0] = (uint8_t)(v >> 16);
        if (n > 2) {
            p[1] = (uint8_t)(v >> 8);
        }
        if (n > 3) {
            p[2] = (uint8_t)v;
        }
        out->len += n - 1;
    }
    return 0;
}
