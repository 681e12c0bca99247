/*
 * One pass that knows strings and depth, and looks at the members of the outermost object only. It
 * does not check the syntax of the rest: whoever has an answer with this id has sent such a text.
 *
 * Keys are compared as they are written. One with escapes is not known, so the id of such a request
 * is not found; nobody writes that.
 */
#include "supervisor/mcp/wire/raw_id.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/io/json.h"
#include "common/str.h"
#include "supervisor/mcp/wire/jsonrpc.h"

static void keep_id_char(struct raw_id *r, char c)
{
    bool control = (unsigned char)c < 0x20;
    if (r->reading && !control && r->len < sizeof(r->text)) {
        r->text[r->len++] = c;
    } else if (r->reading) {
        r->broken = true;
    }
}

static void take_raw_string(struct raw_id *r, char c)
{
    if (r->depth == 1 && r->place == RAW_ID_KEY && (c != '"' || r->escaped)) {
        if (r->key_len < sizeof(r->key)) {
            r->key[r->key_len] = c;
        }
        r->key_len++;
    }
    keep_id_char(r, c);
    if (r->escaped || c == '\\') {
        r->escaped = !r->escaped;
    } else if (c == '"') {
        r->in_string = false;
        r->place = r->depth == 1 && r->place == RAW_ID_KEY ? RAW_ID_COLON : r->place;
    }
}

static void end_id_value(struct raw_id *r)
{
    r->found = r->found || r->reading;
    r->reading = false;
}

static bool key_is(const struct raw_id *r, const char *key)
{
    return r->key_len == strlen(key) && memcmp(r->key, key, r->key_len) == 0;
}

/* A character of the outermost object, outside of strings. */
static void take_raw_member(struct raw_id *r, char c)
{
    if (c == ':' && r->place == RAW_ID_COLON) {
        r->place = RAW_ID_VALUE;
        /* of several, the first counts, as for the parser */
        r->reading = !r->found && key_is(r, "id");
        r->has_method = r->has_method || key_is(r, "method");
        r->has_answer = r->has_answer || key_is(r, "result") || key_is(r, "error");
    } else if (c == ',' && r->place == RAW_ID_VALUE) {
        end_id_value(r);
        r->place = RAW_ID_KEY;
    } else if (r->place == RAW_ID_VALUE) {
        keep_id_char(r, c);
    } else {
        r->place = RAW_ID_LOST;
    }
}

static void take_raw_char(struct raw_id *r, char c)
{
    if (r->in_string) {
        take_raw_string(r, c);
    } else if (c != '\0' && strchr(" \t\r\n", c) != NULL) {
        if (r->reading) {
            keep_id_char(r, ' '); /* it ends a number */
        }
    } else if (r->depth == 0) {
        r->place = r->place == RAW_ID_BEFORE && c == '{' ? RAW_ID_KEY : RAW_ID_LOST;
        r->depth = 1;
    } else if (c == '"') {
        r->in_string = true;
        r->key_len = r->depth == 1 && r->place == RAW_ID_KEY ? 0 : r->key_len;
        keep_id_char(r, c);
    } else if (c == '{' || c == '[') {
        r->depth++;
        r->broken = r->broken || r->reading; /* no id is one of these */
    } else if (c == '}' || c == ']') {
        if (--r->depth == 0) {
            end_id_value(r);
            r->place = c == '}' ? RAW_ID_END : RAW_ID_LOST;
        }
    } else if (r->depth == 1) {
        take_raw_member(r, c);
    }
}

void raw_id_take(struct raw_id *r, const char *piece, size_t len)
{
    for (size_t i = 0; i < len && r->place != RAW_ID_LOST; i++) {
        take_raw_char(r, piece[i]);
    }
}

char *raw_id_end(const struct raw_id *r)
{
    cJSON *id = NULL;
    if (r->place != RAW_ID_END || !r->found || r->broken || !r->has_method || r->has_answer ||
        json_parse(r->text, r->len, RAW_ID_BYTES, 1, &id, NULL, NULL) < 0) {
        return NULL;
    }
    char *text = jsonrpc_id_text(id);
    cJSON_Delete(id);
    return text;
}

char *raw_id_of(const char *text, size_t len)
{
    struct raw_id r = {.place = RAW_ID_BEFORE};
    if (!utf8_valid(text, len) || memchr(text, '\0', len) != NULL) {
        return NULL;
    }
    raw_id_take(&r, text, len);
    return raw_id_end(&r);
}

char *raw_id_mended(const cJSON *message, const char *text, size_t len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const char *id = json_get_str(message, "id");
    if (id == NULL || strstr(id, replacement) == NULL) {
        return NULL;
    }
    struct raw_id r = {.place = RAW_ID_BEFORE};
    raw_id_take(&r, text, len);
    if (!r.found || r.broken || (r.has_answer && !r.has_method)) {
        return NULL;
    }
    char *written = alloc_viewdup(view_bytes(r.text, r.len));
    if (strstr(written, replacement) != NULL || strcasestr(written, "\\ufffd") != NULL) {
        free(written); /* the client's own */
        return NULL;
    }
    return written;
}
