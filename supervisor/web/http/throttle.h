/*
 * Rate limit of wrong tokens by address: a burst is free, then tries are accepted slowly.
 *
 * The caller first checks whether the token is known to be good. Such a token is always accepted,
 * so nobody is locked out by others behind the same address (most often a proxy). The throttle
 * slows down guessing, and questions to an issuer.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_THROTTLE_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_BURST     20
#define THROTTLE_REFILL_MS 3000  /* for one more try: 20 a minute */
#define THROTTLE_WAIT_MS   15000 /* the longest wait that a client is told */
/* entries of the table; the one whose bucket is full first is replaced */
#define THROTTLE_ADDRESSES 1024

struct throttle;

struct throttle *throttle_create(void);
void throttle_destroy(struct throttle *t); /* NULL is fine */

/* How long tokens from this address are refused, in milliseconds; 0: not at all. */
uint64_t throttle_wait_ms(struct throttle *t, const char *peer, uint64_t now_ms);

/* Counts a wrong token. */
void throttle_failed(struct throttle *t, const char *peer, uint64_t now_ms);

#endif
