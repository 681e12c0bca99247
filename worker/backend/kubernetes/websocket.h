/*
 * The client's side of RFC 6455, as far as an exec of Kubernetes needs it: the key of a handshake
 * and its answer, frames to send, and frames that come.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_KUBERNETES_WEBSOCKET_H
#define CLOISTER_WORKER_BACKEND_KUBERNETES_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

#define WEBSOCKET_KEY_SIZE    25  /* base64 of 16 bytes, and a NUL */
#define WEBSOCKET_ACCEPT_SIZE 29  /* base64 of a SHA-1, and a NUL */
#define WEBSOCKET_HEAD_MAX    14  /* bytes before the payload of a frame */
#define WEBSOCKET_CONTROL_MAX 125 /* bytes in a ping, pong or close */
#define WEBSOCKET_FRAME_MAX   (32u << 20)

enum websocket_opcode {
    WEBSOCKET_CONTINUATION = 0,
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10,
};

/* A random key for Sec-WebSocket-Key, and what a server answers to it in Sec-WebSocket-Accept. */
int websocket_key(char ret[WEBSOCKET_KEY_SIZE], struct err *err) WARN_UNUSED;
void websocket_accept(const char *key, char ret[WEBSOCKET_ACCEPT_SIZE]);

/* Writes the head of one whole, masked frame; returns its bytes. The payload is to be passed to
 * websocket_mask() with the same mask. */
size_t websocket_head(enum websocket_opcode opcode, size_t payload_len, const uint8_t mask[4],
                      uint8_t ret[WEBSOCKET_HEAD_MAX]);
void websocket_mask(const uint8_t mask[4], uint8_t *payload, size_t len);

struct websocket_reader {
    uint8_t head[WEBSOCKET_HEAD_MAX];
    size_t head_len;
    bool in_payload;
    uint64_t remaining; /* bytes of the frame's payload that have not come yet */
    uint8_t opcode;     /* of the frame */
    bool is_final;
    bool in_message; /* between the first and the last frame of a message */
    bool at_start;   /* nothing of this message was given out yet */
    uint8_t control[WEBSOCKET_CONTROL_MAX];
    size_t control_len;
};

#define WEBSOCKET_READER_INIT                                                                      \
    {                                                                                              \
        {0}, 0, false, 0, 0, false, false, false, {0}, 0                                           \
    }

/* What has come: a part of a message's data, whatever frames it was cut into, or one control frame
 * as a whole. */
struct websocket_piece {
    enum websocket_opcode opcode; /* BINARY for data; CLOSE, PING, PONG */
    struct view data;             /* borrowed from the input, or from the reader for control */
    bool begins, ends;            /* of data: of its message */
};

/* Takes the next bytes off *input. Returns 1 and a piece; 0 if the input is used up;
 * -ERR_PROTOCOL if it is not what a server may send, -ERR_TOO_BIG over WEBSOCKET_FRAME_MAX. */
int websocket_next(struct websocket_reader *r, struct view *input, struct websocket_piece *ret,
                   struct err *err) WARN_UNUSED;

#endif
