/*
 * One HTTP request and the response to it.
 *
 * A handler gets the exchange when the request is whole: head and body are here, within their
 * limits. The handler answers once, at once or later: with a whole body, or with a stream that it
 * writes in parts. A client that reads slowly delays its own stream and nothing else; a client that
 * disconnects is noticed at once.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_EXCHANGE_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/view.h"

struct web_exchange;

/* ---- the request; all borrowed, as long as the exchange ---- */

const char *web_method(const struct web_exchange *x);
const char *web_path(const struct web_exchange *x); /* decoded, without the query */
/* What the request line names, as it came: path and query, not decoded, without an origin. */
const char *web_target(const struct web_exchange *x);
/* The header at this place, 0 for the first; false if there are fewer. */
bool web_header_at(const struct web_exchange *x, size_t at, const char **ret_name,
                   const char **ret_value);
/* Whether the client speaks HTTP/1.1, and not the version before it. */
bool web_is_current(const struct web_exchange *x);
/* The first header of that name, in any case, without blanks around it; NULL if absent. */
const char *web_header(const struct web_exchange *x, const char *name);
size_t web_header_count(const struct web_exchange *x, const char *name);
/* Returns a header that occurs more than once and whose name begins with `prefix`; NULL if there is
 * none. */
const char *web_header_twice(const struct web_exchange *x, const char *prefix);
const char *web_query(const struct web_exchange *x, const char *name); /* decoded; NULL if absent */
struct view web_body(const struct web_exchange *x);
/* Moves the body to the caller, who counts it from now on, into a buffer without content. Otherwise
 * it stays until the response begins. */
void web_take_body(struct web_exchange *x, struct buf *ret);
/* For the log: the address, or "user NUMBER" behind a unix socket. */
const char *web_peer(const struct web_exchange *x);

/* Says from whom the request comes, by any number that is his own, or 0 if it is not known. Until
 * that is said, its connection is a stranger's, and gives way to others when there are many. */
void web_set_known(struct web_exchange *x, uint64_t who);

/* Whether he would have more than half of the places for connections with this one. False if it is
 * known as his already. */
bool web_would_crowd(const struct web_exchange *x, uint64_t who);

/* ---- the response ---- */

/* Sets a header of the response, before the response is begun. The value must have no control
 * characters. */
void web_set_header(struct web_exchange *x, const char *name, const char *value);

/* Ends the exchange. `body` is copied; content_type NULL: no body. */
void web_respond(struct web_exchange *x, int status, const char *content_type, struct view body);

/* The same; takes ownership of `text`. */
void web_respond_text(struct web_exchange *x, int status, const char *content_type, char *text);

/* Begins a response of unknown length (chunked). */
void web_stream_begin(struct web_exchange *x, int status, const char *content_type);

/* Begins a response of `size` bytes, which the handler then writes as to a stream. A response to
 * HEAD has no bytes: end it at once. */
void web_stream_begin_sized(struct web_exchange *x, int status, const char *content_type,
                            uint64_t size);

/* Queues bytes and takes ownership of `data`. After the client has disconnected, this only frees
 * them. */
void web_stream_write(struct web_exchange *x, char *data, size_t len);

/* Answers 101: the connection changes to `protocol`. From then on the handler writes as to a
 * stream, and `heard` is called from the loop with what the client says (borrowed during the call),
 * after whatever was written before. Only for HTTP/1.1, and where the configuration has `upgrades`.
 */
void web_upgrade(struct web_exchange *x, const char *protocol,
                 void (*heard)(void *arg, struct view bytes), void *arg);

/* While it is paused, nothing is heard, so that the client has to wait. Its end is not noticed
 * either, unless there is something to write. */
void web_upgrade_pause(struct web_exchange *x, bool paused);

/* The bytes that the client has not read yet. A writer that can drop or wait checks this before it
 * writes. */
size_t web_stream_queued(const struct web_exchange *x);

/* Ends the exchange after all queued bytes are sent. */
void web_stream_end(struct web_exchange *x);

/* Ends the exchange and closes its connection: the client sees that the response is incomplete. */
void web_stream_cut(struct web_exchange *x);

/* `gone` is called when the client disconnects before the end, or when the listener closes: at most
 * once, from the loop, and not after the handler has ended the exchange. The exchange is over when
 * `gone` returns, and it must not answer another one, since libmicrohttpd may hold its lock. A
 * handler without this callback must still end the exchange. */
void web_on_gone(struct web_exchange *x, void (*gone)(void *arg), void *arg);

/* Something of the handler's that stays with the exchange; `over` is called with it when the
 * handler is done with the exchange, however that is, or is never called for it. At most one. */
void web_set_note(struct web_exchange *x, void *note, void (*over)(void *note));
void *web_note(const struct web_exchange *x); /* NULL: none */

/* `drained` is called each time the queue of a stream becomes empty, for a writer that has more. */
void web_on_drain(struct web_exchange *x, void (*drained)(void *arg), void *arg);

#endif
