/*
 * HTTP for engines, cloud APIs and authorization servers: one client per server, many requests at a
 * time, on the caller's loop.
 *
 * It uses libcurl, which is loaded when the first client is created, because it depends on some
 * twenty libraries that a process without such a server should not load. Every request has timeouts
 * (connecting, silence, total) and a limit of size.
 *
 * Thread: the loop thread. Nothing blocks; libcurl resolves names in a thread of its own. `done` is
 * never called from inside the function that takes it. It is called exactly once, or not at all if
 * the request is cancelled or the client closed.
 *
 * Errors, whose text names the endpoint: -ERR_ENGINE when the server cannot be reached or closes
 * early, or libcurl is missing; -ERR_TIMEOUT; -ERR_TOO_BIG when the response is larger than
 * allowed. Any HTTP status is a success here.
 */
#ifndef CLOISTER_COMMON_IO_HTTP_CLIENT_H
#define CLOISTER_COMMON_IO_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/view.h"

/* Copied by http_client_create(). */
struct http_endpoint {
    const char *name;        /* for error texts: "unix:///run/docker.sock" */
    const char *base_url;    /* "http://localhost", "https://host:2376", no slash at the end */
    const char *unix_socket; /* path of a unix socket; NULL: connect by the URL */
    const char *ca_file;     /* TLS files; NULL: the system's CAs, or no client certificate */
    const char *cert_file;
    const char *key_file;
    /* The same as PEM in memory, instead of a file; empty: none. */
    struct view ca_pem, cert_pem, key_pem;
    const char *proxy;      /* URL of a proxy for this server; NULL: the environment's */
    const char *connect_to; /* "host:port" to connect to instead of the URL's; NULL: that one */
    bool verify;            /* false only if the configuration says so */
    unsigned idle_s;        /* how long a connection is kept that nobody uses; 0: a minute */
};

struct http_client;
struct http_call;
struct http_tunnel;

struct http_response {
    int status;
    struct view body; /* empty if on_data had it */
    const struct http_call *call;
};

/* The value of a response header; names are case-insensitive. Empty if absent. Valid during
 * `done`. */
struct view http_response_header(const struct http_response *response, const char *name);

/* response is valid when rc is 0, err when it is not; both during the callback only. */
typedef void (*http_done_fn)(void *arg, int rc, const struct http_response *response,
                             const struct err *err);

/* Gets a piece, at most 16 KiB, of the body of a 2xx response as it arrives; other bodies are
 * collected. Returning false ends the call with -ERR_INVALID. It may call every function of this
 * header. */
typedef bool (*http_data_fn)(void *arg, struct view piece);

/* Writes the next piece of a request body of unknown length, at most cap bytes, to `out`. Returns
 * the number of bytes, 0 at the end, or -ERR_*, which ends the call. It may only call http_cancel()
 * and http_client_close(). */
typedef int (*http_fill_fn)(void *arg, char *out, size_t cap);

/* Everything is borrowed during http_send() only, except body, which must live until the end of the
 * call. */
struct http_request {
    const char *method;       /* "GET", "HEAD", … */
    const char *path;         /* from the slash on, with the query */
    const char *content_type; /* of the body; NULL: none */
    struct view body;
    http_fill_fn fill;          /* instead of a body; NULL: none */
    const char *const *headers; /* more lines "Name: value"; NULL-terminated, or NULL */
    uint64_t connect_ms;        /* timeout of connecting; 0: 5 s */
    uint64_t silence_ms;        /* longest time without a byte in either direction; 0: none */
    uint64_t total_ms;          /* the whole call; 0 only together with silence_ms */
    size_t max_bytes;           /* limit of a collected response body; 0: 1 MiB */
    http_data_fn on_data;       /* NULL: the body is collected */
    /* What was sent is not sent again over another connection if the answer is lost with this one:
     * for requests that must not be done twice. */
    bool once;
    const char *upgrade; /* of a tunnel: the protocol to ask for; NULL: "tcp" */
};

int http_client_create(uv_loop_t *loop, const struct http_endpoint *endpoint,
                       struct http_client **ret, struct err *err) WARN_UNUSED;

/* Cancels all calls and closes all tunnels; calls `closed` when every handle is off the loop. */
void http_client_close(struct http_client *c, void (*closed)(void *arg), void *arg);

/* Never fails: `done` gets every error, -ERR_INVALID for a request that cannot be sent. The result
 * is valid until `done`. */
struct http_call *http_send(struct http_client *c, const struct http_request *request,
                            http_done_fn done, void *arg);

/* Cancels a call: `done` will not be called. */
void http_cancel(struct http_call *call);

/* Holds the body of a response back, so that its sender has to wait, or lets it come again. It ends
 * no timeout but that of silence, which does not run meanwhile. */
void http_hold(struct http_call *call, bool hold);

/* Percent-encodes for a query or a path segment; the caller frees. */
char *http_escape(const char *text);

/*
 * Tunnels: connections that become plain streams in both directions after the response head ("101
 * Switching Protocols", as in Docker's attach and exec). A head over 16 KiB or a peer that hangs up
 * within it is an error. For a status other than 101 and 200, `done` gets rc 0, no tunnel, and the
 * beginning of the body.
 */
typedef void (*http_tunnel_fn)(void *arg, int rc, struct http_tunnel *tunnel,
                               const struct http_response *response, const struct err *err);

/* Asks to upgrade to `upgrade`. `request` as for http_send; on_data and max_bytes are ignored, and
 * total_ms is the timeout of the head. The receiver of a tunnel owns it. */
struct http_call *http_tunnel_open(struct http_client *c, const struct http_request *request,
                                   http_tunnel_fn done, void *arg);

/* Reads at most cap bytes without waiting. Returns > 0 bytes; 0: nothing now; -ERR_GONE: end of
 * file; -ERR_IO. After `readable`, read until 0, because TLS may hold bytes that no event
 * announces. */
int http_tunnel_read(struct http_tunnel *t, void *data, size_t cap, struct err *err) WARN_UNUSED;

/* Writes without waiting. Returns the number of bytes taken, -ERR_GONE, or -ERR_IO. The next call
 * must begin with the bytes that were not taken and offer at least as many of them; it may use
 * other memory. */
int http_tunnel_write(struct http_tunnel *t, const void *data, size_t len,
                      struct err *err) WARN_UNUSED;

/* Sets which events are reported from now on; `ready` may be NULL only if there are none. Bytes
 * that are already buffered count as readable. */
typedef void (*http_ready_fn)(void *arg, bool readable, bool writable);
void http_tunnel_watch(struct http_tunnel *t, bool read, bool write, http_ready_fn ready,
                       void *arg);

/* Closes the tunnel; the caller must not use it any more. NULL is fine. */
void http_tunnel_close(struct http_tunnel *t);

#endif
