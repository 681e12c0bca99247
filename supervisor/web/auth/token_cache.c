/*
 * A plain array that is looked through: with a thousand places that takes some microseconds, once a
 * request. Digests of what strangers send cannot be chosen to fit, so comparing them needs no care
 * about time.
 */
#include "supervisor/web/auth/token_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/base/principal.h"

struct place {
    unsigned char digest[WEB_DIGEST_BYTES];
    uint64_t until_ms; /* 0: free */
    uint64_t used;     /* when it was last asked for, in questions */
    struct token_known known;
};

struct token_cache {
    size_t count;
    uint64_t questions;
    struct place places[];
};

struct token_cache *token_cache_create(size_t places)
{
    size_t bytes = sizeof(struct token_cache) + places * sizeof(struct place);
    struct token_cache *c = alloc_array(bytes, 1);
    c->count = places;
    return c;
}

static void clear(struct place *p)
{
    principal_release(p->known.principal);
    *p = (struct place){.until_ms = 0};
}

void token_cache_clear(struct token_cache *c)
{
    for (size_t i = 0; i < c->count; i++) {
        clear(&c->places[i]);
    }
}

void token_cache_destroy(struct token_cache *c)
{
    if (c != NULL) {
        token_cache_clear(c);
        free(c);
    }
}

static struct place *find_token(struct token_cache *c, const unsigned char digest[WEB_DIGEST_BYTES])
{
    for (size_t i = 0; i < c->count; i++) {
        struct place *p = &c->places[i];
        if (p->until_ms != 0 && memcmp(p->digest, digest, WEB_DIGEST_BYTES) == 0) {
            return p;
        }
    }
    return NULL;
}

/* A free place was never asked for. */
static struct place *least_used(struct token_cache *c)
{
    struct place *least = &c->places[0];
    for (size_t i = 1; i < c->count; i++) {
        least = c->places[i].used < least->used ? &c->places[i] : least;
    }
    return least;
}

const struct token_known *token_cache_find(struct token_cache *c,
                                           const unsigned char digest[WEB_DIGEST_BYTES],
                                           uint64_t now_ms)
{
    struct place *p = find_token(c, digest);
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
    struct place *p = find_token(c, digest);
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
