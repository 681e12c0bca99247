/*
 * The handshake of WebSocket (RFC 6455, section 4): what a client asks for, what of it the program
 * in the sandbox is told, and whether its answer is the one to that.
 *
 * Thread: any. Nothing blocks, but for loading GnuTLS once (web/http/digest.h).
 */
#ifndef CLOISTER_SUPERVISOR_WEB_PORTS_HANDSHAKE_H
#define CLOISTER_SUPERVISOR_WEB_PORTS_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/io/http_head.h"

struct web_exchange;

#define HANDSHAKE_KEY_CHARS   24
#define HANDSHAKE_ACCEPT_SIZE 29 /* 20 bytes in base64, and a NUL */

/* Whether a list of words with commas between them has this one, in any case. */
bool handshake_names(struct view list, const char *word);

/* Whether this is a key: 16 bytes in base64. */
bool handshake_is_key(const char *key);

/* What a server answers to a key. -ERR_CONFIG if GnuTLS cannot be loaded. */
int handshake_accept(const char *key, char ret[HANDSHAKE_ACCEPT_SIZE], struct err *err) WARN_UNUSED;

/* Whether the request wants to change to WebSocket. */
bool handshake_is_asked(const struct web_exchange *x);

/* Judges such a request: 0, or a status and why it is refused. */
int handshake_check(const struct web_exchange *x, const char **ret_why);

/* The key of a request that was judged well; borrowed from it. */
const char *handshake_key(const struct web_exchange *x);

/* The subprotocols that it offers, with commas between them; "" if there are none. The caller frees
 * it. */
char *handshake_offered(const struct web_exchange *x);

/* Appends what the program is told of it: all that is about the connection. */
int handshake_request(struct buf *out, const struct web_exchange *x, struct err *err) WARN_UNUSED;

/* What a program has agreed to. */
struct handshake_answer {
    char accept[HANDSHAKE_ACCEPT_SIZE];
    char *protocol; /* NULL: none */
};

/* Judges the head of an answer 101 to this key and these subprotocols. -ERR_PROTOCOL with the
 * reason, for people, if it is not the answer to them. */
int handshake_answer(const struct http_head *head, const char *key, const char *offered,
                     struct handshake_answer *ret, struct err *err) WARN_UNUSED;
void handshake_answer_finish(struct handshake_answer *a);

#endif
