/*
 * The ports behind links: connects the HTTP side (web/ports/endpoint.h) with sandboxes and links.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_PORT_SOURCE_H
#define CLOISTER_SUPERVISOR_FRONT_PORT_SOURCE_H

#include "supervisor/web/ports/endpoint.h"

struct config;
struct fleet;
struct links;
struct port_source;

/* Everything is borrowed. */
struct port_source *port_source_create(struct fleet *fleet, struct links *links,
                                       const struct config *config);
void port_source_destroy(struct port_source *s); /* NULL is fine */

/* The table for ports_endpoint_create(). */
struct ports_source port_source_table(struct port_source *s);

#endif
