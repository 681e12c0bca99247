/*
 * A place comes from a worker, a record or a supervisor, and goes to where requests with keys are
 * sent. So it is not only cut into fields but its fields are held against each other: a certificate
 * for an address without TLS, for example, means that somebody believes in a secrecy that is not
 * there.
 */
#include "common/place.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static bool is_clean(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_good_file(const char *path)
{
    return path == NULL || (path[0] == '/' && strlen(path) < PATH_MAX && is_clean(path));
}

static const char *after(const char *text, const char *start)
{
    size_t len = strlen(start);
    return strncmp(text, start, len) == 0 ? text + len : NULL;
}

static int check_url(const struct place *p, struct err *err)
{
    const char *secure = after(p->address, "https://");
    const char *host = secure != NULL ? secure : after(p->address, "http://");
    size_t host_len = host != NULL ? strcspn(host, "/") : 0;
    if (host_len == 0 || memchr(host, '@', host_len) != NULL || strpbrk(host, " ?#\"\\") != NULL) {
        return err_set(err, ERR_INVALID,
                       "place: \"%.128s\" is no http:// or https:// address of a server",
                       p->address);
    }
    if (secure == NULL &&
        (p->verify || p->ca_file != NULL || p->cert_file != NULL || p->key_file != NULL)) {
        return err_set(err, ERR_INVALID, "place: %.128s has certificates, but no TLS", p->address);
    }
    if ((p->cert_file != NULL) != (p->key_file != NULL)) {
        return err_set(err, ERR_INVALID, "place: a certificate and its key belong together");
    }
    return 0;
}

int place_check(const struct place *p, struct err *err)
{
    bool secrets = p->verify || p->ca_file != NULL || p->cert_file != NULL || p->key_file != NULL;
    if ((p->kind == PLACE_NONE) != (p->address == NULL)) {
        return err_set(err, ERR_INVALID, "place: its kind and its address do not fit together");
    }
    if (p->address != NULL && (p->address[0] == '\0' || strlen(p->address) > PLACE_ADDRESS_MAX ||
                               !is_clean(p->address))) {
        return err_set(err, ERR_INVALID,
                       "place: the address is empty, longer than %d bytes, or has control "
                       "characters",
                       PLACE_ADDRESS_MAX);
    }
    if (!is_good_file(p->ca_file) || !is_good_file(p->cert_file) || !is_good_file(p->key_file)) {
        return err_set(err, ERR_INVALID, "place: a file for TLS has no proper absolute path");
    }
    if (p->kind == PLACE_URL) {
        return check_url(p, err);
    }
    if (secrets) {
        return err_set(err, ERR_INVALID, "place: only a URL has TLS");
    }
    if (p->kind == PLACE_SOCKET && p->address[0] != '/') {
        return err_set(err, ERR_INVALID, "place: \"%.128s\" is no absolute path of a socket",
                       p->address);
    }
    if (p->kind != PLACE_NONE && p->kind != PLACE_NAMED && p->kind != PLACE_SOCKET) {
        return err_set(err, ERR_INVALID, "place: there is no kind %d", (int)p->kind);
    }
    return 0;
}

static const char *dup_or_null(const char *text)
{
    return text != NULL ? alloc_strdup(text) : NULL;
}

struct place place_copy(const struct place *p)
{
    return (struct place){
        .kind = p->kind,
        .address = dup_or_null(p->address),
        .verify = p->verify,
        .ca_file = dup_or_null(p->ca_file),
        .cert_file = dup_or_null(p->cert_file),
        .key_file = dup_or_null(p->key_file),
    };
}

void place_finish(struct place *p)
{
    const char *const texts[] = {p->address, p->ca_file, p->cert_file, p->key_file};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        free((char *)(uintptr_t)texts[i]); /* ours, see place_copy() */
    }
    *p = (struct place){.kind = PLACE_NONE};
}

char *place_text(const struct place *p)
{
    return alloc_printf("%s%s", p->kind == PLACE_SOCKET ? "unix://" : "",
                        p->address != NULL ? p->address : "");
}
