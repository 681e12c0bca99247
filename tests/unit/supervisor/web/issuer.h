/*
 * The authorization server of the tests (issuer.py), in a process of its own.
 */
#ifndef CLOISTER_TESTS_UNIT_WEB_ISSUER_H
#define CLOISTER_TESTS_UNIT_WEB_ISSUER_H

#include <sys/types.h>

#include "tests/lib/script_server.h"

/* The client that may ask it. */
#define ISSUER_CLIENT "clois/ter:s%e:c ret"

struct issuer {
    struct script_server server;
    unsigned port, tls_port;
};

void issuer_start(struct issuer *issuer);
void issuer_stop(struct issuer *issuer);

/* Writes a file with exactly these rights, whatever the umask. */
void issuer_write(const char *path, const char *text, mode_t mode);

#endif
