/*
 * What the files of the HTTP client share: the objects behind http_client.h. For http_*.c only.
 */
#ifndef CLOISTER_COMMON_IO_HTTP_INTERNAL_H
#define CLOISTER_COMMON_IO_HTTP_INTERNAL_H

#include "common/buf.h"
#include "common/io/http_client.h"
#include "common/io/http_head.h"
#include "common/io/http_lib.h"
#include "common/io/http_multi.h"

/* An endpoint, copied and looked at. */
struct http_site {
    char *name, *base_url, *unix_socket, *ca_file, *cert_file, *key_file;
    char *authority;  /* "host:port", as in the Host header */
    const char *root; /* of paths, the end of base_url: "" or "/base" */
    bool verify, tls;
    bool direct; /* a unix socket or this machine itself: never through a proxy */
};

/* -ERR_INVALID. */
int http_site_init(struct http_site *site, const struct http_endpoint *endpoint,
                   struct err *err) WARN_UNUSED;
void http_site_finish(struct http_site *site);

struct http_client {
    uv_loop_t *loop;
    struct http_lib lib;
    struct http_site site;
    struct http_multi multi; /* of ordinary calls */
    uv_idle_t kick;          /* active while something waits to be begun, dropped or closed */
    struct http_call *calls, **calls_end;
    struct http_tunnel *tunnels;
    size_t parts; /* objects that are, or have something, on the loop */
    bool closing;
    void (*closed)(void *arg);
    void *arg;
};

void http_client_part_gone(struct http_client *c);

struct http_call {
    struct http_client *client;
    struct http_call *next, **slot; /* in client->calls */
    bool begun, cancelled;
    bool valid; /* the request can be sent */
    bool again; /* … and is sent for the second time */

    char *method, *path;
    char *what;       /* for people: "GET /v1.51/info" */
    char *fields;     /* more of the head, each line ended by CR LF */
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
    bool head_whole; /* its blank line was there */
    struct buf collected;
    CURL *easy; /* NULL for a tunnel, which has its own */
    struct curl_slist *lines;
    char error[CURL_ERROR_SIZE];
    int failure;                /* -ERR_*: we ended the transfer ourselves; 0: we did not */
    struct http_tunnel *tunnel; /* while it is opened */
};

/* Ends it: tells `done` unless it was cancelled, and gives the object up. err when rc < 0. */
void http_call_fail(struct http_call *call, const struct err *err);
void http_call_succeed(struct http_call *call, int status, struct view body,
                       struct http_tunnel *tunnel);

/* Something was sent or received. */
void http_call_heard(struct http_call *call);

/* A new easy handle with all that is the same for every request. -ERR_ENGINE. */
int http_easy_create(const struct http_call *call, char *error, CURL **ret,
                     struct err *err) WARN_UNUSED;

/* What went wrong, in words; returns a negative code. */
int http_easy_error(const struct http_call *call, CURL *easy, CURLcode result, const char *detail,
                    struct err *err);

/* Begins what http_tunnel_open() asked for. */
int http_tunnel_begin(struct http_call *call, struct err *err) WARN_UNUSED;

/* The time for the call is over. True: there was a refusal to tell, and the call has ended. */
bool http_tunnel_late(struct http_tunnel *t);
bool http_tunnel_connected(const struct http_tunnel *t);

struct http_call *http_call_create(struct http_client *c, const struct http_request *request,
                                   void *arg);

/* One more option of `easy`, unless an earlier one was refused; `lib` and `rc` are the caller's. */
#define HTTP_SET(option, value)                                                                    \
    do {                                                                                           \
        if (rc == CURLE_OK) {                                                                      \
            rc = lib->easy_setopt(easy, (option), (value));                                        \
        }                                                                                          \
    } while (0)

#endif
