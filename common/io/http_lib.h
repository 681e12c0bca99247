/*
 * libcurl as a table of functions, loaded when the first HTTP client is created.
 *
 * Linking it would cost every process about 5 MB and 6 ms for some twenty libraries, also if it
 * makes no HTTP request. Each pointer has the type of its function in libcurl's header.
 *
 * Thread: the loop thread. Loading reads files and runs the libraries' initialisers; it blocks for
 * those milliseconds, once.
 */
#ifndef CLOISTER_COMMON_IO_HTTP_LIB_H
#define CLOISTER_COMMON_IO_HTTP_LIB_H

#include <curl/curl.h>

#include "common/err.h"

/* Each is curl_<name>. */
#define HTTP_LIB_LIST(X)                                                                           \
    X(global_init)                                                                                 \
    X(global_cleanup)                                                                              \
    X(version)                                                                                     \
    X(slist_append)                                                                                \
    X(slist_free_all)                                                                              \
    X(easy_init)                                                                                   \
    X(easy_cleanup)                                                                                \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_pause)                                                                                  \
    X(easy_send)                                                                                   \
    X(easy_recv)                                                                                   \
    X(multi_init)                                                                                  \
    X(multi_cleanup)                                                                               \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_socket_action)                                                                         \
    X(multi_info_read)                                                                             \
    X(multi_strerror)

struct http_lib {
    void *handle;
#define X(name) __typeof__(curl_##name) *name;
    HTTP_LIB_LIST(X)
#undef X
};

/* -ERR_ENGINE, with a text that says what to install. */
int http_lib_open(struct http_lib *ret, struct err *err) WARN_UNUSED;

/* The same with other file names, ended by NULL. */
int http_lib_open_from(const char *const *names, struct http_lib *ret, struct err *err) WARN_UNUSED;

/* Call it after all handles that were made with the table are freed. A zeroed table is fine. */
void http_lib_close(struct http_lib *lib);

#endif
