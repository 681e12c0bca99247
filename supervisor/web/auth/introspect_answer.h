/*
 * What an issuer says about a token (RFC 7662), and what that is worth here.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_INTROSPECT_ANSWER_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_INTROSPECT_ANSWER_H

#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

#define INTROSPECT_ANSWER_MAX_BYTES (64u << 10)

enum introspect_verdict {
    INTROSPECT_GOOD,
    INTROSPECT_BAD,   /* not a token, or not for us, or over */
    INTROSPECT_SCOPE, /* good, but it does not cover what is done here */
};

/* What a token must be. Borrowed. */
struct introspect_expect {
    const char *issuer;   /* URL */
    const char *place;    /* of the names of its users: the issuer's host */
    const char *audience; /* our resource URL */
    const char *scopes;   /* separated by blanks; "" for none */
};

struct introspect_answer {
    enum introspect_verdict verdict;
    const char *why; /* a literal, for the client; "" if good */
    char *name;      /* of the principal, owned by the caller; NULL unless it is good */
    uint64_t good_s; /* till it expires; UINT64_MAX: nobody says */
};

/* -ERR_PROTOCOL if this is no answer to rely on, whatever it says otherwise. */
int introspect_answer_read(struct view body, const struct introspect_expect *expect,
                           uint64_t now_wall_s, struct introspect_answer *ret,
                           struct err *err) WARN_UNUSED;

#endif
