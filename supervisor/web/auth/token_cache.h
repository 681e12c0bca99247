/*
 * What is known of tokens for a while, by their digests. Bounded: who was not asked for longest
 * makes room.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_TOKEN_CACHE_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_TOKEN_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "supervisor/web/http/digest.h"

struct principal;
struct token_cache;

struct token_cache *token_cache_create(size_t places);
void token_cache_destroy(struct token_cache *c); /* NULL is fine */

struct token_known {
    int verdict;                 /* the user's */
    const char *why;             /* a literal */
    struct principal *principal; /* held by the cache; NULL is fine */
};

/* NULL: nothing is known (any more). Borrowed until the next change. */
const struct token_known *token_cache_find(struct token_cache *c,
                                           const unsigned char digest[WEB_DIGEST_BYTES],
                                           uint64_t now_ms);

/* Replaces what was known of it. */
void token_cache_put(struct token_cache *c, const unsigned char digest[WEB_DIGEST_BYTES],
                     const struct token_known *known, uint64_t until_ms);

void token_cache_clear(struct token_cache *c);

#endif
