/*
 * A plain array that is searched linearly: a thousand entries take some microseconds, once a
 * request. A stranger cannot choose a token so that its digest comes close to another, so
 * comparisons need not take constant time.
 */
#include "supervisor/web/auth/token_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/base/principal.h"

struct cached {
    unsigned char digest[WEB_DIGEST_BYTES];
    uint64_t until_ms; /* 0: free */
    uint64_t used;     /* number of the lookup that last found it */
    struct token_known known;
};

struct token_cache {
    size_t count;
    uint64_t questions;
    struct cached entries[];
};

struct token_cache *token_cache_create(size_t entries)
{
    size_t bytes = sizeof(struct token_cache) + entries * sizeof(struct cached);
    struct token_cache *c = alloc_array(bytes, 1);
    c->count = entries;
    return c;
}

static void clear(struct cached *p)
{
    principal_release(p->known.principal);
    *p = (struct cached){.until_ms = 0};
}

void token_cache_clear(struct token_cache *c)
{
    for (size_t i = 0; i < c->count; i++) {
        clear(&c->entries[i]);
    }
}

void token_cache_destroy(struct token_cache *c)
{
    if (c != NULL) {
        token_cache_clear(c);
        free(c);
    }
}

static struct cached *find_token(struct token_cache *c,
                                 const unsigned char digest[WEB_DIGEST_BYTES])
{
    for (size_t i = 0; i < c->count; i++) {
        struct cached *p = &c->entries[i];
        if (p->until_ms != 0 && memcmp(p->digest, digest, WEB_DIGEST_BYTES) == 0) {
            return p;
        }
    }
    return NULL;
}

/* A free entry counts as never used. */
static struct cached *least_used(struct token_cache *c)
{
    struct cached *least = &c->entries[0];
    for (size_t i = 1; i < c->count; i++) {
        least = c->entries[i].used < least->used ? &c->entries[i] : least;
    }
    return least;
}

const struct token_known *token_cache_find(struct token_cache *c,
                                           const unsigned char digest[WEB_DIGEST_BYTES],
                                           uint64_t now_ms)
{
    struct cached *p = find_token(c, digest);
    if (p == NULL) {
        return NULL;
    }
    if (now_ms >= p->until_ms) {
        clear(p);
        return NULL;
    }
    p->used = ++c->questions;
    return &p->known;
}

void token_cache_put(struct token_cache *c, const unsigned char digest[WEB_DIGEST_BYTES],
                     const struct token_known *known, uint64_t until_ms)
{
    struct cached *p = find_token(c, digest);
    if (p == NULL) {
        p = least_used(c);
    }
    struct principal *principal =
        known->principal != NULL ? principal_hold(known->principal) : NULL;
    clear(p);
    memcpy(p->digest, digest, WEB_DIGEST_BYTES);
    p->until_ms = until_ms;
    p->used = ++c->questions;
    p->known = *known;
    p->known.principal = principal;
}
