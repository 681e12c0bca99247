/*
 * Reads heads of HTTP/1. The peer may be anything: a wrong port, a proxy, a program that is no
 * engine, hostile code.
 *
 * The reader is strict, because its uses are an engine's answer to an upgrade request and a request
 * whose target is compared with rules: an error that names the fault is better there than a guess.
 * Lines end with CR LF, a field has a name of token characters directly before its colon, no line
 * continues another, and there are no control characters. A wrong head is refused at its first
 * wrong byte, because waiting for the rest would last until the timeout if the peer speaks another
 * protocol.
 */
#include "common/io/http_head.h"

#include <string.h>
#include <strings.h>

#include "common/str.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* RFC 9110, "token". */
static bool is_token(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

/* Bytes above 127 are allowed: old servers put Latin-1 or UTF-8 into reasons and values. */
static bool is_field_text(char c)
{
    unsigned char u = (unsigned char)c;
    return u == '\t' || (u >= 0x20 && u != 0x7f);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Takes one line off *data without its CR LF. Returns 0 if the line is incomplete; *ret is its
 * beginning then. */
static int take_head_line(struct view *data, struct view *ret, struct err *err)
{
    const char *end = data->len > 0 ? memchr(data->data, '\n', data->len) : NULL;
    size_t len = end != NULL ? (size_t)(end - data->data) : data->len;
    bool has_cr = len > 0 && data->data[len - 1] == '\r';
    if (end != NULL && !has_cr) {
        return err_set(err, ERR_PROTOCOL, "a line of the head does not end with CR LF");
    }
    *ret = view_bytes(data->data, has_cr ? len - 1 : len);
    if (end == NULL) {
        return 0;
    }
    *data = view_bytes(end + 1, data->len - len - 1);
    return 1;
}

/* Checks a status line "HTTP/1.1 101 Reason" or its beginning; a whole line gives the status as
 * well. */
static int read_status(struct view line, bool whole, int *ret_status, struct err *err)
{
    static const char pattern[] = "HTTP/1.d ddd "; /* d: a digit */
    enum { STATUS_AT = 9, STATUS_END = 12 };
    bool good = !whole || line.len >= STATUS_END;
    for (size_t i = 0; i < line.len && good; i++) {
        char c = line.data[i];
        if (i >= sizeof(pattern) - 1) {
            good = is_field_text(c);
        } else {
            good = pattern[i] == 'd' ? is_digit(c) : c == pattern[i];
        }
    }
    int status = 0;
    for (size_t i = STATUS_AT; i < STATUS_END && i < line.len; i++) {
        status = status * 10 + (line.data[i] - '0');
    }
    if (!good || (line.len >= STATUS_END && (status < 100 || status > 599))) {
        return err_set(err, ERR_PROTOCOL, "the answer is not HTTP but begins with \"%.*s\"",
                       line.len < 40 ? (int)line.len : 40, line.data);
    }
    *ret_status = status;
    return 0;
}

static bool is_target(char c)
{
    return c > ' ' && c < 0x7f;
}

/* Checks a request line "METHOD target HTTP/1.1" or its beginning. */
static int read_request(struct view line, bool whole, struct http_head *head, struct err *err)
{
    static const char version[] = " HTTP/1."; /* and a digit */
    size_t method = 0;
    while (method < line.len && is_token(line.data[method])) {
        method++;
    }
    bool good = method < line.len ? method > 0 && line.data[method] == ' ' : !whole;
    size_t from = method + 1;
    size_t end = from;
    while (end < line.len && is_target(line.data[end])) {
        end++;
    }
    good = good && (end < line.len ? end > from : !whole);
    size_t at = 0;
    for (; end + at < line.len && good; at++) {
        char c = line.data[end + at];
        good =
            at < sizeof(version) - 1 ? c == version[at] : at == sizeof(version) - 1 && is_digit(c);
    }
    if (!good || (whole && at != sizeof(version))) {
        return err_set(err, ERR_PROTOCOL, "this is no request of HTTP/1");
    }
    if (whole) {
        head->method = view_bytes(line.data, method);
        head->target = view_bytes(line.data + from, end - from);
    }
    return 0;
}

static int check_field(struct view line, bool whole, struct err *err)
{
    size_t name = 0;
    while (name < line.len && is_token(line.data[name])) {
        name++;
    }
    bool good = name < line.len ? name > 0 && line.data[name] == ':' : !whole;
    for (size_t i = name + 1; i < line.len && good; i++) {
        good = is_field_text(line.data[i]);
    }
    return good ? 0 : err_set(err, ERR_PROTOCOL, "a line of the head is not \"Name: value\"");
}

static int read_first_line(struct view line, bool request, bool whole, struct http_head *head,
                           struct err *err)
{
    return request ? read_request(line, whole, head, err)
                   : read_status(line, whole, &head->status, err);
}

static int parse_lines(struct view data, bool request, struct http_head *head, struct err *err)
{
    struct view rest = data;
    struct view line = {0};
    int whole = take_head_line(&rest, &line, err);
    int rc = whole < 0 ? whole : read_first_line(line, request, whole > 0, head, err);
    if (rc < 0 || whole == 0) {
        return rc;
    }
    const char *first_field = rest.data;
    for (size_t fields = 0;; fields++) {
        const char *begin = rest.data;
        whole = take_head_line(&rest, &line, err);
        if (whole > 0 && line.len == 0) {
            head->fields = view_bytes(first_field, (size_t)(begin - first_field));
            head->size = data.len - rest.len;
            return 1;
        }
        rc = whole < 0 ? whole : check_field(line, whole > 0, err);
        if (rc < 0 || whole == 0) {
            return rc;
        }
        if (fields == HTTP_HEAD_MAX_FIELDS) {
            return err_set(err, ERR_TOO_BIG, "the head has more than %d fields",
                           HTTP_HEAD_MAX_FIELDS);
        }
    }
}

static int parse_any_head(struct view data, bool request, struct http_head *ret, struct err *err)
{
    struct http_head head = {0};
    struct view within = data;
    if (within.len > HTTP_HEAD_MAX_BYTES) {
        within.len = HTTP_HEAD_MAX_BYTES;
    }
    int rc = parse_lines(within, request, &head, err);
    if (rc == 0 && within.len == HTTP_HEAD_MAX_BYTES) {
        return err_set(err, ERR_TOO_BIG, "the head is larger than %d bytes", HTTP_HEAD_MAX_BYTES);
    }
    if (rc > 0) {
        *ret = head;
    }
    return rc;
}

int http_head_parse(struct view data, struct http_head *ret, struct err *err)
{
    return parse_any_head(data, false, ret, err);
}

int http_head_parse_request(struct view data, struct http_head *ret, struct err *err)
{
    return parse_any_head(data, true, ret, err);
}

struct view http_head_value(struct view fields, const char *name)
{
    size_t name_len = strlen(name);
    const char *line = fields.data;
    const char *end = fields.len > 0 ? line + fields.len : line; /* NULL stays NULL */
    while (line != end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline != NULL ? newline : end;
        if ((size_t)(stop - line) > name_len && line[name_len] == ':' &&
            strncasecmp(line, name, name_len) == 0) {
            const char *from = line + name_len + 1;
            while (from < stop && is_blank(*from)) {
                from++;
            }
            while (stop > from && (is_blank(stop[-1]) || stop[-1] == '\r')) {
                stop--;
            }
            return view_bytes(from, (size_t)(stop - from));
        }
        line = newline != NULL ? newline + 1 : end;
    }
    return view_bytes(NULL, 0);
}

size_t http_head_count(struct view fields, const char *name)
{
    size_t count = 0, len = strlen(name);
    while (fields.len > 0) {
        struct view line = view_take_line(&fields);
        count += line.len > len && line.data[len] == ':' && strncasecmp(line.data, name, len) == 0;
    }
    return count;
}

int http_head_framing(const struct http_head *head, struct http_framing *ret, struct err *err)
{
    struct http_framing framing = {0};
    struct view encoding = http_head_value(head->fields, "Transfer-Encoding");
    struct view length = http_head_value(head->fields, "Content-Length");
    if (encoding.len > 0) {
        if (encoding.len != 7 || strncasecmp(encoding.data, "chunked", 7) != 0) {
            return err_set(err, ERR_PROTOCOL, "unknown transfer encoding");
        }
        framing.chunked = true;
    } else if (length.data != NULL) {
        bool good = length.len > 0 && length.len <= 18; /* fits in 64 bits */
        for (size_t i = 0; i < length.len && good; i++) {
            good = is_digit(length.data[i]);
            framing.length = framing.length * 10 + (uint64_t)(length.data[i] - '0');
        }
        if (!good) {
            return err_set(err, ERR_PROTOCOL, "bad Content-Length");
        }
        framing.has_length = true;
    }
    *ret = framing;
    return 0;
}

/* "1a2b;extension": at most seven digits, more than the chunks of an error text need. */
static int read_chunk_size(struct view line, size_t *ret_size, struct err *err)
{
    size_t size = 0;
    size_t digits = 0;
    while (digits < line.len && digits < 7 && str_hex_value(line.data[digits]) >= 0) {
        size = size * 16 + (size_t)str_hex_value(line.data[digits]);
        digits++;
    }
    if (digits == 0 ||
        (digits < line.len && line.data[digits] != ';' && line.data[digits] != ' ')) {
        return err_set(err, ERR_PROTOCOL, "bad chunk in the body");
    }
    *ret_size = size;
    return 0;
}

int http_head_dechunk(struct view data, struct buf *out, struct err *err)
{
    struct view rest = data;
    for (;;) {
        struct view line = {0};
        size_t size = 0;
        int rc = take_head_line(&rest, &line, err);
        if (rc <= 0) {
            return rc;
        }
        rc = read_chunk_size(line, &size, err);
        if (rc < 0) {
            return rc;
        }
        size_t here = size < rest.len ? size : rest.len;
        size_t room = out->max - out->len;
        rc = buf_add(out, rest.data, here < room ? here : room, err);
        if (rc < 0) {
            return rc;
        }
        if (size == 0 || here > room) {
            return 1;
        }
        if (rest.len - here < 2) {
            return 0;
        }
        if (memcmp(rest.data + here, "\r\n", 2) != 0) {
            return err_set(err, ERR_PROTOCOL, "bad chunk in the body");
        }
        rest = view_bytes(rest.data + here + 2, rest.len - here - 2);
    }
}
