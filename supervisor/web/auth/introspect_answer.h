/*
 * Parses an issuer's answer about a token (RFC 7662) and judges it.
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
    INTROSPECT_BAD,   /* not a token, not for us, or expired */
    INTROSPECT_SCOPE, /* good, but its scope does not cover this */
};

/* What the token must match. Borrowed. */
struct introspect_expect {
    const char *issuer;   /* URL */
    const char *place;    /* the issuer's host, part of its principals' names */
    const char *audience; /* our resource URL */
    const char *scopes;   /* separated by blanks; "" for none */
};

struct introspect_answer {
    enum introspect_verdict verdict;
    const char *why; /* a string literal for the client; "" if good */
    char *name;      /* the principal's name, owned by the caller; NULL unless good */
    uint64_t good_s; /* seconds until it expires; UINT64_MAX: unknown */
};

/* Returns -ERR_PROTOCOL if the answer breaks the RFC or is ambiguous; it must not be used then. */
int introspect_answer_read(struct view body, const struct introspect_expect *expect,
                           uint64_t now_wall_s, struct introspect_answer *ret,
                           struct err *err) WARN_UNUSED;

#endif
