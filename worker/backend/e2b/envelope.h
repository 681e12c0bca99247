/*
 * Envelopes of the Connect protocol: what a stream of messages is made of, in both directions.
 *
 *     flags (1 byte)  length (4 bytes, big endian)  message
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_ENVELOPE_H
#define CLOISTER_WORKER_BACKEND_E2B_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

#define ENVELOPE_HEAD_BYTES 5
#define ENVELOPE_MESSAGE_MAX                                                                       \
    (1u << 20) /* a daemon reads 32 KiB at a time, which is 44 as base64                           \
                */

/* Takes the first envelope off `data`. 1: *ret_message borrows from it, *ret_used is the bytes that
 * it took, and *ret_end whether it is the last one of the stream; 0: it is not complete yet;
 * -ERR_PROTOCOL for flags that nobody has asked for, -ERR_TOO_BIG. */
int envelope_next(struct view data, struct view *ret_message, size_t *ret_used, bool *ret_end,
                  struct err *err) WARN_UNUSED;

/* The head of a message that is neither compressed nor the last. */
void envelope_head(size_t len, uint8_t ret[ENVELOPE_HEAD_BYTES]);

#endif
