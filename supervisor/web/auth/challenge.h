/*
 * Refuses requests whose token is missing or wrong, and tells clients where to get one:
 * WWW-Authenticate (RFC 6750) and the document to which it points (RFC 9728).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_CHALLENGE_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_CHALLENGE_H

#include <stdbool.h>
#include <stdint.h>

struct web_exchange;

struct challenge {
    char *issuer; /* NULL: no issuer; the operator hands out tokens */
    char *scopes; /* separated by blanks; may be "" */
    /* derived from the URL at which clients reach us */
    char *resource;      /* "https://host/mcp" */
    char *metadata_url;  /* "https://host/.well-known/oauth-protected-resource/mcp" */
    char *metadata_path; /* the path of metadata_url */
};

/* Copies the texts; `issuer` NULL: none. */
void challenge_init(struct challenge *c, const char *issuer, const char *scopes);
void challenge_finish(struct challenge *c);

/* Sets the URL at which clients reach us, without /mcp: "http://127.0.0.1:8080". */
void challenge_set_url(struct challenge *c, const char *url);

/* Each ends the exchange. `why` is a string literal. */
void challenge_no_token(const struct challenge *c, struct web_exchange *x); /* 401 */
void challenge_bad_token(const struct challenge *c, struct web_exchange *x, const char *why);
void challenge_scope(const struct challenge *c, struct web_exchange *x, const char *why); /* 403 */
void challenge_malformed(const struct challenge *c, struct web_exchange *x, const char *why);
void challenge_busy(struct web_exchange *x, uint64_t wait_ms); /* 429 */
void challenge_unknown(struct web_exchange *x);                /* 503 */
void challenge_crowd(struct web_exchange *x);                  /* 429: too many connections */

/* web_auth_metadata() */
bool challenge_metadata(const struct challenge *c, struct web_exchange *x);

#endif
