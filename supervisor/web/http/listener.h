/*
 * The HTTP server: connections, their limits, and whole requests for a handler.
 *
 * libmicrohttpd does HTTP and TLS. It runs without threads, on the loop: its epoll set is one
 * descriptor for libuv, and a connection that waits for us is suspended, so that it costs nothing.
 *
 * Limits, each with its answer: connections (further ones wait in the kernel's queue or are
 * closed), connections of one address, head (431), body (413, before it is sent if its length was
 * announced), bodies of all requests together (503), responses that wait for their clients
 * together (the largest is cut), time for a request to arrive (closed), time for a client to
 * take a response (closed).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_LISTENER_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_LISTENER_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

struct web_exchange;
struct web_listener;

struct web_listener_config {
    const char *address;              /* "127.0.0.1", "::1", "0.0.0.0", a name */
    uint16_t port;                    /* 0: any free one */
    const char *cert_file, *key_file; /* PEM; NULL: no TLS */
    size_t max_connections;           /* of one address that is not loopback: a quarter */
    size_t max_body_bytes;
    /* 0: those of proto/limits.h */
    size_t max_bodies_bytes, max_output_bytes;
    uint64_t input_ms, output_ms; /* the second is rounded up to seconds */
    /* Asked when the head of a request is there, before its body is read: 0, or the exchange was
     * answered (web_respond() with an error) and its body will not be read. NULL: all are taken. */
    int (*admit)(void *arg, struct web_exchange *x);
    void (*handle)(void *arg, struct web_exchange *x);
    void *arg;
};

/* Copies what it needs. */
int web_listener_open(uv_loop_t *loop, const struct web_listener_config *config,
                      struct web_listener **ret, struct err *err) WARN_UNUSED;

/* "http://127.0.0.1:8080": where it really listens. Borrowed. */
const char *web_listener_url(const struct web_listener *l);

/* Reads the files of TLS again, for connections from now on; on error the old ones stay. */
int web_listener_reload(struct web_listener *l, struct err *err) WARN_UNUSED;

/* No new connections and no new requests; those under way go on. */
void web_listener_quiesce(struct web_listener *l);

/* Ends everything that is under way (web_on_gone()), gives what is written flush_ms to leave, calls
 * back, frees. */
void web_listener_close(struct web_listener *l, uint64_t flush_ms, void (*closed)(void *arg),
                        void *arg);

#endif
