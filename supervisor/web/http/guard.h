/*
 * Checks each request by the names in its head: Host against DNS rebinding, and Origin against web
 * pages that nobody has allowed. Also sends what browsers of allowed pages need (CORS).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_GUARD_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct config;
struct guard;
struct web_exchange;

/* -ERR_CONFIG if an option cannot be read. */
int guard_create(const struct config *config, struct guard **ret, struct err *err) WARN_UNUSED;
void guard_destroy(struct guard *g); /* NULL is fine */

/* Sets the URL on which the listener listens, "http://127.0.0.1:8080". */
void guard_set_url(struct guard *g, const char *url);

/* Sets the names in the certificate that we show, instead of earlier ones: DNS names, of which one
 * may begin with "*." for any one label, and addresses. Those that cannot be in a Host header are
 * left out. */
void guard_set_names(struct guard *g, const char *const *names, size_t count);

/* Whether one Host header is one of our names. `host` NULL: the request has none. */
bool guard_host_ok(const struct guard *g, const char *host);

/* Whether one Origin header is allowed. */
bool guard_origin_ok(const struct guard *g, const char *origin);

/* Does this module's part of web_auth_admit(): true, or the exchange was answered. */
bool guard_admit(struct guard *g, struct web_exchange *x);

/* The same for a link to a file. People follow such links from any page, so Origin is not checked,
 * only Host; no CORS header is set, so scripts of other pages cannot read the bytes. */
bool guard_admit_link(struct guard *g, struct web_exchange *x);

#endif
