/*
 * URLs and the names in them, as far as HTTP needs them to decide whom to trust: "host:port" of a
 * Host header, origins, addresses of servers. Parsing is strict: anything doubtful is refused.
 *
 * Thread: any. Nothing blocks or allocates; no name is resolved.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_URL_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/net/authority.h"
#include "common/view.h"

struct url {
    struct view scheme; /* as written */
    struct authority authority;
    struct view origin; /* from the scheme to the port */
    struct view path;   /* from the slash on, without trailing slashes; may be empty */
};

/* Parses an absolute URL of printable ASCII without user name, query and fragment. Borrows from
 * `text`. */
bool url_parse(const char *text, struct url *ret);

bool url_is(const struct url *u, const char *scheme); /* in upper or lower case */

/* The port, or the default one of http or https. 0: unknown. */
uint16_t url_port(const struct url *u);

/* Parses "[HOST:]PORT", the value of --http; HOST defaults to 127.0.0.1. */
int listen_address_parse(const char *text, struct authority *ret, struct err *err) WARN_UNUSED;

#endif
