/*
 * Asks an authorization server whether a token is good (RFC 7662), and caches the answer for a
 * short while. Concurrent questions about one token share a request.
 *
 * Thread: the loop thread. Nothing blocks, except that the creation loads libcurl. A callback never
 * runs inside the call that registers it.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_INTROSPECT_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_INTROSPECT_H

#include <uv.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/auth/introspect_answer.h"
#include "supervisor/web/http/digest.h"

#define INTROSPECT_GOOD_MS 60000 /* how long a good answer is cached, at most */
#define INTROSPECT_BAD_MS  10000
#define INTROSPECT_WAIT_MS 5000 /* deadline for the issuer's whole answer */
#define INTROSPECT_ASKS    64   /* tokens asked for at the same time */
#define INTROSPECT_KNOWN   1024 /* cached good tokens; as many bad ones */

struct introspect;
struct introspect_wait;

/* The configuration. Copied. */
struct introspect_config {
    const char *issuer, *url;       /* https, or on this machine */
    struct view client;             /* "ID:SECRET" */
    const char *scopes;             /* separated by blanks */
    struct principal_limits limits; /* for each principal of the issuer */
};

/* -ERR_CONFIG if the client credentials or a URL cannot be used; also fails without libcurl. */
int introspect_create(uv_loop_t *loop, const struct introspect_config *config,
                      struct introspect **ret, struct err *err) WARN_UNUSED;

/* There must be no wait left. `closed` is called when nothing of it is on the loop any more. */
void introspect_close(struct introspect *in, void (*closed)(void *arg), void *arg);

/* Sets our resource URL, which must be in a token's audience. */
void introspect_set_audience(struct introspect *in, const char *audience);

/* Sets a new ID:SECRET, and drops all cached answers. */
int introspect_set_client(struct introspect *in, struct view client, struct err *err) WARN_UNUSED;

struct introspect_result {
    bool known; /* false: the issuer could not be asked, or its answer could not be parsed */
    enum introspect_verdict verdict;
    const char *why;             /* a string literal, for the client */
    struct principal *principal; /* set if good; borrowed */
};

/* Looks up the cached answer; false if there is none. */
bool introspect_find(struct introspect *in, const unsigned char digest[WEB_DIGEST_BYTES],
                     struct introspect_result *ret);

/* Asks about a token that passes tokens_text_ok(). Returns NULL if too many questions are in
 * progress. */
struct introspect_wait *introspect_ask(struct introspect *in,
                                       const unsigned char digest[WEB_DIGEST_BYTES],
                                       struct view token,
                                       void (*done)(void *arg, const struct introspect_result *r),
                                       void *arg);

/* Drops the wait: `done` will not be called. */
void introspect_forget(struct introspect_wait *w);

#endif
