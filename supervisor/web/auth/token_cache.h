/*
 * Cached verdicts about tokens, by digest. Bounded: the entry that was not looked up for longest is
 * evicted.
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

struct token_cache *token_cache_create(size_t entries);
void token_cache_destroy(struct token_cache *c); /* NULL is fine */

struct token_known {
    int verdict;                 /* defined by the caller */
    const char *why;             /* a string literal */
    struct principal *principal; /* the cache holds a reference; may be NULL */
};

/* NULL: nothing is cached, or it has expired. Borrowed until the next change. */
const struct token_known *token_cache_find(struct token_cache *c,
                                           const unsigned char digest[WEB_DIGEST_BYTES],
                                           uint64_t now_ms);

/* Replaces the cached verdict of this token. */
void token_cache_put(struct token_cache *c, const unsigned char digest[WEB_DIGEST_BYTES],
                     const struct token_known *known, uint64_t until_ms);

void token_cache_clear(struct token_cache *c);

#endif
