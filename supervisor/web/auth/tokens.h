/*
 * The token file: which tokens are good for which principals, and each principal's limits.
 *
 * Text. A line is empty, a comment (# at its beginning), or
 *
 *   NAME TOKEN [sandboxes=N] [memory_mb=N] [calls=N] [metrics=yes|only] [admin=yes] [expires=DATE]
 *
 * Several lines may have one NAME: then each of the tokens is good. Limits, who may read /metrics
 * and who may use the control API stand in one of the lines, or are the same in all. A missing
 * limit is that of the configuration.
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
#define TOKENS_PREFIX         "cloister_" /* of our own tokens; no name begins with it */

struct tokens;

/* Parses the text of a token file. Expired tokens are left out. *ret_plain: some token is in plain
 * text rather than a digest. */
int tokens_read(struct view text, const struct principal_limits *defaults, uint64_t now_wall_ms,
                struct tokens **ret, bool *ret_plain, struct err *err) WARN_UNUSED;

/* Reads the file. A file with plain tokens must not be readable by everybody. Blocks while it
 * reads. */
int tokens_load(const char *path, const struct principal_limits *defaults, struct tokens **ret,
                struct err *err) WARN_UNUSED;

/* Releases all principals. NULL is fine. */
void tokens_destroy(struct tokens *t);

/* Returns the principal of the token with this digest; NULL if there is none, or it has expired.
 * Borrowed. Takes the same time for every digest. */
struct principal *tokens_find(const struct tokens *t, const unsigned char digest[WEB_DIGEST_BYTES],
                              uint64_t now_wall_ms);

/* Names that stay keep their principal, with the limits of `fresh`; `revoked` is called for the
 * others. Frees `old`. */
void tokens_replace(struct tokens *old, struct tokens *fresh,
                    void (*revoked)(void *arg, struct principal *p), void *arg);

size_t tokens_count(const struct tokens *t);
/* How many names that may use tools they stand for. */
size_t tokens_names(const struct tokens *t);

/* Whether the text is a valid NAME of the file, and not reserved. */
bool tokens_name_ok(const char *name);

/* Whether the text can be a token: RFC 6750's b64token, at most `max` characters. */
bool tokens_text_ok(struct view text, size_t max);

#endif
