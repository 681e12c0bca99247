/*
 * Certificates that can be replaced while connections use them.
 *
 * libmicrohttpd takes certificates once, when it starts. But the session of each connection can be
 * given other credentials before its handshake, and we do that for every session. A reload
 * therefore makes a new object, and each object lives as long as a session uses it, because GnuTLS
 * keeps only the pointer.
 *
 * The names in a certificate are names of this server: who holds its key may answer for them, and a
 * client that reaches us by one has checked it. So they are kept for the check of Host (guard.c).
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/net/authority.h"
#include "supervisor/base/secret_file.h"
#include "supervisor/web/http/internal.h"

enum { FILE_MAX_BYTES = 1 << 20 };

struct web_tls {
    const struct tls_lib *lib; /* the listener's, which outlives its connections */
    gnutls_certificate_credentials_t credentials;
    unsigned refs;
    char *names[WEB_NAMES_MAX]; /* DNS names and addresses of the certificate */
    size_t name_count;
};

/* ---- names ---- */

/* Keeps one name; what no Host header can have is left out. */
static void keep_name(struct web_tls *t, int type, const char *data, size_t size)
{
    char text[INET6_ADDRSTRLEN];
    if (type == GNUTLS_SAN_DNSNAME && size > 0 && memchr(data, '\0', size) == NULL) {
        t->names[t->name_count++] = alloc_viewdup(view_bytes(data, size));
    } else if (type == GNUTLS_SAN_IPADDRESS && (size == 4 || size == 16) &&
               inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text, sizeof(text)) != NULL) {
        t->names[t->name_count++] = size == 4 ? alloc_strdup(text) : alloc_printf("[%s]", text);
    }
}

/* A certificate whose names cannot be read serves all the same: then --allow-hosts names them. */
static void read_names(struct web_tls *t)
{
    char name[AUTHORITY_HOST_SIZE];
    gnutls_datum_t der;
    gnutls_x509_crt_t crt;
    if (t->lib->certificate_get_crt_raw(t->credentials, 0, 0, &der) < 0 ||
        t->lib->x509_crt_init(&crt) < 0) {
        return;
    }
    if (t->lib->x509_crt_import(crt, &der, GNUTLS_X509_FMT_DER) >= 0) {
        for (unsigned i = 0; t->name_count < WEB_NAMES_MAX; i++) {
            size_t size = sizeof(name);
            int type = t->lib->x509_crt_get_subject_alt_name(crt, i, name, &size, NULL);
            if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) {
                break;
            }
            if (type < 0 && type != GNUTLS_E_SHORT_MEMORY_BUFFER &&
                type != GNUTLS_E_X509_UNKNOWN_SAN) {
                break;
            }
            keep_name(t, type, name, size);
        }
    }
    t->lib->x509_crt_deinit(crt);
}

size_t web_tls_names(const struct web_tls *t, const char *const **ret)
{
    *ret = t != NULL ? (const char *const *)t->names : NULL;
    return t != NULL ? t->name_count : 0;
}

/* ---- files ---- */

static int check_filled(const char *path, const char *what, const struct buf *pem, struct err *err)
{
    if (pem->len == 0) {
        return err_set(err, ERR_CONFIG, "TLS: %s %s is empty; it must be PEM", what, path);
    }
    return 0;
}

static int read_certificate(const char *path, struct buf *out, struct err *err)
{
    buf_init(out, FILE_MAX_BYTES);
    if (file_read(path, out, err) < 0) {
        return err_wrap(err, "TLS: certificate");
    }
    return check_filled(path, "certificate", out, err);
}

static int read_key(const char *path, struct buf *out, struct err *err)
{
    bool open = false;
    if (secret_file_read(path, out, &open, err) < 0) {
        return err_wrap(err, "TLS: key");
    }
    if (open) {
        return err_set(err, ERR_CONFIG,
                       "TLS: everybody may read the key %s, and so pass for this server: chmod 600 "
                       "%s, and if somebody has read it, make a new one",
                       path, path);
    }
    return check_filled(path, "key", out, err);
}

int web_tls_load(const struct tls_lib *lib, const char *cert_file, const char *key_file,
                 struct web_tls **ret, struct err *err)
{
    CLEANUP_BUF struct buf cert;
    __attribute__((cleanup(secret_file_wipe))) struct buf key;
    buf_init(&cert, 0);
    buf_init(&key, 0);
    if (read_certificate(cert_file, &cert, err) < 0 || read_key(key_file, &key, err) < 0) {
        return -err->code;
    }
    gnutls_certificate_credentials_t credentials = NULL;
    int rc = lib->certificate_allocate_credentials(&credentials);
    if (rc < 0) {
        return err_set(err, ERR_NO_MEMORY, "TLS: %s", lib->strerror(rc));
    }
    const gnutls_datum_t cert_text = {cert.data, (unsigned)cert.len};
    const gnutls_datum_t key_text = {key.data, (unsigned)key.len};
    rc = lib->certificate_set_x509_key_mem2(credentials, &cert_text, &key_text, GNUTLS_X509_FMT_PEM,
                                            NULL, 0);
    if (rc < 0) {
        lib->certificate_free_credentials(credentials);
        if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH) {
            return err_set(err, ERR_CONFIG, "TLS: the key %s does not belong to the certificate %s",
                           key_file, cert_file);
        }
        return err_set(err, ERR_CONFIG,
                       "TLS: certificate %s and key %s: %s; both must be PEM, the key without a "
                       "password",
                       cert_file, key_file, lib->strerror(rc));
    }
    struct web_tls *t = alloc_one(struct web_tls);
    *t = (struct web_tls){.lib = lib, .credentials = credentials, .refs = 1};
    read_names(t);
    *ret = t;
    return 0;
}

int web_tls_use(struct web_tls *t, gnutls_session_t session)
{
    int rc = t->lib->credentials_set(session, GNUTLS_CRD_CERTIFICATE, t->credentials);
    if (rc >= 0) {
        t->refs++;
    }
    return rc;
}

void web_tls_release(struct web_tls *t)
{
    if (t != NULL && --t->refs == 0) {
        t->lib->certificate_free_credentials(t->credentials);
        for (size_t i = 0; i < t->name_count; i++) {
            free(t->names[i]);
        }
        free(t);
    }
}
