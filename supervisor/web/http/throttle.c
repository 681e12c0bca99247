/*
 * Each address has a bucket of tries, which refills one by one. A try is taken when a token has
 * turned out to be wrong, not before: many clients behind one proxy, whose good tokens must first
 * be asked for, must not block each other. So more tokens can be asked for at once than the bucket
 * holds, and the bucket goes into debt, within bounds.
 *
 * All IPv6 addresses of one network of 64 bits share a bucket, since one client usually owns all of
 * them.
 *
 * The table is bounded. A client with more addresses than the table has entries gets new buckets by
 * evicting old ones, and the throttle cannot stop such a client. An entry whose bucket is full
 * again is as good as a free one.
 */
#include "supervisor/web/http/throttle.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"

struct bucket {
    uint64_t key;     /* 0: free */
    uint64_t full_ms; /* when the bucket is full, if nothing is taken till then */
};

struct throttle {
    struct bucket buckets[THROTTLE_ADDRESSES];
};

#define BUCKET_MS ((uint64_t)THROTTLE_BURST * THROTTLE_REFILL_MS)

struct throttle *throttle_create(void)
{
    return alloc_one(struct throttle);
}

void throttle_destroy(struct throttle *t)
{
    free(t);
}

static uint64_t key_of(const char *peer)
{
    struct in6_addr six;
    struct in_addr four;
    uint64_t key;
    if (inet_pton(AF_INET6, peer, &six) == 1) {
        key = IN6_IS_ADDR_V4MAPPED(&six) ? hash_bytes(six.s6_addr + 12, 4)
                                         : hash_bytes(six.s6_addr, 8);
    } else if (inet_pton(AF_INET, peer, &four) == 1) {
        key = hash_bytes(&four, sizeof(four));
    } else {
        key = hash_text(peer);
    }
    return key != 0 ? key : 1;
}

/* Returns the address's entry, or the one to replace: a free one, or the one whose bucket is full
 * first. */
static struct bucket *find_address(struct throttle *t, uint64_t key)
{
    struct bucket *oldest = &t->buckets[0];
    for (size_t i = 0; i < THROTTLE_ADDRESSES; i++) {
        struct bucket *p = &t->buckets[i];
        if (p->key == key) {
            return p;
        }
        if (p->full_ms < oldest->full_ms) {
            oldest = p;
        }
    }
    return oldest;
}

uint64_t throttle_wait_ms(struct throttle *t, const char *peer, uint64_t now_ms)
{
    uint64_t key = key_of(peer);
    const struct bucket *p = find_address(t, key);
    uint64_t after_ms = p->full_ms + THROTTLE_REFILL_MS;
    return p->key == key && after_ms > now_ms + BUCKET_MS ? after_ms - now_ms - BUCKET_MS : 0;
}

void throttle_failed(struct throttle *t, const char *peer, uint64_t now_ms)
{
    uint64_t key = key_of(peer);
    uint64_t latest_ms = now_ms + BUCKET_MS + THROTTLE_WAIT_MS - THROTTLE_REFILL_MS;
    struct bucket *p = find_address(t, key);
    uint64_t full_ms = p->key == key && p->full_ms > now_ms ? p->full_ms : now_ms;
    full_ms += THROTTLE_REFILL_MS;
    *p = (struct bucket){key, full_ms < latest_ms ? full_ms : latest_ms};
}
