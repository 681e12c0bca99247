/*
 * Asks an authorization server what a token is worth (RFC 7662), and remembers the answer for a
 * short while. What is asked for twice at a time is asked once.
 *
 * Thread: the loop thread. Nothing blocks, but for loading libcurl when it is created. A callback
 * never comes out of the call that takes it.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_INTROSPECT_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_INTROSPECT_H

#include <uv.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/auth/introspect_answer.h"
#include "supervisor/web/http/digest.h"

#define INTROSPECT_GOOD_MS 60000 /* how long a good token is believed in, at most */
#define INTROSPECT_BAD_MS  10000
#define INTROSPECT_WAIT_MS 5000 /* for the issuer's whole answer */
#define INTROSPECT_ASKS    64   /* tokens asked for at a time */
#define INTROSPECT_KNOWN   1024 /* good tokens that are remembered, and as many bad ones */

struct introspect;
struct introspect_wait;

/* Copied. */
struct introspect_config {
    const char *issuer, *url;       /* https, or of this machine */
    struct view client;             /* "ID:SECRET" */
    const char *scopes;             /* separated by blanks */
    struct principal_limits limits; /* of everybody who comes this way */
};

int introspect_create(uv_loop_t *loop, const struct introspect_config *config,
                      struct introspect **ret, struct err *err) WARN_UNUSED;

/* Nobody may wait any more. */
void introspect_close(struct introspect *in, void (*closed)(void *arg), void *arg);

/* Our resource URL, for which a token must have been made. */
void introspect_set_audience(struct introspect *in, const char *audience);

/* Another ID:SECRET from now on; and everything is asked for anew. */
int introspect_set_client(struct introspect *in, struct view client, struct err *err) WARN_UNUSED;

struct introspect_result {
    bool known; /* false: nobody could be asked, or the answer made no sense */
    enum introspect_verdict verdict;
    const char *why;             /* a literal, for the client */
    struct principal *principal; /* if good; borrowed */
};

/* What is remembered; false: nothing. */
bool introspect_find(struct introspect *in, const unsigned char digest[WEB_DIGEST_BYTES],
                     struct introspect_result *ret);

/* Asks for a token (of tokens_text_ok()). NULL: too many are being asked for. */
struct introspect_wait *introspect_ask(struct introspect *in,
                                       const unsigned char digest[WEB_DIGEST_BYTES],
                                       struct view token,
                                       void (*done)(void *arg, const struct introspect_result *r),
                                       void *arg);

/* `done` will not be called. */
void introspect_forget(struct introspect_wait *w);

#endif
