/*
 * A connection is for one request, which the server is told. Servers may close then without a word,
 * and the program would send its next request into a connection that is about to end. So the head
 * of the answer says it as well: "Connection: close". What is no head of HTTP/1 is said on as it
 * is.
 */
#include "worker/door/response.h"

#include <string.h>
#include <strings.h>

#include "common/io/http_head.h"
#include "proto/limits.h"

void door_response_init(struct door_response *r)
{
    *r = (struct door_response){.over = false};
    buf_init(&r->head, HTTP_HEAD_MAX_BYTES + LIMIT_DOOR_CHUNK);
}

void door_response_finish(struct door_response *r)
{
    buf_finish(&r->head);
}

static bool is_of_connection(struct view line)
{
    static const char *const names[] = {"Connection", "Proxy-Connection", "Keep-Alive"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i]);
        if (line.len > len && line.data[len] == ':' && strncasecmp(line.data, names[i], len) == 0) {
            return true;
        }
    }
    return false;
}

static int write_head(struct view text, const struct http_head *head, struct buf *out,
                      struct err *err)
{
    struct view rest = head->fields;
    size_t first = rest.len > 0 ? (size_t)(rest.data - text.data) : head->size - 2;
    int rc = buf_add(out, text.data, first, err);
    rc = rc < 0 ? rc : buf_add_str(out, "Connection: close\r\n", err);
    while (rest.len > 0 && rc == 0) {
        struct view line = view_take_line(&rest); /* with its CR */
        if (!is_of_connection(line)) {
            rc = buf_add(out, line.data, line.len, err);
            rc = rc < 0 ? rc : buf_add(out, "\n", 1, err);
        }
    }
    return rc < 0 ? rc : buf_add_str(out, "\r\n", err);
}

static int pass_rest(struct door_response *r, struct buf *out, struct err *err)
{
    int rc = buf_add(out, r->head.data, r->head.len, err);
    buf_finish(&r->head);
    r->over = true;
    return rc;
}

int door_response_pass(struct door_response *r, struct view data, struct buf *out, struct err *err)
{
    if (r->over) {
        return buf_add(out, data.data, data.len, err);
    }
    int rc = buf_add(&r->head, data.data, data.len, err);
    while (rc == 0) {
        struct http_head head;
        struct view text = view_bytes(r->head.data, r->head.len);
        int found = http_head_parse(text, &head, NULL);
        if (found == 0) {
            return 0;
        }
        if (found < 0) {
            return pass_rest(r, out, err);
        }
        bool interim = head.status < 200 && head.status != 101; /* another one follows */
        rc = interim ? buf_add(out, text.data, head.size, err) : write_head(text, &head, out, err);
        buf_consume(&r->head, head.size);
        if (rc == 0 && !interim) {
            return pass_rest(r, out, err);
        }
    }
    return rc;
}
