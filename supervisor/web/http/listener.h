/*
 * The HTTP server: it accepts connections, keeps their limits, and gives whole requests to a
 * handler.
 *
 * libmicrohttpd does HTTP and TLS. It runs without threads, on the loop: its epoll set is one
 * descriptor for libuv. A connection that waits for a handler is suspended, so that it costs
 * nothing.
 *
 * Limits, and what happens at each: connections (those of strangers give way, new ones wait in the
 * kernel's queue or are closed), connections of one address (closed), head (431), body (413, before
 * it is sent if its length was announced), bodies of all requests together (503), responses that
 * wait for their clients together (the largest is cut), time for a head and for a request to arrive
 * (closed), time for a client to read a response (closed).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_LISTENER_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

struct web_exchange;
struct web_listener;

struct web_listener_config {
    const char *address; /* "127.0.0.1", "::1", "0.0.0.0", a name */
    uint16_t port;       /* 0: any free one */
    /* Instead of an address: a unix socket that listens, whose descriptor the listener owns once it
     * was opened. Only processes of this user, and root's, are served. 0: none. */
    int unix_fd;
    const char *cert_file, *key_file; /* PEM; NULL: no TLS */
    size_t max_connections;           /* one address that is not loopback gets a quarter of it */
    size_t max_body_bytes;
    bool upgrades; /* connections may change to another protocol: web_upgrade() */
    /* 0: the values of proto/limits.h */
    size_t max_bodies_bytes, max_output_bytes;
    uint64_t head_ms, input_ms, output_ms; /* output_ms is rounded up to seconds */
    /* Called when the head of a request is there, before its body is read. Returns 0, or answers
     * the exchange (web_respond() with an error), whose body is not read then. NULL: all are
     * admitted. */
    int (*admit)(void *arg, struct web_exchange *x);
    void (*handle)(void *arg, struct web_exchange *x);
    void *arg;
};

/* Copies the configuration. */
int web_listener_open(uv_loop_t *loop, const struct web_listener_config *config,
                      struct web_listener **ret, struct err *err) WARN_UNUSED;

/* Returns where the listener really listens, "http://127.0.0.1:8080". Borrowed. */
const char *web_listener_url(const struct web_listener *l);

/* Returns how many names the certificate in use has, DNS names and addresses ("[::1]"); *ret is
 * borrowed until the next reload. */
size_t web_listener_names(const struct web_listener *l, const char *const **ret);

/* Reads the certificate files again, for connections from now on; on error the old ones stay. */
int web_listener_reload(struct web_listener *l, struct err *err) WARN_UNUSED;

/* Stops new connections and new requests; those in progress go on. */
void web_listener_quiesce(struct web_listener *l);

/* Ends every exchange (web_on_gone()), gives queued responses flush_ms to leave, calls `closed`,
 * and frees the listener. */
void web_listener_close(struct web_listener *l, uint64_t flush_ms, void (*closed)(void *arg),
                        void *arg);

#endif
