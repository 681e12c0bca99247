/*
 * libmicrohttpd and GnuTLS as tables of functions, loaded when HTTP is first asked for.
 *
 * Linking them would cost every start over stdio about 2.7 MB and 1.4 ms, and most servers on stdio
 * never use them. The types come from the libraries' headers: each pointer has the type of its
 * function.
 *
 * Thread: the loop thread. The first call of each reads files and runs the libraries' initialisers;
 * it blocks for some milliseconds, once.
 */
#ifndef CLOISTER_SUPERVISOR_WEB_HTTP_MHD_H
#define CLOISTER_SUPERVISOR_WEB_HTTP_MHD_H

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>

#include "common/err.h"

/* Each is MHD_<name>. */
#define MHD_LIB_LIST(X)                                                                            \
    X(start_daemon)                                                                                \
    X(stop_daemon)                                                                                 \
    X(run)                                                                                         \
    X(get_timeout)                                                                                 \
    X(get_daemon_info)                                                                             \
    X(add_connection)                                                                              \
    X(suspend_connection)                                                                          \
    X(resume_connection)                                                                           \
    X(get_connection_info)                                                                         \
    X(get_connection_values)                                                                       \
    X(queue_response)                                                                              \
    X(create_response_from_buffer)                                                                 \
    X(create_response_from_callback)                                                               \
    X(create_response_for_upgrade)                                                                 \
    X(upgrade_action)                                                                              \
    X(add_response_header)                                                                         \
    X(destroy_response)                                                                            \
    X(is_feature_supported)

struct mhd_lib {
    void *handle;
#define X(name) __typeof__(MHD_##name) *name;
    MHD_LIB_LIST(X)
#undef X
};

/* Each is gnutls_<name>. */
#define TLS_LIB_LIST(X)                                                                            \
    X(certificate_allocate_credentials)                                                            \
    X(certificate_free_credentials)                                                                \
    X(certificate_get_crt_raw)                                                                     \
    X(certificate_set_x509_key_mem2)                                                               \
    X(credentials_set)                                                                             \
    X(hash)                                                                                        \
    X(hash_deinit)                                                                                 \
    X(hash_fast)                                                                                   \
    X(hash_init)                                                                                   \
    X(hmac_fast)                                                                                   \
    X(record_check_pending)                                                                        \
    X(record_recv)                                                                                 \
    X(record_send)                                                                                 \
    X(strerror)                                                                                    \
    X(transport_set_ptr2)                                                                          \
    X(transport_set_pull_function)                                                                 \
    X(x509_crt_deinit)                                                                             \
    X(x509_crt_get_subject_alt_name)                                                               \
    X(x509_crt_import)                                                                             \
    X(x509_crt_init)

struct tls_lib {
    void *handle;
#define X(name) __typeof__(gnutls_##name) *name;
    TLS_LIB_LIST(X)
#undef X
};

/* Fills a table. Returns -ERR_CONFIG with a text that says what to install. The code stays in the
 * process, so a table needs no destructor. */
int mhd_lib_open(struct mhd_lib *ret, struct err *err) WARN_UNUSED;
int tls_lib_open(struct tls_lib *ret, struct err *err) WARN_UNUSED;

#endif
