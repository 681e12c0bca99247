/*
 * Heads on their way through: what of a request's head the program in the sandbox is told, and what
 * of its answer's head the browser gets.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_PORTS_HEAD_H
#define CLOISTER_SUPERVISOR_WEB_PORTS_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/io/http_head.h"
#include "supervisor/web/ports/address.h"

struct web_exchange;

/* Appends the head of a request for `address`, with a body of so many bytes. */
int port_head_request(struct buf *out, const struct web_exchange *x,
                      const struct port_address *address, size_t body_bytes,
                      struct err *err) WARN_UNUSED;

/* Sets the headers that every response of ours below such an address has. */
void port_head_protect(struct web_exchange *x);

#define PORT_NAMES_MAX 2048 /* bytes of the list below */

/* The headers that a page may send, where `asked` is the list of those that it wants to (NULL:
 * there is none). The caller frees it. */
char *port_head_allowed(const char *asked);

/* Answers what a browser asks before a request of a page (CORS). False: it is no such question. */
bool port_head_preflight(struct web_exchange *x);

/* What an answer's head says. */
struct port_answer {
    int status;
    bool has_body;
    struct http_framing framing;
    char *type;     /* Content-Type; NULL: none */
    char *location; /* as the browser gets it; NULL: none */
};

/* Reads a final head (not 1xx). -ERR_PROTOCOL with the reason, for people, if it cannot be passed
 * on. `method` and `address` are those of the request. */
int port_head_answer(const struct http_head *head, const char *method,
                     const struct port_address *address, struct port_answer *ret,
                     struct err *err) WARN_UNUSED;
void port_answer_finish(struct port_answer *a);

/* The Cache-Control that the browser gets for that of an answer (NULL: it has none): an address
 * ends with its sandbox, so nobody but this browser may keep what is there. The caller frees it. */
char *port_head_caching(const char *value);

/* Sets what of the answer's head the browser gets, but for its type. */
void port_head_pass_on(struct web_exchange *x, const struct http_head *head,
                       const struct port_answer *answer);

#endif
