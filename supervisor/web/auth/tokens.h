/*
 * The file of tokens: who may come in with what, and how much each may have.
 *
 * Text. A line is empty, a comment (# at its beginning), or
 *
 *   NAME TOKEN [sandboxes=N] [memory_mb=N] [calls=N] [expires=DATE]
 *
 * NAME      letters, digits, - . _ ; at most 64. "local" and "stdio" are ours.
 * TOKEN     what the client shows, 16 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = at the
 *           end, or sha256: with the 64 hexadecimal digits of its SHA-256.
 * DATE      2027-01-31, the last day (UTC) on which it is good, or 2027-01-31T12:00:00Z.
 *
 * Several lines may have one name: then any of the tokens is good, and limits stand in one of the
 * lines, or are the same in all. A limit that is not there is that of the configuration.
 *
 * Only digests are kept. An error names the line and never a word of it: it might be a token that
 * stands in the wrong place.
 *
 * Thread: the loop thread.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_TOKENS_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/http/digest.h"

#define TOKENS_MAX            4096 /* lines with a token */
#define TOKENS_LINE_MAX_BYTES 1024
#define TOKENS_NAME_MAX       64
#define TOKENS_SHORTEST       16
#define TOKENS_LONGEST        256
#define TOKENS_PREFIX         "cloister_" /* of those that we make: no name begins with it */

struct tokens;

/* Reads the text of such a file. Tokens that have expired are left out. *ret_plain: there is a
 * token that is not a digest. */
int tokens_read(struct view text, const struct principal_limits *defaults, uint64_t now_wall_ms,
                struct tokens **ret, bool *ret_plain, struct err *err) WARN_UNUSED;

/* Reads the file; one with plain tokens must not be readable by everybody. Blocks for that long. */
int tokens_load(const char *path, const struct principal_limits *defaults, struct tokens **ret,
                struct err *err) WARN_UNUSED;

/* Lets go of all principals. NULL is fine. */
void tokens_destroy(struct tokens *t);

/* Whose token has this digest; NULL: nobody's, or it has expired. Borrowed. Takes the same time
 * whatever the digest. */
struct principal *tokens_find(const struct tokens *t, const unsigned char digest[WEB_DIGEST_BYTES],
                              uint64_t now_wall_ms);

/* Names that stay keep their principal, with the limits of `fresh`; for the others `revoked` is
 * called. Frees `old`. */
void tokens_replace(struct tokens *old, struct tokens *fresh,
                    void (*revoked)(void *arg, struct principal *p), void *arg);

size_t tokens_count(const struct tokens *t);

bool tokens_name_ok(const char *name);

/* What a client may show at all: RFC 6750's b64token, at most `max` characters. */
bool tokens_text_ok(struct view text, size_t max);

#endif
