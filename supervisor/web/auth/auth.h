/*
 * Authenticates HTTP requests: first Host and Origin, then the token.
 *
 * A token is looked up in the token file or asked for at the issuer (OAuth introspection); or no
 * token is needed, which is allowed on loopback only. A refusal says how to get in, and nothing
 * about what exists.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_AUTH_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"

struct config;
struct principal;
struct web_auth;
struct web_exchange;

/* Whether this configuration may be served: its names can be parsed, its options fit together,
 * nobody on another machine gets in without a token, and no token travels without TLS, unless
 * --insecure-http allows that. Called at the start, before anything listens, and by
 * web_auth_create(). */
int web_auth_check_config(const struct config *config, struct err *err) WARN_UNUSED;

/* Reads the files that the configuration names. The configuration is borrowed. */
int web_auth_create(uv_loop_t *loop, const struct config *config, struct web_auth **ret,
                    struct err *err) WARN_UNUSED;

/* Answers the checks in progress (503) and drops its references to principals. `closed` is called
 * when nothing of it is on the loop any more. */
void web_auth_close(struct web_auth *a, void (*closed)(void *arg), void *arg);

/* Sets the URL at which clients reach us, for metadata and the allowed hosts:
 * "http://127.0.0.1:8080". */
void web_auth_set_url(struct web_auth *a, const char *url);
/* Sets the names in our certificate, which are allowed hosts: see guard_set_names(). */
void web_auth_set_names(struct web_auth *a, const char *const *names, size_t count);
/* Sets which other paths need no token, as there is nothing of this server in what they answer. */
void web_auth_set_open(struct web_auth *a, bool (*is_open)(const char *path));

/* Admits a request whose address is all that it needs, if its Host is one of ours: true, or the
 * exchange was answered. */
bool web_auth_admit_link(struct web_auth *a, struct web_exchange *x);

/* Checks the head alone: true, or the exchange was answered. Checks Host and Origin (403), sets the
 * headers that browsers of allowed origins need, and answers their preflight requests (204, false).
 * Then checks that a token is there and not known to be wrong (401 and so on, as below), except for
 * /healthz, /health, links to files, paths below /.well-known/ and those of web_auth_set_open(). An
 * admitted request must still pass web_auth_check(). */
bool web_auth_admit(struct web_auth *a, struct web_exchange *x);

/* Whether there is more than one principal, or an issuer may name another one at any time. */
bool web_auth_has_several(const struct web_auth *a);

/* Calls `done` once, at once or later, with the principal (borrowed); or answers the exchange (401,
 * 403, 400, 429, 503) and calls `done` with NULL. The caller must not touch the exchange meanwhile;
 * if its client disconnects, `done` is called with NULL, too. */
void web_auth_check(struct web_auth *a, struct web_exchange *x,
                    void (*done)(void *arg, struct principal *principal), void *arg);

/* Answers a request for the document of RFC 9728, if there is an authorization server. True if the
 * exchange was answered. */
bool web_auth_metadata(struct web_auth *a, struct web_exchange *x);

/* Reads the token file again, and the file with our client secret for the issuer. On error nothing
 * changes, and the caller logs it. A name that stays keeps its principal, with the new limits;
 * `revoked` is called for each principal that lost its last token. The issuer's cached answers are
 * dropped. */
int web_auth_reload(struct web_auth *a, void (*revoked)(void *arg, struct principal *p), void *arg,
                    struct err *err) WARN_UNUSED;

#endif
