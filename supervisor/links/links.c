/*
 * The signed text consists of what it is (file or port), the expiry time, the sandbox and the path
 * or number. Those before the last contain no line end, so no part can be mistaken for another. The
 * text of the time is signed rather than its value, so a second spelling of the same time is not
 * valid.
 *
 * A link promises no more than the sandbox can keep: it expires at the latest when the lifetime of
 * the sandbox ends. Its idle time does not count, since use prolongs it, and fetching a file is
 * use.
 */
#include "supervisor/links/links.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/uri.h"
#include "supervisor/web/http/digest.h"

#define URL_BYTES (32u << 10)

struct links {
    struct fleet *fleet;
    char *base;
    uint64_t good_s;
    bool told; /* an unusable key has been logged */
};

struct links *links_create(struct fleet *fleet, const char *base, uint64_t good_s)
{
    struct links *l = alloc_one(struct links);
    l->fleet = fleet;
    l->base = alloc_strdup(base);
    l->good_s = good_s;
    return l;
}

void links_set_base(struct links *l, const char *base)
{
    free(l->base);
    l->base = alloc_strdup(base);
}

void links_destroy(struct links *l)
{
    if (l != NULL) {
        free(l->base);
        free(l);
    }
}

/* What a link is about: the last part of the text that is signed. */
struct subject {
    const char *kind; /* "file" "port" */
    const char *sandbox, *what;
};

static int sign(struct links *l, const char *expires, const struct subject *s,
                unsigned char ret[WEB_DIGEST_BYTES], struct err *err)
{
    unsigned char key[FLEET_KEY_BYTES];
    int rc = fleet_key(l->fleet, key, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *text = alloc_printf("%s\n%s\n%s\n%s", s->kind, expires, s->sandbox, s->what);
    rc = web_digest_hmac(view_bytes(key, sizeof(key)), view_of(text), ret, err);
    explicit_bzero(key, sizeof(key));
    return rc;
}

struct proof {
    char expires[24];
    char signature[WEB_DIGEST_HEX_SIZE];
};

/* False if there is no key. */
static bool prove(struct links *l, const struct subject *s, struct proof *ret)
{
    struct err err = ERR_INIT;
    unsigned char digest[WEB_DIGEST_BYTES];
    uint64_t lives_s = fleet_life_left_ms(l->fleet, s->sandbox) / 1000;
    uint64_t good_s = lives_s < l->good_s ? lives_s : l->good_s;
    snprintf(ret->expires, sizeof(ret->expires), "%" PRIu64, clock_wall_ms() / 1000 + good_s);
    if (sign(l, ret->expires, s, digest, &err) < 0) {
        log_warn("no link to a %s could be made: %s", s->kind, err.text);
        return false;
    }
    web_digest_hex(digest, ret->signature);
    return true;
}

/* Makes "?expires=…&sig=…", or with & in front; NULL if there is no key. */
static char *make_proof(struct links *l, char first, const char *sandbox, const char *path)
{
    const struct subject s = {"file", sandbox, path};
    struct proof proof;
    return prove(l, &s, &proof)
               ? alloc_printf("%cexpires=%s&sig=%s", first, proof.expires, proof.signature)
               : NULL;
}

char *links_make(struct links *l, const char *sandbox, const char *path)
{
    CLEANUP_FREE struct uri *u = NULL;
    if (l == NULL) {
        return NULL;
    }
    CLEANUP_FREE char *uri =
        uri_of_file(sandbox, fleet_workspace(l->fleet, sandbox), view_of(path));
    u = alloc_one(struct uri);
    if (uri == NULL || !uri_parse(uri, u)) {
        return NULL;
    }
    CLEANUP_FREE char *proof = make_proof(l, '?', sandbox, u->path);
    return proof != NULL ? alloc_printf("%s/files/%s%s", l->base, uri + strlen(URI_SANDBOX), proof)
                         : NULL;
}

/* Appends a path with everything escaped that means something in a URL. */
static int add_path(struct buf *url, const char *path)
{
    int rc = 0;
    for (const char *p = path; rc == 0 && *p != '\0'; p++) {
        bool plain = isalnum((unsigned char)*p) || strchr("-._~/", *p) != NULL;
        rc = plain ? buf_add(url, p, 1, NULL) : buf_printf(url, NULL, "%%%02X", (unsigned char)*p);
    }
    return rc;
}

/* Makes a URL of the path between these texts, which are part of a URL already. */
static char *make_between(struct links *l, const char *before, const char *behind,
                          const char *sandbox, const char *path)
{
    CLEANUP_BUF struct buf url;
    buf_init(&url, URL_BYTES);
    CLEANUP_FREE char *proof = make_proof(l, '&', sandbox, path);
    int rc = proof == NULL ? -1 : buf_printf(&url, NULL, "%s%s", l->base, before);
    rc = rc == 0 ? add_path(&url, path) : rc;
    rc = rc == 0 ? buf_printf(&url, NULL, "%s%s", behind, proof) : rc;
    return rc == 0 ? alloc_viewdup(view_bytes(url.data, url.len)) : NULL;
}

char *links_make_foreign(struct links *l, const char *key, const char *sandbox, const char *path)
{
    CLEANUP_FREE char *before = alloc_printf("/sandbox/file?%s=%s&file_path=", key, sandbox);
    return l != NULL ? make_between(l, before, "", sandbox, path) : NULL;
}

char *links_make_static(struct links *l, const char *key, const char *sandbox, const char *name)
{
    CLEANUP_FREE char *behind = alloc_printf("?%s=%s", key, sandbox);
    return l != NULL ? make_between(l, "/static/", behind, sandbox, name) : NULL;
}

char *links_make_port(struct links *l, const char *sandbox, uint16_t port, uint64_t *ret_expires_s)
{
    char number[8];
    const struct subject s = {"port", sandbox, number};
    struct proof proof;
    snprintf(number, sizeof(number), "%u", (unsigned)port);
    if (l == NULL || !prove(l, &s, &proof)) {
        return NULL;
    }
    err_ignore(str_to_u64(proof.expires, 0, UINT64_MAX, ret_expires_s, NULL)); /* it is a number */
    return alloc_printf("%s/ports/%s/%s/%s/%s/", l->base, sandbox, number, proof.expires,
                        proof.signature);
}

static enum link_state check(struct links *l, const struct subject *s, const char *expires,
                             const char *signature)
{
    struct err err = ERR_INIT;
    unsigned char ours[WEB_DIGEST_BYTES], theirs[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    uint64_t until_s = 0;
    if (expires == NULL || signature == NULL || strlen(signature) != sizeof(hex) - 1 ||
        str_to_u64(expires, 0, INT64_MAX / 1000, &until_s, NULL) < 0) {
        return LINK_WRONG;
    }
    if (sign(l, expires, s, ours, &err) < 0) {
        /* an instance without sandboxes has no key yet; anybody can send such a request, so other
         * errors are logged once */
        if (err.code != ERR_SANDBOX_NOT_FOUND && !l->told) {
            l->told = true;
            log_error("links cannot be checked, and are refused: %s", err.text);
        }
        return LINK_WRONG;
    }
    /* Compares digests of both texts, which takes the same time wherever they differ. */
    web_digest_hex(ours, hex);
    if (web_digest_sha256(view_of(hex), ours, &err) < 0 ||
        web_digest_sha256(view_of(signature), theirs, &err) < 0 ||
        !web_digest_equal(ours, theirs)) {
        return LINK_WRONG;
    }
    return clock_wall_ms() / 1000 < until_s ? LINK_GOOD : LINK_EXPIRED;
}

enum link_state links_check(struct links *l, const char *sandbox, const char *path,
                            const char *expires, const char *signature)
{
    const struct subject s = {"file", sandbox, path};
    return check(l, &s, expires, signature);
}

enum link_state links_check_port(struct links *l, const char *sandbox, uint16_t port,
                                 const char *expires, const char *signature)
{
    char number[8];
    const struct subject s = {"port", sandbox, number};
    snprintf(number, sizeof(number), "%u", (unsigned)port);
    return check(l, &s, expires, signature);
}
