/*
 * Where the engine of a backend is: what somebody wrote, a socket of this host, or the address of a
 * server. A place names files with keys and certificates and never holds what is in them, because
 * places are written to disk and to logs.
 *
 * Thread: any. No file is touched.
 */
#ifndef CLOISTER_COMMON_PLACE_H
#define CLOISTER_COMMON_PLACE_H

#include <stdbool.h>

#include "common/err.h"

#define PLACE_ADDRESS_MAX 4096 /* bytes, as the field of ENGINE_PLACE has it */

/* Numbers that travel: none changes its meaning. */
enum place_kind {
    PLACE_NONE = 0,   /* nobody has said where: the backend knows where to look, or has no engine */
    PLACE_NAMED = 1,  /* in the words of whoever configured it, which the backend takes apart */
    PLACE_SOCKET = 2, /* a Unix socket of this host; the address is its path */
    PLACE_URL = 3,    /* a server; the address is http://… or https://… */
};

/* Texts are NULL where there is none. */
struct place {
    enum place_kind kind;
    const char *address;
    /* URL with https only */
    bool verify;                      /* the server's certificate is checked */
    const char *ca_file;              /* what signs it; NULL: those that this host trusts */
    const char *cert_file, *key_file; /* ours, both or none */
};

/* Whether its fields fit together: paths are absolute, a URL has a scheme and a host, TLS is for
 * https, nothing has control characters. -ERR_INVALID otherwise. */
int place_check(const struct place *p, struct err *err) WARN_UNUSED;

/* A copy that owns its texts, to be freed with place_finish(), which takes an empty one, too. */
struct place place_copy(const struct place *p);
void place_finish(struct place *p);

/* For people: "unix:///run/engine.sock", "https://host:2376"; "" for none. To be freed. */
char *place_text(const struct place *p);

#endif
