/*
 * Chunks are read strictly, one byte at a time where they are not data: sizes have at most 15
 * hexadecimal digits, lines end with CR LF, and what is around the data is bounded. Extensions and
 * trailers are dropped: nobody asked for any. Extensions of all chunks together may be little
 * longer than the data, since only data ever makes the reader wait.
 */
#include "supervisor/web/ports/body.h"

#include "common/str.h"

#define DIGITS_MAX 15
#define AROUND_MAX 8192 /* bytes of the trailer, or of extensions beyond those of the data */

void port_body_init(struct port_body *b, bool has_body, const struct http_framing *framing)
{
    *b = (struct port_body){.at = PORT_BODY_OPEN, .spare = AROUND_MAX};
    if (!has_body || (framing->has_length && framing->length == 0)) {
        b->at = PORT_BODY_WHOLE;
    } else if (framing->chunked) {
        b->at = PORT_BODY_SIZE;
        b->chunked = true;
    } else if (framing->has_length) {
        b->at = PORT_BODY_DATA;
        b->left = framing->length;
    }
}

static bool follows(struct port_body *b, char c, char wanted, enum port_body_at next)
{
    b->at = next;
    b->seen = 0;
    return c == wanted;
}

static bool take_size(struct port_body *b, char c)
{
    int digit = str_hex_value(c);
    if (digit >= 0) {
        b->left = b->left * 16 + (uint64_t)digit;
        return ++b->seen <= DIGITS_MAX;
    }
    if (b->seen == 0) {
        return false;
    }
    b->seen = 0;
    b->at = c == '\r' ? PORT_BODY_SIZE_END : PORT_BODY_EXTENSION;
    return c == '\r' || c == ';' || c == ' ' || c == '\t';
}

static bool take_extension(struct port_body *b, char c)
{
    if (c == '\r') {
        return follows(b, c, '\r', PORT_BODY_SIZE_END);
    }
    return c != '\n' && c != '\0' && b->spare > 0 && b->spare-- > 0;
}

static bool take_trailer(struct port_body *b, char c)
{
    if (b->at == PORT_BODY_TRAILER && c == '\r') {
        b->at = PORT_BODY_TRAILER_END;
        return true;
    }
    if (c == '\n' ? !b->ends_line : b->ends_line) {
        return false; /* a CR without LF, or the other way round */
    }
    b->ends_line = c == '\r';
    b->at = c == '\n' ? PORT_BODY_TRAILER : PORT_BODY_TRAILER_TEXT;
    return c != '\0' && ++b->seen <= AROUND_MAX;
}

/* A byte that is no data. */
static bool take_around(struct port_body *b, char c)
{
    switch (b->at) {
    case PORT_BODY_SIZE:
        return take_size(b, c);
    case PORT_BODY_EXTENSION:
        return take_extension(b, c);
    case PORT_BODY_SIZE_END:
        return follows(b, c, '\n', b->left > 0 ? PORT_BODY_DATA : PORT_BODY_TRAILER);
    case PORT_BODY_DATA_END:
        return follows(b, c, '\r', PORT_BODY_DATA_END2);
    case PORT_BODY_DATA_END2:
        return follows(b, c, '\n', PORT_BODY_SIZE);
    case PORT_BODY_TRAILER:
    case PORT_BODY_TRAILER_TEXT:
        return take_trailer(b, c);
    case PORT_BODY_TRAILER_END:
        return follows(b, c, '\n', PORT_BODY_WHOLE);
    default:
        return false;
    }
}

int port_body_take(struct port_body *b, struct view *data, struct view *ret, struct err *err)
{
    *ret = view_bytes(NULL, 0);
    while (data->len > 0 && b->at != PORT_BODY_WHOLE) {
        if (b->at == PORT_BODY_OPEN) {
            *ret = *data;
            data->len = 0;
            return 0;
        }
        if (b->at == PORT_BODY_DATA) {
            size_t n = b->left < data->len ? (size_t)b->left : data->len;
            *ret = view_bytes(data->data, n);
            *data = view_bytes(data->data + n, data->len - n);
            b->left -= n;
            b->spare += n;
            if (b->left == 0) {
                b->at = b->chunked ? PORT_BODY_DATA_END : PORT_BODY_WHOLE;
            }
            return 0;
        }
        if (!take_around(b, data->data[0])) {
            return err_set(err, ERR_PROTOCOL, "a chunk of its answer is malformed");
        }
        *data = view_bytes(data->data + 1, data->len - 1);
    }
    return 0;
}
