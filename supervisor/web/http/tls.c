/*
 * Certificates that can be replaced while connections use them.
 *
 * libmicrohttpd takes certificates once, when it starts. But the session of each connection can be
 * given other credentials before its handshake, and we do that for every session. A reload
 * therefore makes a new object, and each object lives as long as a session uses it, because GnuTLS
 * keeps only the pointer.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/base/secret_file.h"
#include "supervisor/web/http/internal.h"

enum { FILE_MAX_BYTES = 1 << 20 };

struct web_tls {
    const struct tls_lib *lib; /* the listener's, which outlives its connections */
    gnutls_certificate_credentials_t credentials;
    unsigned refs;
};

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
    *t = (struct web_tls){lib, credentials, 1};
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
        free(t);
    }
}
