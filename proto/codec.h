/*
 * The only encoder and decoder of our messages, both driven by the field tables of msg.h.
 *
 * On the wire a message is one msgpack array: [type, seq, field, field, ...], fields in the order
 * of messages.def. Reading is strict: unknown type, wrong link, missing, extra or ill-typed field,
 * value over its maximum, invalid UTF-8 in a STR, trailing bytes, or any of these in a message
 * within a MSGS: all -ERR_PROTOCOL, and the peer has lost its link. Memory is never reserved on a
 * peer's word; only what has arrived counts.
 *
 * On byte streams (agent link) a message is framed by its length: 4 bytes, big endian.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_PROTO_CODEC_H
#define CLOISTER_PROTO_CODEC_H

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"

/* Appends the encoded message. -ERR_TOO_BIG if a field is over its maximum or *out is full;
 * -ERR_PROTOCOL if a STR is not UTF-8 or has a NUL, or an item of a MSGS is no such message. *out
 * is unchanged on error. */
int msg_encode(struct buf *out, const struct msg *m, struct err *err) WARN_UNUSED;

/* How many bytes msg_encode() reserves in *out: at least those of the message. */
size_t msg_encode_bound(const struct msg *m);

/* As msg_encode, behind a 4-byte length. */
int msg_encode_frame(struct buf *out, const struct msg *m, struct err *err) WARN_UNUSED;

/* As msg_encode_frame, but the bytes of one BIN field of *m are left out, for who writes them from
 * where they are: between *ret_at bytes of *out and the rest. The length counts them. */
int msg_encode_frame_around(struct buf *out, const struct msg *m, const struct view *left_out,
                            size_t *ret_at, struct err *err) WARN_UNUSED;

/* Decodes exactly len bytes that came over `link`. On success the caller owns *ret and calls
 * msg_finish(); on error *ret is empty. -ERR_NO_MEMORY is nobody's fault. */
int msg_decode(enum msg_link link, const void *data, size_t len, struct msg *ret,
               struct err *err) WARN_UNUSED;

/* Looks for a complete frame at the start of data. Returns 1 and the payload (borrowed) with the
 * bytes used in *ret_used; 0 if more bytes are needed; -ERR_PROTOCOL if the length is over max. */
int frame_next(const void *data, size_t len, size_t max, struct view *ret_payload, size_t *ret_used,
               struct err *err) WARN_UNUSED;

/* Frees what decoding allocated. Fine on an empty or already finished message. */
void msg_finish(struct msg *m);

#endif
