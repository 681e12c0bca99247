/*
 * Both sides of the handshake are judged here, so that no connection stops being HTTP by mistake:
 * the browser gets a 101 of ours only when the program has proved, by its answer to the key, that
 * it means WebSocket. Whatever else it says is an answer like any other, or is refused.
 *
 * Where a page comes from (Origin) is not asked. A page of a sandbox has the origin "null", as has
 * any other page without one, so the word says nothing. It is what keeps other pages from using
 * the cookies of a browser, and there are none here: whoever opens a WebSocket has the address,
 * with which he could read and post as well. The program is not told of it, as it is not of a Host:
 * many compare the two, and refuse what came through a proxy.
 *
 * Extensions are not passed on. A program that has one nevertheless speaks something that its
 * client does not understand.
 */
#include "supervisor/web/ports/handshake.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "proto/limits.h"
#include "supervisor/web/http/digest.h"
#include "supervisor/web/http/exchange.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455, section 1.3 */

/* ---- words ---------------------------------------------------------------------------------- */

/* The next word of a list with commas, without blanks around it; it may be empty. */
static struct view take_listed_word(struct view *list)
{
    const char *comma = list->len > 0 ? memchr(list->data, ',', list->len) : NULL;
    size_t len = comma != NULL ? (size_t)(comma - list->data) : list->len;
    struct view word = view_bytes(list->data, len);
    size_t taken = comma != NULL ? len + 1 : len;
    *list = view_bytes(list->data + taken, list->len - taken);
    return view_trimmed(word);
}

bool handshake_names(struct view list, const char *word)
{
    size_t len = strlen(word);
    while (list.len > 0) {
        struct view each = take_listed_word(&list);
        if (each.len == len && strncasecmp(each.data, word, len) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the key -------------------------------------------------------------------------------- */

bool handshake_is_key(const char *key)
{
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf bytes;
    buf_init(&bytes, HANDSHAKE_KEY_CHARS);
    return strlen(key) == HANDSHAKE_KEY_CHARS && base64_decode(&bytes, view_of(key), &err) == 0 &&
           bytes.len == 16;
}

int handshake_accept(const char *key, char ret[HANDSHAKE_ACCEPT_SIZE], struct err *err)
{
    unsigned char digest[WEB_SHA1_BYTES];
    CLEANUP_FREE char *both = alloc_printf("%s%s", key, GUID);
    CLEANUP_BUF struct buf text;
    buf_init(&text, HANDSHAKE_ACCEPT_SIZE + 1);
    int rc = web_digest_sha1(view_of(both), digest, err);
    rc = rc == 0 ? base64_encode(&text, view_bytes(digest, sizeof(digest)), err) : rc;
    return rc == 0 ? str_copy(ret, HANDSHAKE_ACCEPT_SIZE, text_cstr(&text), err) : rc;
}

/* ---- the request ---------------------------------------------------------------------------- */

bool handshake_is_asked(const struct web_exchange *x)
{
    const char *upgrade = web_header(x, "Upgrade");
    return upgrade != NULL && handshake_names(view_of(upgrade), "websocket");
}

static bool has_body_announced(const struct web_exchange *x)
{
    const char *length = web_header(x, "Content-Length");
    return web_header(x, "Transfer-Encoding") != NULL ||
           (length != NULL && length[strspn(length, "0")] != '\0');
}

static bool is_one(const struct web_exchange *x, const char *name)
{
    return web_header_count(x, name) == 1;
}

int handshake_check(const struct web_exchange *x, const char **ret_why)
{
    const char *connection = web_header(x, "Connection");
    if (strcmp(web_method(x), "GET") != 0 || !web_is_current(x) || has_body_announced(x)) {
        *ret_why = "a WebSocket begins with GET and HTTP/1.1, without a body";
        return 400;
    }
    if (connection == NULL || !handshake_names(view_of(connection), "upgrade")) {
        *ret_why = "a WebSocket needs the header Connection: Upgrade, which a proxy may have left "
                   "out";
        return 400;
    }
    if (!is_one(x, "Sec-WebSocket-Version") ||
        strcmp(web_header(x, "Sec-WebSocket-Version"), "13") != 0) {
        *ret_why = "only version 13 of WebSocket is passed on to ports of sandboxes";
        return 426;
    }
    if (!is_one(x, "Sec-WebSocket-Key") || !handshake_is_key(handshake_key(x))) {
        *ret_why = "a WebSocket needs one header Sec-WebSocket-Key, of 16 bytes in base64";
        return 400;
    }
    return 0;
}

const char *handshake_key(const struct web_exchange *x)
{
    return web_header(x, "Sec-WebSocket-Key");
}

char *handshake_offered(const struct web_exchange *x)
{
    const char *name, *value;
    CLEANUP_BUF struct buf list;
    buf_init(&list, LIMIT_HTTP_HEAD);
    for (size_t i = 0; web_header_at(x, i, &name, &value); i++) {
        if (strcasecmp(name, "Sec-WebSocket-Protocol") == 0) {
            text_printf(&list, "%s%s", list.len > 0 ? ", " : "", value);
        }
    }
    return alloc_strdup(text_cstr(&list));
}

int handshake_request(struct buf *out, const struct web_exchange *x, struct err *err)
{
    CLEANUP_FREE char *offered = handshake_offered(x);
    int rc = buf_printf(out, err,
                        "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
                        handshake_key(x));
    return rc == 0 && *offered != '\0'
               ? buf_printf(out, err, "Sec-WebSocket-Protocol: %s\r\n", offered)
               : rc;
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* The value of the one field of that name; empty if there is none, or more than one. */
static struct view one_value(struct view fields, const char *name)
{
    return http_head_count(fields, name) == 1 ? http_head_value(fields, name) : view_of("");
}

/* Names of subprotocols are told apart by their case. */
static bool is_protocol_of(const char *offered, struct view protocol)
{
    struct view list = view_of(offered);
    while (list.len > 0) {
        if (view_same(take_listed_word(&list), protocol)) {
            return true;
        }
    }
    return false;
}

int handshake_answer(const struct http_head *head, const char *key, const char *offered,
                     struct handshake_answer *ret, struct err *err)
{
    static const char protocol_name[] = "Sec-WebSocket-Protocol";
    struct view fields = head->fields;
    struct handshake_answer a = {.protocol = NULL};
    int rc = handshake_accept(key, a.accept, err);
    if (rc < 0) {
        return rc;
    }
    if (!handshake_names(one_value(fields, "Upgrade"), "websocket") ||
        !handshake_names(one_value(fields, "Connection"), "upgrade")) {
        return err_set(err, ERR_PROTOCOL, "it wants to speak another protocol than WebSocket");
    }
    if (!view_is(one_value(fields, "Sec-WebSocket-Accept"), a.accept)) {
        return err_set(err, ERR_PROTOCOL, "its Sec-WebSocket-Accept is not the answer to the key");
    }
    if (http_head_count(fields, "Sec-WebSocket-Extensions") > 0) {
        return err_set(err, ERR_PROTOCOL, "it has an extension of WebSocket that nobody asked for");
    }
    if (http_head_count(fields, protocol_name) > 0) {
        struct view protocol = one_value(fields, protocol_name);
        if (protocol.len == 0 || !is_protocol_of(offered, protocol)) {
            return err_set(err, ERR_PROTOCOL, "it has a subprotocol that nobody asked for");
        }
        a.protocol = alloc_viewdup(protocol);
    }
    *ret = a;
    return 0;
}

void handshake_answer_finish(struct handshake_answer *a)
{
    free(a->protocol);
    a->protocol = NULL;
}
