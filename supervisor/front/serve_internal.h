/*
 * What the life of a server and its two fronts share. A front brings messages to the protocol
 * layer; the server decides when all ends.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_SERVE_INTERNAL_H
#define CLOISTER_SUPERVISOR_FRONT_SERVE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "supervisor/base/config.h"

struct files_source;
struct mcp_server;
struct serve;
struct serve_http;
struct serve_stdio;

/* ---- stdio ---------------------------------------------------------------------------------- */

/* What it has to tell. */
struct serve_stdio_events {
    void (*ended)(void *arg);    /* end of input */
    void (*broken)(void *arg);   /* nobody reads our output */
    void (*answered)(void *arg); /* maybe inside other calls */
};

/* Takes stdin and stdout, first thing: whatever opens a descriptor before could be given one of
 * them. NULL on error. */
struct serve_stdio *serve_stdio_claim(struct err *err);

int serve_stdio_open(struct serve_stdio *s, uv_loop_t *loop, struct mcp_server *server,
                     const struct serve_stdio_events *events, void *arg,
                     struct err *err) WARN_UNUSED;
bool serve_stdio_is_file(const struct serve_stdio *s);
size_t serve_stdio_open_requests(const struct serve_stdio *s);

/* Lets what is written leave for flush_ms, then calls back. */
void serve_stdio_close(struct serve_stdio *s, uint64_t flush_ms, void (*closed)(void *arg),
                       void *arg);
void serve_stdio_free(struct serve_stdio *s); /* NULL is fine */

/* ---- HTTP ----------------------------------------------------------------------------------- */

/* Everything that can fail: reads tokens and certificates and listens. Nothing is taken before
 * serve_http_start(). NULL on error, and then nothing of it is left on the loop. */
struct serve_http *serve_http_open(uv_loop_t *loop, const struct config *config, struct err *err);

/* Our URL as clients see it, without /mcp; for the caller to free. */
char *serve_http_url(const struct serve_http *h);

/* Serves, and says on stderr where. `files` is the source of links to files, copied. */
void serve_http_start(struct serve_http *h, struct mcp_server *server,
                      const struct files_source *files);

/* SIGHUP: tokens and certificates anew. What is wrong with them is logged and changes nothing. */
void serve_http_reload(struct serve_http *h);

/* No new connections and requests. */
void serve_http_quiesce(struct serve_http *h);
size_t serve_http_open_requests(const struct serve_http *h);
void serve_http_close(struct serve_http *h, uint64_t flush_ms, void (*closed)(void *arg),
                      void *arg);
void serve_http_free(struct serve_http *h); /* NULL is fine */

#endif
