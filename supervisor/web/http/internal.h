/*
 * What the files of the HTTP server share: listener, connections, exchanges.
 *
 * Ownership. A listener owns its connections, libmicrohttpd owns their sockets: ours are only
 * looked at (watched, shut down), till it says that a connection is closed. An exchange has two
 * sides, libmicrohttpd's and the handler's, and is freed when both are done with it. The listener's
 * memory stays till its last exchange is freed, since a handler may answer late.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_INTERNAL_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "common/buf.h"
#include "common/err.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/listener.h"
#include "supervisor/web/http/mhd.h"

#define WEB_SOCKETS_MAX 8  /* addresses of one name */
#define WEB_LINGER_MAX  64 /* connections that are being drained */
#define WEB_PEER_SIZE   64

struct web_tls;

/* ---- sockets (sockets.c) ---- */

/* Opens a listening socket for each address of the name, all of the same port. *ret_url is where
 * that is, for the caller to free. Returns how many, or an error that says why not one. */
int web_sockets_open(const char *address, uint16_t port, bool tls, int fds[WEB_SOCKETS_MAX],
                     char **ret_url, struct err *err) WARN_UNUSED;

/* Who is at the other end: text for the log, and what is counted as one address. */
struct web_peer {
    char text[WEB_PEER_SIZE];
    unsigned char key[8]; /* of IPv6 the network of 64 bits, which one client often has whole */
    size_t key_len;
    bool loopback;
};
void web_peer_set(struct web_peer *peer, const struct sockaddr *address);

/* ---- certificates (tls.c) ---- */

/* Reads the files anew; connections that have the old ones keep them. */
int web_tls_load(const struct tls_lib *lib, const char *cert_file, const char *key_file,
                 struct web_tls **ret, struct err *err) WARN_UNUSED;
/* Gives them to a session, which holds them till web_tls_release(). */
int web_tls_use(struct web_tls *t, gnutls_session_t session);
void web_tls_release(struct web_tls *t); /* NULL is fine */

/* ---- connections (connection.c) ---- */

struct web_connection {
    struct web_connection *next, *prev;
    struct web_listener *listener;
    struct MHD_Connection *mhd;    /* NULL till it has started */
    struct web_exchange *exchange; /* the one that is under way */
    struct web_tls *tls;
    int fd; /* libmicrohttpd's */
    struct web_peer peer;
    uv_poll_t watch; /* for its end, while a handler has the exchange */
    bool watch_made, watching;
    bool killed; /* shut down: whatever it is asked for next fails */
    bool suspended;
    bool linger;          /* its body is not read to the end */
    uint64_t input_since; /* when the request that is being received began */
    uint64_t deadline;    /* it is killed then; 0: never */
};

/* Takes the descriptor in any case. */
void web_connection_add(struct web_listener *l, int fd, const struct sockaddr *address,
                        socklen_t len);
/* Forgets those that libmicrohttpd has not begun with; it closes their descriptors. */
void web_connection_drop_unstarted(struct web_listener *l);
void web_connection_notify(void *arg, struct MHD_Connection *mhd, void **context,
                           enum MHD_ConnectionNotificationCode what);
void web_connection_kill(struct web_connection *c);
void web_connection_suspend(struct web_connection *c);
void web_connection_resume(struct web_connection *c);
/* Tells the exchange when the client hangs up; stopped when the exchange is over. */
void web_connection_watch(struct web_connection *c);
void web_connection_unwatch(struct web_connection *c);
/* Time for a request, of which so many bytes of the body are here. */
void web_connection_receiving(struct web_connection *c, uint64_t body_bytes);
void web_connection_received(struct web_connection *c);
void web_connection_idle(struct web_connection *c);
/* Kills what is late; returns when the next one will be, 0 if none. */
uint64_t web_connection_sweep(struct web_listener *l, uint64_t now);
/* Makes room for a new connection: the one goes that we have waited for longest, for its first
 * request or the next, if that is more than a moment. Returns when to try again, 0: when one
 * closes.
 */
uint64_t web_connection_evict(struct web_listener *l);

/* ---- what is still sent to connections that we have closed (linger.c) ---- */

struct web_linger;
void web_linger_add(struct web_listener *l, int fd); /* takes a copy of the descriptor */
void web_linger_end(struct web_listener *l);

/* ---- the listener (listener.c) ---- */

struct web_socket {
    uv_poll_t poll;
    int fd; /* -1: closed */
    struct web_listener *listener;
};

struct web_listener {
    uv_loop_t *loop;
    struct mhd_lib mhd;
    struct tls_lib gnutls;
    struct MHD_Daemon *daemon;
    struct web_listener_config config; /* its texts are ours */
    char *url;
    struct web_tls *tls; /* NULL: none */
    struct web_socket sockets[WEB_SOCKETS_MAX];
    size_t socket_count;
    bool accepting;
    uint64_t accept_at; /* out of descriptors: tried again then */
    uint64_t evict_at;  /* full, and none is quiet for long: one may be then */
    uint64_t accept_warned;
    uv_poll_t daemon_poll;
    uv_timer_t run_timer; /* what libmicrohttpd wants */
    uv_timer_t sweep;     /* what we want: deadlines */
    uint64_t sweep_at;
    uv_idle_t kick;
    struct web_connection *connections;
    size_t connection_count;
    struct web_linger *lingers;
    size_t linger_count;
    struct web_exchange *late; /* whose client had gone before anybody asked to be told */
    size_t body_bytes, output_bytes;
    size_t handles; /* on the loop */
    size_t refs;    /* the handles, and each exchange */
    bool quiesced, closing, stopped;
    char said[256]; /* by libmicrohttpd, last */
    uint64_t close_at;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Has libmicrohttpd run from the loop, soon. */
void web_listener_kick(struct web_listener *l);
/* Has the sweep run then at the latest; 0 is ignored. */
void web_listener_sweep_at(struct web_listener *l, uint64_t at);
/* A handle more or less; the listener is closed when the last one is. */
void web_listener_handle_made(struct web_listener *l);
void web_listener_handle_closed(struct web_listener *l);
void web_listener_release(struct web_listener *l);
/* There is room for connections again, or there would be. */
void web_listener_accept(struct web_listener *l);

/* ---- exchanges (request.c, exchange.c, reply.c) ---- */

struct web_field {
    const char *name, *value;
};

struct web_chunk {
    struct web_chunk *next;
    char *data;
    size_t len, taken;
};

struct web_exchange {
    struct web_listener *listener;     /* held */
    struct web_connection *connection; /* NULL when libmicrohttpd is done with the request */
    struct web_exchange *next_late;
    /* the request */
    char *head; /* one piece of memory for all texts below */
    const char *method, *path;
    struct web_field *headers, *query;
    size_t header_count, query_count;
    char peer[WEB_PEER_SIZE];
    struct buf body;
    uint64_t body_seen; /* also bytes that were not kept */
    bool bad_uri;
    bool head_seen, has_body;
    /* the handler */
    bool handed; /* it has the exchange, or had it */
    bool over;   /* it is done with it */
    bool lost;   /* the client is */
    bool late;   /* in the listener's list */
    void (*on_gone)(void *arg);
    void *gone_arg;
    void (*on_drain)(void *arg);
    void *drain_arg;
    /* the response */
    bool answered; /* begun by the handler or by us */
    bool queued;   /* libmicrohttpd has it */
    bool stream, ended;
    bool sized; /* a stream whose length is known */
    uint64_t size;
    bool close; /* the connection, behind it */
    int status;
    struct web_field *set; /* headers; texts owned */
    size_t set_count;
    char *content_type;
    char *text; /* of a whole response */
    size_t text_len;
    size_t output_bytes; /* of it, in the listener's sum */
    uint64_t moved_ms;   /* when it was begun, or its client took some of it */
    struct web_chunk *first, *last;
    size_t queue_bytes;
};

/* Callbacks of libmicrohttpd. */
void *web_request_line(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result web_request_part(void *arg, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *len, void **context);
void web_request_done(void *arg, struct MHD_Connection *mhd, void **context,
                      enum MHD_RequestTerminationCode why);

/* Answers with a line of text and closes the connection, unless it was answered. */
void web_exchange_fail(struct web_exchange *x, int status, const char *text);
/* The client has gone, or we close. May free it. */
void web_exchange_lose(struct web_exchange *x);
void web_exchange_tell_late(struct web_listener *l);
void web_exchange_free_if_done(struct web_exchange *x);
void web_exchange_drop_body(struct web_exchange *x);
/* So many bytes of the response have left. */
void web_exchange_uncount(struct web_exchange *x, size_t len);
void web_exchange_moved(struct web_exchange *x);
/* Hands the response to libmicrohttpd. */
enum MHD_Result web_reply_queue(struct web_exchange *x);
/* Frees what is still to be sent; its connection is killed behind this. What libmicrohttpd has goes
 * with the connection. */
void web_reply_drop(struct web_exchange *x);
/* Frees what is left of it. May be repeated. */
void web_reply_finish(struct web_exchange *x);

#endif
