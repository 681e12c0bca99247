/*
 * The address of a port of a sandbox: /ports/SANDBOX/PORT/EXPIRES/SIGNATURE/REST. All that proves
 * it is in the path, so that a page's relative links lead to the same port.
 *
 * Thread: any. Pure functions; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_PORTS_ADDRESS_H
#define CLOISTER_SUPERVISOR_WEB_PORTS_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/view.h"
#include "proto/limits.h"

#define PORTS_PATH           "/ports/"
#define PORT_SIGNATURE_CHARS 64

struct port_address {
    char sandbox[LIMIT_NAME + 1];
    char expires[24]; /* as it is written, which is what was signed */
    char signature[PORT_SIGNATURE_CHARS + 1];
    uint16_t port;
    /* behind the signature, "/" and what follows it, as it came; "" if there is no slash. Borrowed
     * from what was parsed. */
    const char *rest;
};

/* Whether this path belongs to ports. */
static inline bool port_address_has(const char *path)
{
    return strncmp(path, PORTS_PATH, strlen(PORTS_PATH)) == 0;
}

/* Takes the target of a request apart. False if it is no such address; *ret is undefined then. */
bool port_address_parse(const char *target, struct port_address *ret);

/* The Location of a redirect, made relative to the request of `rest`, so that it leads below the
 * same address: `location` is a path, relative or not, or a URL of the web server itself, at this
 * port of loopback. The caller frees it. NULL: it leads elsewhere, or is none. */
char *port_address_location(const char *rest, uint16_t port, struct view location);

#endif
