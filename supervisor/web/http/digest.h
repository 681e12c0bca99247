/*
 * SHA-256 for tokens, so that comparisons never touch the secret itself; also SHA-256 of data that
 * arrives in pieces, and HMAC.
 *
 * Thread: the loop thread; a web_hash is used by one thread at a time, whichever. The first call
 * loads GnuTLS, which blocks for a few milliseconds.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_DIGEST_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"

#define WEB_DIGEST_BYTES 32

/* -ERR_CONFIG if GnuTLS cannot be loaded (the text says what to install). */
int web_digest_sha256(struct view data, unsigned char out[WEB_DIGEST_BYTES],
                      struct err *err) WARN_UNUSED;

/* SHA-1, which proves nothing any more. For the handshake of WebSocket, where it need not. */
#define WEB_SHA1_BYTES 20
int web_digest_sha1(struct view data, unsigned char out[WEB_SHA1_BYTES],
                    struct err *err) WARN_UNUSED;

/* HMAC with SHA-256. */
int web_digest_hmac(struct view key, struct view data, unsigned char out[WEB_DIGEST_BYTES],
                    struct err *err) WARN_UNUSED;

/* SHA-256 of data in pieces. web_hash_end() frees it; with `out` NULL the result is dropped. */
struct web_hash;
int web_hash_begin(struct web_hash **ret, struct err *err) WARN_UNUSED;
int web_hash_add(struct web_hash *h, struct view data, struct err *err) WARN_UNUSED;
void web_hash_end(struct web_hash *h, unsigned char out[WEB_DIGEST_BYTES]);

/* Writes lower-case digits. */
#define WEB_DIGEST_HEX_SIZE (2 * WEB_DIGEST_BYTES + 1)
void web_digest_hex(const unsigned char digest[WEB_DIGEST_BYTES], char out[WEB_DIGEST_HEX_SIZE]);

/* Takes the same time wherever the digests differ. */
bool web_digest_equal(const unsigned char a[WEB_DIGEST_BYTES],
                      const unsigned char b[WEB_DIGEST_BYTES]);

#endif
