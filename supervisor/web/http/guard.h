/*
 * Which requests may come in at all, by the names in their heads: Host against DNS rebinding,
 * Origin against web pages that nobody has allowed, and what browsers of allowed pages need (CORS).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_GUARD_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_GUARD_H

#include <stdbool.h>

#include "common/err.h"

struct config;
struct guard;
struct web_exchange;

/* -ERR_CONFIG if an option cannot be read. */
int guard_create(const struct config *config, struct guard **ret, struct err *err) WARN_UNUSED;
void guard_destroy(struct guard *g); /* NULL is fine */

/* Where we really listen, "http://127.0.0.1:8080". */
void guard_set_url(struct guard *g, const char *url);

/* One Host header: is it one of ours? NULL: there is none. */
bool guard_host_ok(const struct guard *g, const char *host);

/* One Origin header. */
bool guard_origin_ok(const struct guard *g, const char *origin);

/* web_auth_admit() */
bool guard_admit(struct guard *g, struct web_exchange *x);

/* The same for a link to a file, which people follow from any page: of no page's business are only
 * its bytes, so nothing is allowed to scripts, and only the Host is looked at. */
bool guard_admit_link(struct guard *g, struct web_exchange *x);

#endif
