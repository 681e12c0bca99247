/*
 * Parsing is strict on purpose. Clients get their URIs from us, or make them from a template with a
 * path that we gave them. So a URI that needs interpretation (dots to resolve, slashes to join) is
 * either a mistake or an attack. Only needless percent-encoding is accepted, since clients differ
 * in what they encode.
 *
 * No path is resolved here; the agent does that inside the sandbox, including symbolic links.
 */
#include "supervisor/links/uri.h"

#include <ctype.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"

/* RFC 3986: unreserved, sub-delims, ":" and "@" need no encoding in a path. */
static bool is_plain_byte(unsigned char c)
{
    return isalnum(c) || (c != '\0' && strchr("-._~!$&'()*+,;=:@", c) != NULL);
}

static bool take_id(const char **at, char id[LIMIT_NAME + 1])
{
    size_t len = strcspn(*at, "/");
    if (len == 0 || len > LIMIT_NAME || (*at)[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)(*at)[i];
        if (!isalnum(c) && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    memcpy(id, *at, len);
    id[len] = '\0';
    *at += len;
    return true;
}

/* Decodes one segment and appends it to out[*len]. */
static bool take_segment(const char **at, char *out, size_t *len)
{
    const char *p = *at;
    size_t begin = *len;
    while (*p != '\0' && *p != '/') {
        int value = (unsigned char)*p;
        if (*p == '%') {
            int high = str_hex_value(p[1]);
            int low = high >= 0 ? str_hex_value(p[2]) : -1;
            if (low < 0) {
                return false;
            }
            value = high * 16 + low;
            p += 2;
        } else if (!is_plain_byte((unsigned char)*p)) {
            return false;
        }
        if (value < 0x20 || value == 0x7f || value == '/' || *len + 2 > LIMIT_PATH) {
            return false;
        }
        out[(*len)++] = (char)value;
        p++;
    }
    *at = p;
    size_t n = *len - begin;
    bool dots = (n == 1 && out[begin] == '.') || (n == 2 && memcmp(out + begin, "..", 2) == 0);
    return n > 0 && !dots;
}

static bool take_path(const char *at, struct uri *u)
{
    size_t len = 0;
    if (*at != '/') {
        return false;
    }
    u->is_directory = false;
    while (*at == '/') {
        at++;
        if (*at == '\0') { /* the final slash, or the root */
            u->is_directory = true;
            break;
        }
        if (len + 2 > LIMIT_PATH) {
            return false;
        }
        u->path[len++] = '/';
        if (!take_segment(&at, u->path, &len)) {
            return false;
        }
    }
    if (len == 0) {
        u->path[len++] = '/';
    }
    u->path[len] = '\0';
    return *at == '\0' && utf8_valid(u->path, len);
}

bool uri_parse(const char *text, struct uri *ret)
{
    static const char file[] = URI_SANDBOX;
    static const char stream[] = URI_EXECUTION;
    if (strncmp(text, file, sizeof(file) - 1) == 0) {
        ret->kind = URI_FILE;
        text += sizeof(file) - 1;
        return take_id(&text, ret->id) && take_path(text, ret);
    }
    if (strncmp(text, stream, sizeof(stream) - 1) != 0) {
        return false;
    }
    ret->kind = URI_STREAM;
    text += sizeof(stream) - 1;
    if (!take_id(&text, ret->id)) {
        return false;
    }
    ret->is_stderr = strcmp(text, "/stderr") == 0;
    return ret->is_stderr || strcmp(text, "/stdout") == 0;
}

/* ---- formatting ------------------------------------------------------------------------------ */

/* Encodes the segments of a path; false if that is impossible. */
static bool add_segments(struct buf *out, struct view path)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t at = 0;
    while (at < path.len) {
        size_t n = 0;
        while (at + n < path.len && path.data[at + n] != '/') {
            n++;
        }
        const char *segment = path.data + at;
        at += n + 1;
        if (n == 0 || (n == 1 && segment[0] == '.')) {
            continue;
        }
        if (n == 2 && memcmp(segment, "..", 2) == 0) {
            return false;
        }
        if (buf_add(out, "/", 1, NULL) < 0) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            unsigned char c = (unsigned char)segment[i];
            if (c < 0x20 || c == 0x7f) {
                return false;
            }
            const char escaped[] = {'%', hex[c >> 4], hex[c & 0xf]};
            int rc = is_plain_byte(c) ? buf_add(out, &c, 1, NULL) : buf_add(out, escaped, 3, NULL);
            if (rc < 0) {
                return false;
            }
        }
    }
    return true;
}

char *uri_of_file(const char *id, const char *base, struct view path)
{
    CLEANUP_BUF struct buf out;
    buf_init(&out, 4 * LIMIT_PATH);
    bool absolute = path.len > 0 && path.data[0] == '/';
    size_t whole = path.len + (absolute ? 0 : strlen(base) + 1);
    if (whole >= LIMIT_PATH || !utf8_valid(path.data, path.len) || (!absolute && base[0] != '/') ||
        (!absolute && !add_segments(&out, view_of(base))) || !add_segments(&out, path)) {
        return NULL;
    }
    const char *spelled = out.len > 0 ? buf_cstr(&out) : "/";
    return spelled != NULL ? alloc_printf(URI_SANDBOX "%s%s", id, spelled) : NULL;
}

char *uri_of_stream(const char *id, bool is_stderr)
{
    return alloc_printf(URI_EXECUTION "%s/%s", id, is_stderr ? "stderr" : "stdout");
}
