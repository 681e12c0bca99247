/*
 * The library is opened anew for each digest. After the first time this only looks up a few names,
 * which takes microseconds and happens at most once a request; in return there is no state to keep
 * or to share.
 */
#include "supervisor/web/http/digest.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/web/http/mhd.h"

struct web_hash {
    struct tls_lib lib;
    gnutls_hash_hd_t handle;
};

static int digest_of(gnutls_digest_algorithm_t how, const char *name, struct view data,
                     unsigned char *out, struct err *err)
{
    struct tls_lib lib;
    int rc = tls_lib_open(&lib, err);
    if (rc < 0) {
        return rc;
    }
    rc = lib.hash_fast(how, data.data != NULL ? data.data : "", data.len, out);
    return rc < 0 ? err_set(err, ERR_INTERNAL, "%s: %s", name, lib.strerror(rc)) : 0;
}

int web_digest_sha256(struct view data, unsigned char out[WEB_DIGEST_BYTES], struct err *err)
{
    return digest_of(GNUTLS_DIG_SHA256, "SHA-256", data, out, err);
}

int web_digest_sha1(struct view data, unsigned char out[WEB_SHA1_BYTES], struct err *err)
{
    return digest_of(GNUTLS_DIG_SHA1, "SHA-1", data, out, err);
}

int web_digest_hmac(struct view key, struct view data, unsigned char out[WEB_DIGEST_BYTES],
                    struct err *err)
{
    struct tls_lib lib;
    int rc = tls_lib_open(&lib, err);
    if (rc < 0) {
        return rc;
    }
    rc = lib.hmac_fast(GNUTLS_MAC_SHA256, key.data, key.len, data.data != NULL ? data.data : "",
                       data.len, out);
    return rc < 0 ? err_set(err, ERR_INTERNAL, "HMAC: %s", lib.strerror(rc)) : 0;
}

int web_hash_begin(struct web_hash **ret, struct err *err)
{
    struct tls_lib lib;
    gnutls_hash_hd_t handle;
    int rc = tls_lib_open(&lib, err);
    if (rc < 0) {
        return rc;
    }
    rc = lib.hash_init(&handle, GNUTLS_DIG_SHA256);
    if (rc < 0) {
        return err_set(err, ERR_INTERNAL, "SHA-256: %s", lib.strerror(rc));
    }
    struct web_hash *h = alloc_one(struct web_hash);
    h->lib = lib;
    h->handle = handle;
    *ret = h;
    return 0;
}

int web_hash_add(struct web_hash *h, struct view data, struct err *err)
{
    int rc = data.len > 0 ? h->lib.hash(h->handle, data.data, data.len) : 0;
    return rc < 0 ? err_set(err, ERR_INTERNAL, "SHA-256: %s", h->lib.strerror(rc)) : 0;
}

void web_hash_end(struct web_hash *h, unsigned char out[WEB_DIGEST_BYTES])
{
    unsigned char unwanted[WEB_DIGEST_BYTES];
    h->lib.hash_deinit(h->handle, out != NULL ? out : unwanted);
    free(h);
}

void web_digest_hex(const unsigned char digest[WEB_DIGEST_BYTES], char out[WEB_DIGEST_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < WEB_DIGEST_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * WEB_DIGEST_BYTES] = '\0';
}

bool web_digest_equal(const unsigned char a[WEB_DIGEST_BYTES],
                      const unsigned char b[WEB_DIGEST_BYTES])
{
    unsigned differ = 0;
    for (size_t i = 0; i < WEB_DIGEST_BYTES; i++) {
        differ |= (unsigned)(a[i] ^ b[i]);
    }
    return differ == 0;
}
