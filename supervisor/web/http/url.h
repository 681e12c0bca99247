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
#include "common/view.h"

#define URL_HOST_SIZE 256 /* a DNS name with its NUL */

/* Two authorities name the same host if their `host` texts are equal. */
struct authority {
    char host[URL_HOST_SIZE]; /* lower case; an IPv6 address in its usual form, without brackets */
    uint16_t port;            /* 0: not given */
    bool is_address;          /* an IP address, not a name */
};

/* Accepts "host", "host:port", "1.2.3.4", "[::1]:80"; no user names, blanks or percent signs. */
bool authority_parse(struct view text, struct authority *ret);

/* Whether it is localhost, 127.0.0.1 or ::1: the names by which programs on one machine reach
 * it. */
bool authority_is_local(const struct authority *a);

/* The same, or another address of 127/8, which no other machine can reach. */
bool authority_is_loopback(const struct authority *a);

/* Whether it is 0.0.0.0 or ::, which a listener uses for "all addresses". */
bool authority_is_any(const struct authority *a);

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
