/*
 * One HTTP request and the response to it.
 *
 * The request is whole when a handler gets the exchange: head and body are here, within their
 * limits. The handler answers once, at once or later: with a whole body, or with a stream that it
 * writes to bit by bit. A client that reads slowly costs this stream its place in the queue and
 * nothing else; one that has gone is noticed at once.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_EXCHANGE_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/view.h"

struct web_exchange;

/* ---- the request; all borrowed, as long as the exchange ---- */

const char *web_method(const struct web_exchange *x);
const char *web_path(const struct web_exchange *x); /* decoded, without the query */
/* The first header of that name, in any case, without blanks around it; NULL if absent. */
const char *web_header(const struct web_exchange *x, const char *name);
size_t web_header_count(const struct web_exchange *x, const char *name);
/* A header whose name begins so and that is there more than once; NULL: none. */
const char *web_header_twice(const struct web_exchange *x, const char *prefix);
const char *web_query(const struct web_exchange *x, const char *name); /* decoded; NULL if absent */
struct view web_body(const struct web_exchange *x);
const char *web_peer(const struct web_exchange *x); /* address, for the log */

/* ---- the response ---- */

/* A header of the response, before it is begun. The value must have no control characters. */
void web_set_header(struct web_exchange *x, const char *name, const char *value);

/* Ends the exchange. `body` is copied; content_type NULL: no body. */
void web_respond(struct web_exchange *x, int status, const char *content_type, struct view body);

/* The same, taking over the text. */
void web_respond_text(struct web_exchange *x, int status, const char *content_type, char *text);

/* Begins a response of unknown length (chunked). */
void web_stream_begin(struct web_exchange *x, int status, const char *content_type);

/* Begins a response of so many bytes, which are then written as to a stream. To HEAD nothing is
 * written: end it at once. */
void web_stream_begin_sized(struct web_exchange *x, int status, const char *content_type,
                            uint64_t size);

/* Queues bytes, taken over. Writing to a client that has gone is harmless. */
void web_stream_write(struct web_exchange *x, char *data, size_t len);

/* Bytes that the client has not taken yet: who may drop or wait looks here before it writes. */
size_t web_stream_queued(const struct web_exchange *x);

/* Ends the exchange when all is written. */
void web_stream_end(struct web_exchange *x);

/* Ends the exchange with its connection: what is missing will not come, and the client sees it. */
void web_stream_cut(struct web_exchange *x);

/* Called when the client has hung up before the end, or we close: at most once, from the loop, and
 * not after the exchange was ended by the handler. The exchange is over when this returns. Without
 * it the handler must still end the exchange. */
void web_on_gone(struct web_exchange *x, void (*gone)(void *arg), void *arg);

/* Called whenever the queue of a stream has become empty; for who has more to write. */
void web_on_drain(struct web_exchange *x, void (*drained)(void *arg), void *arg);

#endif
