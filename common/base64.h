/*
 * Base64 of RFC 4648 section 4: standard alphabet, padded, no line breaks.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_BASE64_H
#define CLOISTER_COMMON_BASE64_H

#include "common/buf.h"
#include "common/err.h"
#include "common/view.h"

int base64_encode(struct buf *out, struct view data, struct err *err) WARN_UNUSED;

/* Strict: other characters, missing padding and extra bits after the last byte are -ERR_INVALID
 * with the position of the first fault. */
int base64_decode(struct buf *out, struct view text, struct err *err) WARN_UNUSED;

#endif
