/*
 * "host:port" as URLs and requests have it. Parsing is strict: anything doubtful is refused.
 *
 * Thread: any. Nothing blocks or allocates; no name is resolved.
 */
#ifndef CLOISTER_COMMON_NET_AUTHORITY_H
#define CLOISTER_COMMON_NET_AUTHORITY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/view.h"

#define AUTHORITY_HOST_SIZE 256                        /* a DNS name with its NUL */
#define AUTHORITY_TEXT_SIZE (AUTHORITY_HOST_SIZE + 10) /* brackets, a colon, a port */

/* Two authorities name the same host if their `host` texts are equal. */
struct authority {
    char host[AUTHORITY_HOST_SIZE]; /* lower case; an IPv6 address in its usual form, without
                                       brackets */
    uint16_t port;                  /* 0: not given */
    bool is_address;                /* an IP address, not a name */
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

/* Whether both name the same place: host and port. */
bool authority_same(const struct authority *a, const struct authority *b);

/* As authority_parse() takes it; without the port if that is 0. */
void authority_print(const struct authority *a, char ret[AUTHORITY_TEXT_SIZE]);

/* An http or https URL of any form, as programs take it. */
struct authority_url {
    struct authority authority; /* with the usual port if none is said */
    bool tls;                   /* https */
    struct view user;           /* what is before an @; empty if there is none */
    struct view rest;           /* path, query and fragment; may be empty */
};

/* Borrows from `text`. False if it is none, has blanks or bytes outside of ASCII, or no host. */
bool authority_parse_url(struct view text, struct authority_url *ret);

#endif
