/*
 * One libcurl "multi" on a libuv loop: sockets become uv_poll handles, its timer a uv_timer.
 *
 * While libcurl is on the stack it must not be entered again, so http_multi_add(), _remove() and
 * _close() may not be called from the callbacks that libcurl itself makes (write, header, read),
 * but may be from `on_done`.
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

/* Memory of the owner until `closed`. */
struct http_multi {
    const struct http_lib *lib;
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct http_socket *sockets;
    size_t handles; /* on the loop, the timer included */
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

/* After the last easy handle is removed and freed. `closed` comes when all is off the loop. */
void http_multi_close(struct http_multi *m, void (*closed)(void *arg));

#endif
