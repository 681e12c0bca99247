/*
 * A file of a sandbox was written by untrusted code, and is served from our origin. So a browser
 * must not run any of it. Possibly active types (HTML, SVG, scripts, PDF) and unknown types are
 * downloads, whatever their type says; browsers may not guess types (nosniff); and if a browser
 * shows a file all the same, it is a document without an origin that may load nothing.
 *
 * Browsers play sound and video in a page that they make themselves. That page has our policy and
 * loads the file once more, so the policy allows media. Nothing else of the file is in that page,
 * so nothing of it can run.
 */
#include "supervisor/web/files/headers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "supervisor/web/http/exchange.h"

#define NAME_BYTES (16u << 10)
#define DIGITS_MAX 19

static const char *const shown[] = {
    "audio/mpeg", "audio/wav", "image/avif", "image/bmp", "image/gif",
    "image/jpeg", "image/png", "image/webp", "text/csv",  "text/markdown",
    "text/plain", "video/mp4", "video/webm",
};

static const char policy[] = "default-src 'none'; sandbox";
static const char policy_of_player[] =
    "default-src 'none'; media-src 'self'; style-src 'unsafe-inline'";

static bool is_played(const char *type)
{
    return type != NULL && (strncmp(type, "audio/", 6) == 0 || strncmp(type, "video/", 6) == 0);
}

static bool is_shown(const char *type)
{
    for (size_t i = 0; type != NULL && i < sizeof(shown) / sizeof(shown[0]); i++) {
        if (strcmp(type, shown[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* RFC 6266: a plain ASCII name for old clients, and the real name, encoded. */
static void set_disposition(struct web_exchange *x, const char *path, bool inline_)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    CLEANUP_BUF struct buf text;
    buf_init(&text, NAME_BYTES);
    int rc = buf_printf(&text, NULL, "%s; filename=\"", inline_ ? "inline" : "attachment");
    for (const char *p = name; rc == 0 && *p != '\0'; p++) {
        rc = buf_add(&text, strchr(plain, *p) != NULL || *p == ' ' ? p : "_", 1, NULL);
    }
    if (rc == 0) {
        rc = buf_add_str(&text, "\"; filename*=UTF-8''", NULL);
    }
    for (const char *p = name; rc == 0 && *p != '\0'; p++) {
        rc = strchr(plain, *p) != NULL ? buf_add(&text, p, 1, NULL)
                                       : buf_printf(&text, NULL, "%%%02X", (unsigned char)*p);
    }
    const char *header = rc == 0 ? buf_cstr(&text) : NULL;
    web_set_header(x, "Content-Disposition",
                   header != NULL ? header : (inline_ ? "inline" : "attachment"));
}

void file_headers_set(struct web_exchange *x, const char *path, const char *type, const char *etag)
{
    web_set_header(x, "X-Content-Type-Options", "nosniff");
    web_set_header(x, "Content-Security-Policy", is_played(type) ? policy_of_player : policy);
    web_set_header(x, "Referrer-Policy", "no-referrer");
    web_set_header(x, "Cache-Control", "private, no-cache");
    web_set_header(x, "Accept-Ranges", "bytes");
    web_set_header(x, "ETag", etag);
    set_disposition(x, path, is_shown(type));
}

const char *file_content_type(const char *type, char *scratch, size_t size)
{
    if (type == NULL) {
        return "application/octet-stream";
    }
    if (strncmp(type, "text/", 5) != 0) {
        return type;
    }
    snprintf(scratch, size, "%s; charset=utf-8", type);
    return scratch;
}

void file_etag(uint64_t stamp, char ret[FILE_ETAG_SIZE])
{
    snprintf(ret, FILE_ETAG_SIZE, "\"%016" PRIx64 "\"", stamp);
}

bool file_is_known(const struct web_exchange *x, const char *etag)
{
    const char *known = web_header(x, "If-None-Match");
    return known != NULL && (strcmp(known, "*") == 0 || strstr(known, etag) != NULL);
}

/* Parses digits at *at; false if there are none, or too many. */
static bool take_number(const char **at, uint64_t *ret)
{
    size_t len = strspn(*at, "0123456789");
    char digits[DIGITS_MAX + 1];
    if (len == 0 || len > DIGITS_MAX) {
        return false;
    }
    memcpy(digits, *at, len);
    digits[len] = '\0';
    *at += len;
    return str_to_u64(digits, 0, INT64_MAX, ret, NULL) == 0;
}

struct file_range file_range_parse(const char *header)
{
    const struct file_range none = {.to = UINT64_MAX};
    struct file_range r = {.asked = true, .to = UINT64_MAX};
    if (header == NULL || strncasecmp(header, "bytes=", 6) != 0) {
        return none;
    }
    header += 6;
    if (*header == '-') {
        header++;
        r.suffix = true;
        return take_number(&header, &r.from) && *header == '\0' ? r : none;
    }
    if (!take_number(&header, &r.from) || *header++ != '-') {
        return none;
    }
    if (*header != '\0' && !take_number(&header, &r.to)) {
        return none;
    }
    return *header == '\0' && r.to >= r.from ? r : none;
}

bool file_range_fit(const struct file_range *range, uint64_t size, uint64_t *ret_at,
                    uint64_t *ret_end)
{
    if (range->suffix) {
        *ret_at = range->from < size ? size - range->from : 0;
        *ret_end = size;
        return range->from > 0 && size > 0;
    }
    *ret_at = range->from;
    *ret_end = range->to < size ? range->to + 1 : size;
    return !range->asked || range->from < size;
}
