/*
 * The objects behind http_client.h, shared by http_*.c only.
 */
#ifndef CLOISTER_COMMON_IO_HTTP_INTERNAL_H
#define CLOISTER_COMMON_IO_HTTP_INTERNAL_H

#include "common/buf.h"
#include "common/io/http_client.h"
#include "common/io/http_head.h"
#include "common/io/http_lib.h"
#include "common/io/http_multi.h"

/* A copy of an endpoint, with its parsed parts. */
struct http_site {
    char *name, *base_url, *unix_socket, *ca_file, *cert_file, *key_file;
    struct view ca_pem, cert_pem, key_pem; /* owned; NULL: none */
    char *proxy;
    char *connect_to; /* "HOST:PORT:host:port", as libcurl wants it */
    char *authority;  /* "host:port", as in the Host header */
    const char *root; /* prefix of paths from base_url: "" or "/base" */
    bool verify, tls;
    long idle_s;
    bool direct; /* a unix socket or this machine: no proxy */
};

/* -ERR_INVALID. */
int http_site_init(struct http_site *site, const struct http_endpoint *endpoint,
                   struct err *err) WARN_UNUSED;
void http_site_finish(struct http_site *site);

struct http_client {
    uv_loop_t *loop;
    struct http_lib lib;
    struct http_site site;
    struct curl_slist *connect_to; /* site.connect_to as a list; NULL: none */
    struct http_multi multi;       /* of ordinary calls */
    uv_idle_t kick;                /* active while a call waits to be started, dropped or closed */
    struct http_call *calls, **calls_end;
    struct http_tunnel *tunnels;
    size_t parts; /* objects with open handles on the loop */
    bool closing;
    void (*closed)(void *arg);
    void *arg;
};

void http_client_part_gone(struct http_client *c);

struct http_call {
    struct http_client *client;
    struct http_call *next, **slot; /* in client->calls */
    bool begun, cancelled;
    bool valid;   /* the request can be sent */
    bool again;   /* it was sent a second time already */
    bool once;    /* it must not be */
    bool held;    /* on_data gets nothing now */
    bool waiting; /* libcurl has a piece that was not taken while it was held */

    char *method, *path;
    char *what;       /* for error texts: "GET /v1.51/info" */
    char *fields;     /* further header lines, each with CR LF */
    char *upgrade;    /* protocol of a tunnel */
    struct view body; /* empty once the call is cancelled */
    size_t body_sent;
    http_fill_fn fill; /* instead of body */
    uint64_t connect_ms, silence_ms, total_ms;
    http_data_fn on_data;
    http_done_fn done; /* one of these two */
    http_tunnel_fn tunnel_done;
    void *arg;

    uv_timer_t timer;
    uint64_t begin_ms, last_byte_ms; /* by the loop's clock */

    struct buf head; /* lines of the response's head, as http_head_value() reads them */
    bool head_whole; /* its blank line has come */
    struct buf collected;
    CURL *easy; /* NULL for a tunnel, which has its own */
    struct curl_slist *lines;
    char error[CURL_ERROR_SIZE];
    int failure;                /* -ERR_* if this side ended the transfer; else 0 */
    struct http_tunnel *tunnel; /* while it is opened */
};

/* Ends the call with err: calls `done` unless it was cancelled, and releases the object. */
void http_call_fail(struct http_call *call, const struct err *err);
void http_call_succeed(struct http_call *call, int status, struct view body,
                       struct http_tunnel *tunnel);

/* Bytes were sent or received: restarts the timeout for silence. */
void http_call_heard(struct http_call *call);

/* Makes an easy handle with the common options of all requests. -ERR_ENGINE on failure. */
int http_easy_create(const struct http_call *call, char *error, CURL **ret,
                     struct err *err) WARN_UNUSED;

/* Describes the failure in err; returns a negative code. */
int http_easy_error(const struct http_call *call, CURL *easy, CURLcode result, const char *detail,
                    struct err *err);

/* Begins to connect a tunnel of http_tunnel_open(). */
int http_tunnel_begin(struct http_call *call, struct err *err) WARN_UNUSED;

/* The call's timeout is over. True if a refusal was reported, which has ended the call. */
bool http_tunnel_late(struct http_tunnel *t);
bool http_tunnel_connected(const struct http_tunnel *t);

struct http_call *http_call_create(struct http_client *c, const struct http_request *request,
                                   void *arg);

/* Sets an option of `easy` unless an earlier one failed; uses `lib` and `rc` of the caller. */
#define HTTP_SET(option, value)                                                                    \
    do {                                                                                           \
        if (rc == CURLE_OK) {                                                                      \
            rc = lib->easy_setopt(easy, (option), (value));                                        \
        }                                                                                          \
    } while (0)

#endif
