/*
 * libcurl of the distributions that are in use speaks no WebSocket, and a library of its own would
 * bring a second stack for HTTP and TLS. What a client needs is small: it sends whole masked frames
 * and reads frames without a mask. Data is given out as it comes, so no message is kept and none
 * needs a bound but the frame's; a control frame is at most 125 bytes and is kept until it is
 * whole.
 *
 * SHA-1 is here for the answer to the handshake alone, where it only shows that the other side read
 * the request as a WebSocket's. No secret depends on it.
 */
#include "worker/backend/kubernetes/websocket.h"

#include <string.h>

#include "common/base64.h"
#include "common/buf.h"
#include "common/str.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

/* ---- the handshake -------------------------------------------------------------------------- */

static uint32_t roll(uint32_t v, unsigned bits)
{
    return v << bits | v >> (32 - bits);
}

static void sha1_block(uint32_t h[5], const uint8_t block[64])
{
    uint32_t w[80];
    for (size_t i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (size_t i = 16; i < 80; i++) {
        w[i] = roll(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (size_t i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? (b & c) | (~b & d)
                     : i < 40 ? b ^ c ^ d
                     : i < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        static const uint32_t k[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
        uint32_t next = roll(a, 5) + f + e + k[i / 20] + w[i];
        e = d;
        d = c;
        c = roll(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

/* Of a key and the GUID, which fill one block and a part of the second at most. */
static void sha1_short(const char *text, size_t len, uint8_t ret[20])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[128] = {0};
    size_t count = len + 9 <= 64 ? 1 : 2;
    memcpy(blocks, text, len);
    blocks[len] = 0x80;
    blocks[count * 64 - 2] = (uint8_t)(len * 8 >> 8);
    blocks[count * 64 - 1] = (uint8_t)(len * 8);
    for (size_t i = 0; i < count; i++) {
        sha1_block(h, blocks + 64 * i);
    }
    for (size_t i = 0; i < 20; i++) {
        ret[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
    }
}

/* The encoded form has exactly size - 1 characters, which the callers see to. */
static void encode_exactly(const uint8_t *data, size_t len, char *ret, size_t size)
{
    struct buf text;
    buf_init(&text, size);
    ret[0] = '\0';
    if (base64_encode(&text, view_bytes(data, len), NULL) == 0 && text.len == size - 1) {
        memcpy(ret, text.data, size - 1);
        ret[size - 1] = '\0';
    }
    buf_finish(&text);
}

int websocket_key(char ret[WEBSOCKET_KEY_SIZE], struct err *err)
{
    uint8_t bytes[16];
    int rc = random_bytes(bytes, sizeof(bytes), err);
    if (rc == 0) {
        encode_exactly(bytes, sizeof(bytes), ret, WEBSOCKET_KEY_SIZE);
    }
    return rc;
}

void websocket_accept(const char *key, char ret[WEBSOCKET_ACCEPT_SIZE])
{
    char text[WEBSOCKET_KEY_SIZE + sizeof(GUID)];
    uint8_t digest[20];
    size_t len = strnlen(key, WEBSOCKET_KEY_SIZE - 1);
    memcpy(text, key, len);
    memcpy(text + len, GUID, sizeof(GUID));
    sha1_short(text, len + sizeof(GUID) - 1, digest);
    encode_exactly(digest, sizeof(digest), ret, WEBSOCKET_ACCEPT_SIZE);
}

/* ---- to the server -------------------------------------------------------------------------- */

size_t websocket_head(enum websocket_opcode opcode, size_t payload_len, const uint8_t mask[4],
                      uint8_t ret[WEBSOCKET_HEAD_MAX])
{
    size_t at = 2;
    ret[0] = (uint8_t)(0x80 | opcode);
    if (payload_len < 126) {
        ret[1] = (uint8_t)(0x80 | payload_len);
    } else {
        size_t bytes = payload_len <= UINT16_MAX ? 2 : 8;
        ret[1] = 0x80 | (bytes == 2 ? 126 : 127);
        for (size_t i = 0; i < bytes; i++) {
            ret[at++] = (uint8_t)((uint64_t)payload_len >> 8 * (bytes - 1 - i));
        }
    }
    memcpy(ret + at, mask, 4);
    return at + 4;
}

void websocket_mask(const uint8_t mask[4], uint8_t *payload, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        payload[i] ^= mask[i % 4];
    }
}

/* ---- from the server ------------------------------------------------------------------------ */

static size_t head_size(const struct websocket_reader *r)
{
    size_t code = r->head_len >= 2 ? r->head[1] & 0x7f : 0;
    return code == 126 ? 4 : code == 127 ? 10 : 2;
}

static bool is_control(uint8_t opcode)
{
    return opcode >= 8;
}

static int check_head(struct websocket_reader *r, struct err *err)
{
    uint8_t opcode = r->head[0] & 0x0f;
    bool final = (r->head[0] & 0x80) != 0;
    uint64_t len = r->head[1] & 0x7f;
    size_t size = head_size(r);
    if (size > 2) {
        len = 0;
        for (size_t i = 2; i < size; i++) {
            len = len << 8 | r->head[i];
        }
    }
    if ((r->head[0] & 0x70) != 0 || (r->head[1] & 0x80) != 0) {
        return err_set(err, ERR_PROTOCOL, "a WebSocket frame with a mask or unknown bits");
    }
    if (is_control(opcode)) {
        if (opcode > WEBSOCKET_PONG || !final || len > WEBSOCKET_CONTROL_MAX) {
            return err_set(err, ERR_PROTOCOL, "a bad control frame of a WebSocket");
        }
        r->control_len = 0;
    } else if (opcode > WEBSOCKET_BINARY || (opcode == WEBSOCKET_CONTINUATION) != r->in_message) {
        return err_set(err, ERR_PROTOCOL, "a WebSocket frame that does not follow the one before");
    } else if (len > WEBSOCKET_FRAME_MAX) {
        return err_set(err, ERR_TOO_BIG, "a WebSocket frame of more than %u bytes",
                       WEBSOCKET_FRAME_MAX);
    } else if (opcode != WEBSOCKET_CONTINUATION) {
        r->in_message = true;
        r->at_start = true;
    }
    r->opcode = opcode;
    r->is_final = final;
    r->remaining = len;
    r->in_payload = true;
    return 0;
}

static struct view kube_take(struct websocket_reader *r, struct view *input)
{
    size_t len = input->len < r->remaining ? input->len : (size_t)r->remaining;
    struct view got = {input->data, len};
    if (len == 0) {
        return got;
    }
    input->data += len;
    input->len -= len;
    r->remaining -= len;
    return got;
}

static void end_frame(struct websocket_reader *r)
{
    r->in_payload = false;
    r->head_len = 0;
}

/* Returns 1 with a piece, 0 if more is needed first. */
static int read_payload(struct websocket_reader *r, struct view *input, struct websocket_piece *ret)
{
    struct view got = kube_take(r, input);
    bool whole = r->remaining == 0;
    if (is_control(r->opcode)) {
        if (got.len > 0) {
            memcpy(r->control + r->control_len, got.data, got.len);
            r->control_len += got.len;
        }
        if (whole) {
            *ret = (struct websocket_piece){.opcode = (enum websocket_opcode)r->opcode,
                                            .data = view_bytes(r->control, r->control_len)};
            end_frame(r);
        }
        return whole;
    }
    bool ends = whole && r->is_final;
    if (got.len == 0 && !ends) {
        if (whole) {
            end_frame(r);
        }
        return 0;
    }
    *ret = (struct websocket_piece){
        .opcode = WEBSOCKET_BINARY, .data = got, .begins = r->at_start, .ends = ends};
    r->at_start = false;
    if (whole) {
        r->in_message = !ends;
        end_frame(r);
    }
    return 1;
}

int websocket_next(struct websocket_reader *r, struct view *input, struct websocket_piece *ret,
                   struct err *err)
{
    for (;;) {
        if (r->in_payload) {
            int got = read_payload(r, input, ret);
            if (got > 0 || r->in_payload) {
                return got;
            }
            continue;
        }
        if (input->len == 0) {
            return 0;
        }
        r->head[r->head_len++] = (uint8_t)input->data[0];
        input->data++;
        input->len--;
        if (r->head_len >= 2 && r->head_len == head_size(r)) {
            int rc = check_head(r, err);
            if (rc < 0) {
                return rc;
            }
        }
    }
}
