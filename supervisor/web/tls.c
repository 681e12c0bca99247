/*
 * Certificates that can be replaced while connections use them.
 *
 * libmicrohttpd takes certificates once, when it starts. But the session of each connection can be
 * given other credentials before its handshake, which is what we do with all of them; so a reload
 * is a new object here, and each object lives as long as a session has it: GnuTLS keeps only the
 * pointer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "supervisor/web/internal.h"

enum { FILE_MAX_BYTES = 1 << 20 };

struct web_tls {
    const struct tls_lib *lib; /* the listener's, which outlives its connections */
    gnutls_certificate_credentials_t credentials;
    unsigned refs;
};

/* What is in the buffer is a secret, also when it is not needed any more. */
static void finish_key(struct buf *key)
{
    if (key->data != NULL) {
        explicit_bzero(key->data, key->cap);
    }
    buf_finish(key);
}

static void check_mode(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        log_warn("TLS: the key %s can be read by others than its owner (mode %03o); chmod 600 it",
                 path, (unsigned)(st.st_mode & 0777));
    }
}

static int read_pem(const char *path, const char *what, struct buf *out, struct err *err)
{
    buf_init(out, FILE_MAX_BYTES);
    if (file_read(path, out, err) < 0) {
        return err_wrap(err, "TLS: %s", what);
    }
    if (out->len == 0) {
        return err_set(err, ERR_CONFIG, "TLS: %s %s is empty; it must be PEM", what, path);
    }
    return 0;
}

int web_tls_load(const struct tls_lib *lib, const char *cert_file, const char *key_file,
                 struct web_tls **ret, struct err *err)
{
    CLEANUP_BUF struct buf cert;
    __attribute__((cleanup(finish_key))) struct buf key;
    buf_init(&cert, 0);
    buf_init(&key, 0);
    if (read_pem(cert_file, "certificate", &cert, err) < 0 ||
        read_pem(key_file, "key", &key, err) < 0) {
        return -err->code;
    }
    check_mode(key_file);
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
