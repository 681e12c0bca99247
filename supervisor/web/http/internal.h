/*
 * What the files of the HTTP server share: listener, connections, exchanges.
 *
 * Ownership. A listener owns its connections. libmicrohttpd owns their sockets: we watch them and
 * shut them down, but never close them. An exchange has two sides, libmicrohttpd's and the
 * handler's, and is freed when both are done with it. The listener's memory stays until its last
 * exchange is freed, since a handler may answer late.
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
#include "common/sm.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/listener.h"
#include "supervisor/web/http/mhd.h"

#define WEB_SOCKETS_MAX 8  /* addresses of one name */
#define WEB_LINGER_MAX  64 /* connections whose remaining input is read and dropped */
#define WEB_PEER_SIZE   64

struct web_cipher;
struct web_tls;
struct web_tunnel;

/* ---- sockets (sockets.c) ---- */

/* Opens a listening socket for each address of the name, all on the same port. The caller frees
 * *ret_url. Returns their number, or an error that says why none could be opened. */
int web_sockets_open(const char *address, uint16_t port, bool tls, int fds[WEB_SOCKETS_MAX],
                     char **ret_url, struct err *err) WARN_UNUSED;

/* Whether the process that has connected to a unix socket of ours is this user's, or root's. */
bool web_socket_is_of_user(int fd);

/* The peer of a connection: a text for the log, and the key by which connections are counted. */
struct web_peer {
    char text[WEB_PEER_SIZE];
    /* for IPv6 the network of 64 bits, because one client often owns all of it */
    unsigned char key[8];
    size_t key_len;
    bool loopback;
};
void web_peer_set(struct web_peer *peer, int fd, const struct sockaddr *address);

/* ---- certificates (tls.c) ---- */

#define WEB_NAMES_MAX 64 /* of one certificate; further ones are left out */

/* Reads the certificate files anew. Existing connections keep the certificate that they have. */
int web_tls_load(const struct tls_lib *lib, const char *cert_file, const char *key_file,
                 struct web_tls **ret, struct err *err) WARN_UNUSED;
/* Sets the session's credentials. The session holds `t` until web_tls_release(). */
int web_tls_use(struct web_tls *t, gnutls_session_t session);
void web_tls_release(struct web_tls *t); /* NULL is fine */
/* The names in the certificate; *ret is borrowed. NULL has none. */
size_t web_tls_names(const struct web_tls *t, const char *const **ret);

/* ---- connections (connection.c) ---- */

struct web_connection {
    struct web_connection *next, *prev;
    struct web_listener *listener;
    struct MHD_Connection *mhd;    /* NULL till it has started */
    struct web_exchange *exchange; /* the exchange in progress; NULL if idle */
    struct web_tls *tls;
    int fd; /* owned by libmicrohttpd */
    struct web_peer peer;
    uv_poll_t watch; /* for its end, while a handler has the exchange */
    bool watch_made, watching;
    bool killed; /* shut down: libmicrohttpd will find its end */
    bool suspended;
    bool linger;          /* the body is not read to its end */
    uint64_t who;         /* whose latest request it had, as web_set_known(); 0: a stranger's */
    uint64_t input_since; /* when the request that is being received began */
    uint64_t deadline;    /* the connection is killed then; 0: never */
};

/* Takes ownership of the descriptor, also on failure. */
void web_connection_add(struct web_listener *l, int fd, const struct sockaddr *address,
                        socklen_t len);
/* Drops the connections that libmicrohttpd has not started; it closes their descriptors. */
void web_connection_drop_unstarted(struct web_listener *l);
void web_connection_notify(void *arg, struct MHD_Connection *mhd, void **context,
                           enum MHD_ConnectionNotificationCode what);
void web_connection_kill(struct web_connection *c);
/* The same, and the client does not see the end of an answer in it. */
void web_connection_reset(struct web_connection *c);
void web_connection_suspend(struct web_connection *c);
void web_connection_resume(struct web_connection *c);
/* Tells the exchange when the client disconnects; stopped when the exchange is over. */
void web_connection_watch(struct web_connection *c);
void web_connection_unwatch(struct web_connection *c);
/* Sets a deadline for the client to take some of what is sent; false: it has nothing to take. */
void web_connection_sending(struct web_connection *c, bool waits);
/* Sets the deadline of a request of whose body `body_bytes` have arrived. */
void web_connection_receiving(struct web_connection *c, uint64_t body_bytes);
void web_connection_received(struct web_connection *c);
void web_connection_idle(struct web_connection *c);
/* Kills the connections past their deadline; returns the next deadline, 0 if there is none. */
uint64_t web_connection_sweep(struct web_listener *l, uint64_t now);
/* Evicts one connection for a new one, of those that no handler has: the oldest of a stranger, else
 * the one whose client has kept us waiting for longest, if that is 2 s. Returns when to try again;
 * 0: when a connection closes. */
uint64_t web_connection_evict(struct web_listener *l);
/* Whether this client would have more than half of the places if the connection were his. Looks at
 * all connections. */
bool web_connection_would_be_of_many(const struct web_connection *c, uint64_t who);
/* Evicts the oldest connection of a stranger if they have so many that the places which are kept
 * for others are touched. */
void web_connection_keep_places(struct web_listener *l);

/* ---- input after our last byte (linger.c) ---------------------------------------------------- */

struct web_linger;
void web_linger_add(struct web_listener *l, int fd); /* duplicates the descriptor */
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
    struct web_listener_config config; /* owns its texts */
    char *url;
    struct web_tls *tls; /* NULL: none */
    struct web_socket sockets[WEB_SOCKETS_MAX];
    size_t socket_count;
    bool accepting;
    uint64_t accept_at; /* out of descriptors: accept again then */
    uint64_t evict_at;  /* full, and nothing can be evicted before then */
    uint64_t accept_warned;
    uint64_t strangers_warned; /* of rate_limit() */
    uv_poll_t daemon_poll;
    uv_timer_t run_timer; /* the next run that libmicrohttpd asks for */
    uv_timer_t sweep;     /* our deadlines */
    uint64_t sweep_at;
    uv_idle_t kick;
    struct web_connection *connections;
    size_t connection_count;
    struct web_linger *lingers;
    size_t linger_count;
    /* exchanges whose client was gone before the handler called web_on_gone() */
    struct web_exchange *late;
    size_t body_bytes, output_bytes;
    size_t handles; /* on the loop */
    size_t refs;    /* the handles, and each exchange */
    bool quiesced, closing, stopped;
    char said[256]; /* the latest log message of libmicrohttpd */
    uint64_t close_at;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Makes libmicrohttpd run from the loop, in this turn. */
void web_listener_kick(struct web_listener *l);
/* Makes the sweep run at `at` or earlier; 0 is ignored. */
void web_listener_sweep_at(struct web_listener *l, uint64_t at);
/* Counts the handles. When the last one is closed, the owner is told. */
void web_listener_handle_made(struct web_listener *l);
void web_listener_handle_closed(struct web_listener *l);
void web_listener_release(struct web_listener *l);
/* Starts to accept again after a connection was closed or became idle. */
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

/* The drawings are in states.c. */
enum web_handler_state {
    WEB_HANDLER_NONE, /* it has not been called, or only to admit the request */
    WEB_HANDLER_HAS,  /* it has the exchange */
    WEB_HANDLER_LOST, /* the same, but the client is gone, and nobody has asked to be told so */
    WEB_HANDLER_LATE, /* the same, but somebody has since, and will be: in the listener's list */
    WEB_HANDLER_OVER, /* it is done with the exchange */
    WEB_HANDLER_STATE_COUNT,
};
extern const struct sm_state web_handler_states[WEB_HANDLER_STATE_COUNT];

enum web_response_state {
    WEB_RESPONSE_NONE,
    WEB_RESPONSE_WHOLE,  /* the handler or the listener has answered */
    WEB_RESPONSE_STREAM, /* the handler has begun to */
    WEB_RESPONSE_ENDED,  /* nothing is added to the stream any more */
    WEB_RESPONSE_STATE_COUNT,
};
extern const struct sm_state web_response_states[WEB_RESPONSE_STATE_COUNT];

struct web_exchange {
    struct web_listener *listener;     /* held */
    struct web_tunnel *tunnel;         /* NULL: HTTP, or what came after it has ended */
    struct web_connection *connection; /* NULL when libmicrohttpd is done with the request */

    struct {
        char *head; /* one allocation for all texts below; NULL until the head is here */
        const char *method, *path;
        char *line;         /* owned: the target as it came, … */
        const char *target; /* … and in it, without an origin */
        struct web_field *headers, *query;
        size_t header_count, query_count;
        char peer[WEB_PEER_SIZE];
        bool bad_uri;
        bool is_old; /* HTTP/1.0: an answer of unknown length ends with the connection */
        struct buf body;
        uint64_t body_seen; /* includes bytes that were dropped */
    } request;

    struct {
        struct sm sm; /* enum web_handler_state */
        struct web_exchange *next_late;
        void (*on_gone)(void *arg);
        void *gone_arg;
        void (*on_drain)(void *arg);
        void *drain_arg;
        void *note;
        void (*note_over)(void *note); /* NULL: there is no note */
    } handler;

    struct {
        struct sm sm; /* enum web_response_state */
        int status;
        bool close; /* close the connection after the response */
        char *content_type;
        struct web_field *set; /* headers; texts owned */
        size_t set_count;
        char *text; /* a whole response */
        size_t text_len;
        uint64_t size; /* of a stream; may be MHD_SIZE_UNKNOWN */
        struct web_chunk *first, *last;
        size_t queue_bytes;
        size_t output_bytes; /* bytes of this response in the listener's sum */
        uint64_t moved_ms;   /* when it was begun, or when its client last read some of it */
    } response;
};

/* ---- the states of an exchange (states.c) ---- */

void web_exchange_init_states(struct web_exchange *x);
/* The only writers of the states; they assert that the move is declared. */
void web_handler_set(struct web_exchange *x, enum web_handler_state next);
void web_response_set(struct web_exchange *x, enum web_response_state next);
/* The handler has been called with it, and may be done with it. */
bool web_exchange_was_handed(const struct web_exchange *x);
/* The handler is done with it: calls that come now have no effect. */
bool web_exchange_is_over(const struct web_exchange *x);
/* The handler has it, and the client is there. */
bool web_exchange_is_live(const struct web_exchange *x);
bool web_exchange_is_answered(const struct web_exchange *x);

/* Callbacks of libmicrohttpd. */
void *web_request_line(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result web_request_part(void *arg, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *len, void **context);
void web_request_done(void *arg, struct MHD_Connection *mhd, void **context,
                      enum MHD_RequestTerminationCode why);

/* Answers with a line of text and closes the connection, unless the exchange was answered. */
void web_exchange_fail(struct web_exchange *x, int status, const char *text);
/* The client disconnected, or the listener closes. May free the exchange. */
void web_exchange_lose(struct web_exchange *x);
void web_exchange_tell_late(struct web_listener *l);
void web_exchange_free_if_done(struct web_exchange *x);
void web_exchange_drop_body(struct web_exchange *x);
/* Takes bytes that were sent out of the listener's sum. */
void web_exchange_uncount(struct web_exchange *x, size_t len);
void web_exchange_moved(struct web_exchange *x);
/* Hands the response to libmicrohttpd. */
enum MHD_Result web_reply_queue(struct web_exchange *x);
/* These bytes of the queue were sent. */
void web_reply_sent(struct web_exchange *x, size_t len);
/* Frees the bytes that are still to be sent; the caller then kills the connection. libmicrohttpd
 * frees its own share with the connection. */
void web_reply_drop(struct web_exchange *x);
/* Frees the rest of the response. May be called again. */
void web_reply_finish(struct web_exchange *x);

/* ---- TLS below another protocol (upgrade_tls.c) ---- */

/* Takes over the session of a connection that has changed to another protocol. NULL: no TLS. */
struct web_cipher *web_cipher_begin(const struct web_connection *connection);
/* To be called while there is a session. NULL is fine. */
void web_cipher_end(struct web_cipher *c);
/* As recv() and send() without waiting, errno included. 16 KiB hold whatever comes at once. */
ssize_t web_cipher_read(struct web_cipher *c, char *out, size_t size);
ssize_t web_cipher_write(struct web_cipher *c, const char *data, size_t size);
/* Whether there are bytes that were received already, which the socket does not tell of. */
bool web_cipher_holds(const struct web_cipher *c);

/* ---- a connection with another protocol (upgrade.c) ------------------------------------------ */

/* Nothing happens in the first two where there is none. */

/* Goes on with what has changed: bytes to send, the end of the response. May end it. */
void web_tunnel_update(struct web_exchange *x);
/* Nothing is sent or heard any more. */
void web_tunnel_end(struct web_exchange *x);
/* Callback of libmicrohttpd: the answer was sent, and the connection is ours. */
void web_tunnel_open(void *arg, struct MHD_Connection *mhd, void *context, const char *early,
                     size_t early_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle);

#endif
