/*
 * URLs and the names in them, as far as HTTP needs them to decide whom to trust: "host:port" of a
 * Host header, origins, addresses of servers. Strict: what is not surely well-formed is refused.
 *
 * Thread: any. Nothing blocks or allocates; no name is resolved.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_URL_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"

#define URL_HOST_SIZE 256 /* a name of DNS with its NUL */

/* Two of them name the same host if `host` is the same text. */
struct authority {
    char host[URL_HOST_SIZE]; /* lower case; an IPv6 address in its usual form, without brackets */
    uint16_t port;            /* 0: not given */
    bool is_address;          /* of IP, not a name */
};

/* "host", "host:port", "1.2.3.4", "[::1]:80". Without user names, blanks, percent signs. */
bool authority_parse(struct view text, struct authority *ret);

/* localhost, 127.0.0.1 and ::1: what programs on one machine call it. */
bool authority_is_local(const struct authority *a);

/* The same and the rest of 127/8: nobody else can reach it. */
bool authority_is_loopback(const struct authority *a);

/* 0.0.0.0 and ::, "all addresses" for a listener. */
bool authority_is_any(const struct authority *a);

struct url {
    struct view scheme; /* as written */
    struct authority authority;
    struct view origin; /* from the scheme to the port */
    struct view path;   /* from the slash on, without those at the end; may be empty */
};

/* An absolute URL of printable ASCII without user name, query and fragment. Borrows from `text`. */
bool url_parse(const char *text, struct url *ret);

bool url_is(const struct url *u, const char *scheme); /* in any case of letters */

/* The port that is meant, with http's and https' own. 0: unknown. */
uint16_t url_port(const struct url *u);

/* Reads "[HOST:]PORT", as --http has it; without HOST it is 127.0.0.1. */
int listen_address_parse(const char *text, struct authority *ret, struct err *err) WARN_UNUSED;

#endif
