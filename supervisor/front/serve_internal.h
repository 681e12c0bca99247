/*
 * What the server and its two fronts share. A front brings messages to the protocol layer; the
 * server decides when everything ends.
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

struct app;
struct control;
struct files_source;
struct fleet;
struct mcp_server;
struct ports_source;
struct serve;
struct serve_http;
struct serve_stdio;

/* ---- stdio ---------------------------------------------------------------------------------- */

/* Events of the front. */
struct serve_stdio_events {
    void (*ended)(void *arg);    /* end of input */
    void (*broken)(void *arg);   /* nobody reads our output */
    void (*answered)(void *arg); /* may come inside other calls */
};

/* Takes stdin and stdout. Call it first: any earlier open() could return one of them. NULL on
 * error. */
struct serve_stdio *serve_stdio_claim(struct err *err);

int serve_stdio_open(struct serve_stdio *s, uv_loop_t *loop, const struct config *config,
                     struct mcp_server *server, const struct serve_stdio_events *events, void *arg,
                     struct err *err) WARN_UNUSED;
bool serve_stdio_is_file(const struct serve_stdio *s);
size_t serve_stdio_open_requests(const struct serve_stdio *s);

/* Gives queued output flush_ms to leave, then calls back. */
void serve_stdio_close(struct serve_stdio *s, uint64_t flush_ms, void (*closed)(void *arg),
                       void *arg);
void serve_stdio_free(struct serve_stdio *s); /* NULL is fine */

/* ---- HTTP ----------------------------------------------------------------------------------- */

/* Does everything that can fail: reads tokens and certificates, and listens. Accepts nothing before
 * serve_http_start(). NULL on error; nothing of it is on the loop then. */
struct serve_http *serve_http_open(uv_loop_t *loop, const struct config *config, struct err *err);

/* Our URL as clients see it, without /mcp; the caller frees it. */
char *serve_http_url(const struct serve_http *h);

/* Starts to serve, and prints the URL to stderr. `fleet` has the key of session ids, and figures
 * for the page of metrics, as `app` has; `control` answers below /api/. All are borrowed until
 * serve_http_close() has called back. `files` is the source of files for links, and
 * `ports` the way to ports of sandboxes; both are copied. */
void serve_http_start(struct serve_http *h, struct mcp_server *server, struct fleet *fleet,
                      const struct app *app, struct control *control,
                      const struct files_source *files, const struct ports_source *ports);

/* Reads tokens and certificates again. What cannot be read stays as it was, which is logged; the
 * error is that of the last one. */
int serve_http_reload(struct serve_http *h, struct err *err) WARN_UNUSED;

/* Accepts no new connections and requests. */
void serve_http_quiesce(struct serve_http *h);
size_t serve_http_open_requests(const struct serve_http *h);
void serve_http_close(struct serve_http *h, uint64_t flush_ms, void (*closed)(void *arg),
                      void *arg);
void serve_http_free(struct serve_http *h); /* NULL is fine */

#endif
