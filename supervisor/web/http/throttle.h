/*
 * Wrong tokens by address: a burst is free, then they are taken slowly.
 *
 * Who calls this has already looked whether the token is one that is known to be good. Such a one
 * is always taken, so nobody is locked out by others behind the same address (a proxy, most often),
 * and what is slowed down is guessing, and questions to an issuer.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_THROTTLE_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define THROTTLE_BURST     20
#define THROTTLE_REFILL_MS 3000  /* for one more: 20 a minute */
#define THROTTLE_WAIT_MS   15000 /* nobody is told to come back later than in that */
#define THROTTLE_ADDRESSES 1024  /* known at a time; the one that was quiet longest makes room */

struct throttle;

struct throttle *throttle_create(void);
void throttle_destroy(struct throttle *t); /* NULL is fine */

/* How long a token from there is not looked at; 0: now it is. */
uint64_t throttle_wait_ms(struct throttle *t, const char *peer, uint64_t now_ms);

/* One was wrong. */
void throttle_failed(struct throttle *t, const char *peer, uint64_t now_ms);

#endif
