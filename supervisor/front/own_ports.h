/*
 * Ports of sandboxes for a server without HTTP: a listener of its own on 127.0.0.1, which serves
 * them and nothing else.
 *
 * Thread: the loop thread. Opening loads libmicrohttpd and GnuTLS, which blocks for some
 * milliseconds, once.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_OWN_PORTS_H
#define CLOISTER_SUPERVISOR_FRONT_OWN_PORTS_H

#include <stdint.h>
#include <uv.h>

#include "common/err.h"

struct config;
struct links;
struct own_ports;
struct ports_source;

/* Opens nothing yet. Copies the table; all else is borrowed for its life. */
struct own_ports *own_ports_create(uv_loop_t *loop, const struct config *config,
                                   struct links *links, const struct ports_source *source);

/* Sees to it that the listener is open, and that `links` lead to it. `arg` is the own_ports. */
int own_ports_open(void *arg, struct err *err) WARN_UNUSED;

/* Nothing new is accepted, or opened. NULL is fine, as below. */
void own_ports_quiesce(struct own_ports *p);

/* Cuts what is open, then calls back, at once if there is no listener. */
void own_ports_close(struct own_ports *p, uint64_t flush_ms, void (*closed)(void *arg), void *arg);

/* Call it after the source's last callback, when the loop has run. */
void own_ports_destroy(struct own_ports *p);

#endif
