/*
 * Who sends an HTTP request: checks where it comes from, then whose token it carries.
 *
 * Tokens are looked up in a file of ours, or asked for at the issuer (OAuth introspection), or
 * nobody needs one, which is for loopback only. A refusal says how to get in, and nothing about
 * what is there.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_AUTH_AUTH_H
#define CLOISTER_SUPERVISOR_WEB_AUTH_AUTH_H

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"

struct config;
struct principal;
struct web_auth;
struct web_exchange;

/* Whether what is configured may be served: names that can be read, options that belong together,
 * and no way in for others without a token, nor for tokens without TLS, unless --insecure-http says
 * so. For the start, before anything listens; also web_auth_create() asks it. */
int web_auth_check_config(const struct config *config, struct err *err) WARN_UNUSED;

/* Reads the files that the configuration names, which is borrowed. */
int web_auth_create(uv_loop_t *loop, const struct config *config, struct web_auth **ret,
                    struct err *err) WARN_UNUSED;

/* `closed` when nothing of it is on the loop any more. Checks under way are answered (503), and
 * principals that are not held elsewhere are gone. */
void web_auth_close(struct web_auth *a, void (*closed)(void *arg), void *arg);

/* Where we are reached, for metadata and the allowed names of the host: "http://127.0.0.1:8080". */
void web_auth_set_url(struct web_auth *a, const char *url);

/* By the head alone: true, or the exchange was answered. Host and Origin (403), with the headers
 * that browsers of allowed origins need, and answers to their preflight requests (204, false);
 * then, but for /healthz, /health, links to files and what is below /.well-known/, a token that is
 * missing or that is known to be wrong here (401 and so on, as below). What is admitted must still
 * be checked. */
bool web_auth_admit(struct web_auth *a, struct web_exchange *x);

/* Calls `done` once, at once or later, with the principal (borrowed), or answers the exchange (401,
 * 403, 400, 429, 503) and calls it with NULL. The exchange must not be touched meanwhile; if its
 * client goes, `done` is called with NULL, too. */
void web_auth_check(struct web_auth *a, struct web_exchange *x,
                    void (*done)(void *arg, struct principal *principal), void *arg);

/* The document of RFC 9728, if there is an authorization server: true if the exchange was one for
 * it and has been answered. */
bool web_auth_metadata(struct web_auth *a, struct web_exchange *x);

/* Reads the file of tokens again, and that of the client which we are at the issuer; on error all
 * is as it was, and the caller logs it. A name that stays is the same principal, with its new
 * limits; `revoked` is called for each that lost its last token. What the issuer said is forgotten.
 */
int web_auth_reload(struct web_auth *a, void (*revoked)(void *arg, struct principal *p), void *arg,
                    struct err *err) WARN_UNUSED;

#endif
