/*
 * One libcurl "multi" on a libuv loop: its sockets are uv_poll handles, its timer a uv_timer.
 *
 * libcurl must not be entered again from inside one of its functions. So http_multi_add(),
 * _remove() and _close() may not be called from libcurl's callbacks (write, header, read), but may
 * be called from `on_done`.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_COMMON_IO_HTTP_MULTI_H
#define CLOISTER_COMMON_IO_HTTP_MULTI_H

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"
#include "common/io/http_lib.h"

struct http_socket;

/* A transfer has ended; it is still in the multi. */
typedef void (*http_multi_done_fn)(void *arg, CURL *easy, CURLcode result);

/* Memory of the owner, needed until `closed`. */
struct http_multi {
    const struct http_lib *lib;
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct http_socket *sockets;
    size_t handles; /* handles on the loop, the timer included */
    bool closing;
    http_multi_done_fn on_done;
    void (*closed)(void *arg);
    void *arg;
};

/* At most max_idle connections are kept for later requests. -ERR_ENGINE. */
int http_multi_init(struct http_multi *m, const struct http_lib *lib, uv_loop_t *loop,
                    long max_idle, http_multi_done_fn on_done, void *arg,
                    struct err *err) WARN_UNUSED;

int http_multi_add(struct http_multi *m, CURL *easy, struct err *err) WARN_UNUSED;
void http_multi_remove(struct http_multi *m, CURL *easy);

/* All easy handles must be removed and freed before. Calls `closed` when all handles are off the
 * loop. */
void http_multi_close(struct http_multi *m, void (*closed)(void *arg));

#endif
