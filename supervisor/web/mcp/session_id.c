/*
 * session_id_read() parses the parts of an id, writes an id from them, and compares the two texts.
 * So each id has one spelling, and the proof is checked as a part of the text. The comparison takes
 * the same time wherever the texts differ.
 */
#include "supervisor/web/mcp/session_id.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "supervisor/web/http/digest.h"

#define PARTS      6
#define ID_BYTES   512 /* no id of ours is longer */
#define WORD_BYTES (3 * SESSION_CLIENT_BYTES)

static bool is_plain(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static void write_client_name(const char *client, char ret[WORD_BYTES])
{
    size_t at = 0;
    for (size_t i = 0; i < SESSION_CLIENT_BYTES - 1 && client[i] != '\0'; i++) {
        at += (size_t)snprintf(ret + at, WORD_BYTES - at, is_plain(client[i]) ? "%c" : "~%02x",
                               (unsigned char)client[i]);
    }
    ret[at] = '\0';
}

static bool read_client_name(const char *word, char ret[SESSION_CLIENT_BYTES])
{
    size_t len = 0;
    for (const char *p = word; *p != '\0'; p++) {
        char c = *p;
        if (c == '~') {
            int high = str_hex_value(p[1]);
            int low = high < 0 ? -1 : str_hex_value(p[2]);
            if (low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            p += 2;
        }
        if (c == '\0' || len + 1 >= SESSION_CLIENT_BYTES) {
            return false;
        }
        ret[len++] = c;
    }
    ret[len] = '\0';
    return true;
}

char *session_id_write(const struct session_id *id, const char *principal,
                       const unsigned char key[SESSION_KEY_BYTES], struct err *err)
{
    unsigned char digest[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    char client[WORD_BYTES];
    write_client_name(id->client, client);
    CLEANUP_FREE char *told =
        alloc_printf("%s.%s.%s.%s.%s", id->name, id->old ? "sse" : "http",
                     revision_name(id->revision), result_form_word(id->results), client);
    CLEANUP_FREE char *text = alloc_printf("session\n%s\n%s", told, principal);
    if (web_digest_hmac(view_bytes(key, SESSION_KEY_BYTES), view_of(text), digest, err) < 0) {
        return NULL;
    }
    web_digest_hex(digest, hex);
    return alloc_printf("%s.%s", told, hex);
}

/* Cuts the text at its dots; false if that does not make as many parts as an id has. */
static bool cut(char *text, char *parts[PARTS])
{
    size_t count = 0;
    char *rest = text;
    for (char *part; (part = strsep(&rest, ".")) != NULL;) {
        if (count == PARTS) {
            return false;
        }
        parts[count++] = part;
    }
    return count == PARTS;
}

/* Takes the same time wherever they differ. */
static bool is_same(const char *a, const char *b)
{
    size_t len = strlen(a);
    unsigned char differs = 0;
    if (strlen(b) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        differs |= (unsigned char)(a[i] ^ b[i]);
    }
    return differs == 0;
}

bool session_id_read(const char *text, const char *principal,
                     const unsigned char key[SESSION_KEY_BYTES], struct session_id *ret)
{
    char copy[ID_BYTES];
    char *parts[PARTS];
    struct session_id id = {.old = false};
    struct err err = ERR_INIT;
    size_t len = strlen(text);
    if (len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, len + 1);
    if (!cut(copy, parts) || strlen(parts[0]) != SESSION_NAME_CHARS ||
        !revision_parse(parts[2], &id.revision) || revision_is_modern(id.revision) ||
        !result_form_parse(parts[3], &id.results) || !read_client_name(parts[4], id.client)) {
        return false;
    }
    memcpy(id.name, parts[0], sizeof(id.name));
    id.old = strcmp(parts[1], "sse") == 0;
    CLEANUP_FREE char *ours = session_id_write(&id, principal, key, &err);
    if (ours == NULL || !is_same(ours, text)) {
        return false;
    }
    *ret = id;
    return true;
}
