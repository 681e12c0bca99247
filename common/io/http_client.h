/*
 * HTTP for engines, cloud APIs and authorization servers: one client per server, many requests at a
 * time, on the caller's loop.
 *
 * libcurl does the work; it is loaded when the first client is created, because it brings some
 * twenty libraries that a process without such a server should not carry. What a client is asked
 * is always bounded: in time (connecting, being silent, all in all) and in size.
 *
 * Thread: the loop thread. Nothing blocks, with one exception: names are resolved by libcurl's own
 * resolver thread. A callback is never called from inside the call that takes it, and exactly once,
 * unless the request is cancelled or the client closed: then not at all.
 *
 * Errors: -ERR_ENGINE when the server cannot be reached, breaks off, or libcurl is missing;
 * -ERR_TIMEOUT when a time is over; -ERR_TOO_BIG when the response is larger than allowed. Any HTTP
 * status is a success here. The text names the endpoint.
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
    const char *name;        /* for people, in errors: "unix:///run/docker.sock" */
    const char *base_url;    /* "http://localhost", "https://host:2376", no slash at the end */
    const char *unix_socket; /* path, or NULL: by the URL */
    const char *ca_file;     /* TLS; NULL: the system's, or no client certificate */
    const char *cert_file;
    const char *key_file;
    bool verify; /* false only where configuration says so */
};

struct http_client;
struct http_call;
struct http_tunnel;

struct http_response {
    int status;
    struct view body; /* empty if on_data had it */
    const struct http_call *call;
};

/* The value of a response header, by name in any case; empty if absent. Borrowed during `done`. */
struct view http_response_header(const struct http_response *response, const char *name);

/* response is valid when rc is 0, err when it is not; both during the callback only. */
typedef void (*http_done_fn)(void *arg, int rc, const struct http_response *response,
                             const struct err *err);

/* A piece, at most 16 KiB, of a body of status 2xx as it arrives; other bodies are collected. False
 * ends the call with -ERR_INVALID. Every function here may be called from it. */
typedef bool (*http_data_fn)(void *arg, struct view piece);

/* Gives the next piece of a body whose length is not known beforehand: at most cap bytes into
 * `out`. Returns how many; 0: that was all; negative: -ERR_*, which ends the call. Only
 * http_cancel() and http_client_close() may be called from it. */
typedef int (*http_fill_fn)(void *arg, char *out, size_t cap);

/* Borrowed during http_send() only, but for body, which must live until the end of the call. */
struct http_request {
    const char *method;       /* "GET", "HEAD", … */
    const char *path;         /* from the slash on, with the query */
    const char *content_type; /* of the body; NULL: none */
    struct view body;
    http_fill_fn fill;          /* instead of a body; NULL: none */
    const char *const *headers; /* more lines "Name: value"; NULL-terminated, or NULL */
    uint64_t connect_ms;        /* to have a connection; 0: 5 s */
    uint64_t silence_ms;        /* longest time without a byte either way; 0: no such bound */
    uint64_t total_ms;          /* the whole call; 0 only together with silence_ms */
    size_t max_bytes;           /* of a response body that is collected; 0: 1 MiB */
    http_data_fn on_data;       /* NULL: the body is collected */
};

int http_client_create(uv_loop_t *loop, const struct http_endpoint *endpoint,
                       struct http_client **ret, struct err *err) WARN_UNUSED;

/* Drops all calls and closes all tunnels that were not; `closed` when all is off the loop. */
void http_client_close(struct http_client *c, void (*closed)(void *arg), void *arg);

/* Never fails by itself: what goes wrong is told to `done`, a request that cannot be sent as
 * -ERR_INVALID. The result is valid until `done`. */
struct http_call *http_send(struct http_client *c, const struct http_request *request,
                            http_done_fn done, void *arg);

/* `done` will not be called. */
void http_cancel(struct http_call *call);

/* Percent-encodes for a query or a path segment; the caller frees. */
char *http_escape(const char *text);

/*
 * Tunnels: a connection that becomes a plain stream both ways after the response's head ("101
 * Switching Protocols", as Docker's attach and exec have it). A head larger than 16 KiB, a status
 * other than 101 and 200, or a peer that hangs up in the middle of it fails; for another status
 * `done` gets it with the beginning of the body as text (rc 0, tunnel NULL).
 */
typedef void (*http_tunnel_fn)(void *arg, int rc, struct http_tunnel *tunnel,
                               const struct http_response *response, const struct err *err);

/* Asks to upgrade to "tcp". `request` as for http_send; on_data and max_bytes do not count,
 * total_ms is the time until the head is there. The receiver of a tunnel owns it. */
struct http_call *http_tunnel_open(struct http_client *c, const struct http_request *request,
                                   http_tunnel_fn done, void *arg);

/* Reads what is there, at most cap bytes, without waiting. > 0 bytes; 0: nothing now; -ERR_GONE:
 * the end; -ERR_IO. After `readable`, read until 0: TLS may hold bytes that no event announces. */
int http_tunnel_read(struct http_tunnel *t, void *data, size_t cap, struct err *err) WARN_UNUSED;

/* Writes what goes without waiting. >= 0 bytes taken; -ERR_GONE, -ERR_IO. What was not taken must
 * be offered again first, at least as much of it, though not from the same memory. */
int http_tunnel_write(struct http_tunnel *t, const void *data, size_t len,
                      struct err *err) WARN_UNUSED;

/* Says which events are wanted from now on, replacing the last wish; `ready` may be NULL only with
 * neither. Bytes that are already here count as readable. */
typedef void (*http_ready_fn)(void *arg, bool readable, bool writable);
void http_tunnel_watch(struct http_tunnel *t, bool read, bool write, http_ready_fn ready,
                       void *arg);

/* Hangs up. The object is gone at once for the caller. NULL is fine. */
void http_tunnel_close(struct http_tunnel *t);

#endif
