/*
 * A request is packed when START arrives, so that the reply to START reports everything that is
 * wrong with it, and unpacking cannot fail.
 */
#include "worker/agent/link/request.h"

#include <string.h>

#define HEAD_BYTES 17

#define STDIN_HERE 1
#define STDIN_OPEN 2
#define NO_CODE    3

static void put_u32(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static size_t get_u32(const uint8_t *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | (size_t)at[3];
}

static bool has_nul(struct view v)
{
    return v.len > 0 && memchr(v.data, '\0', v.len) != NULL;
}

static bool is_name(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || c < '0' || c > '9')) {
            return false;
        }
    }
    return len > 0;
}

static int check_start(const struct msg_start *m, struct err *err)
{
    for (size_t i = 0; i < m->args.count; i++) {
        if (has_nul(m->args.items[i])) {
            return err_set(err, ERR_INVALID, "argument %zu has a NUL byte", i + 1);
        }
    }
    for (size_t i = 0; i < m->env.count; i++) {
        struct view v = m->env.items[i];
        const char *equals = v.len > 0 ? memchr(v.data, '=', v.len) : NULL;
        if (equals == NULL || has_nul(v) || !is_name(v.data, (size_t)(equals - v.data))) {
            return err_set(err, ERR_INVALID, "environment entry %zu is not NAME=value", i + 1);
        }
    }
    return 0;
}

static int append_bytes(struct buf *out, struct view v, struct err *err)
{
    uint8_t len[4];
    put_u32(len, v.len);
    int rc = buf_add(out, len, sizeof(len), err);
    return rc < 0 ? rc : buf_add(out, v.data, v.len, err);
}

static int add_all(struct buf *out, struct view_list list, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        rc = append_bytes(out, list.items[i], err);
    }
    return rc;
}

int request_pack(const struct msg_start *m, struct buf *out, struct err *err)
{
    uint8_t head[HEAD_BYTES] = {0};
    bool open = (m->flags & (OP_FLAG_STDIN_OPEN | OP_FLAG_TTY)) != 0;
    struct view input = m->has_stdin && !open ? m->stdin_data : view_of(NULL);
    head[8] = m->kind == OP_PRELOAD ? NO_CODE : open ? STDIN_OPEN : m->has_stdin ? STDIN_HERE : 0;
    put_u32(head + 9, m->args.count);
    put_u32(head + 13, m->env.count);
    int rc = check_start(m, err);
    if (rc == 0) {
        rc = buf_reserve(out, HEAD_BYTES + 8 + m->data.len + input.len, err);
    }
    if (rc == 0) {
        rc = buf_add(out, head, sizeof(head), err);
    }
    if (rc == 0) {
        rc = append_bytes(out, m->data, err);
    }
    if (rc == 0) {
        rc = append_bytes(out, input, err);
    }
    if (rc == 0) {
        rc = add_all(out, m->args, err);
    }
    if (rc == 0) {
        rc = add_all(out, m->env, err);
    }
    if (rc == 0) {
        put_u32(out->data, out->len - 4);
    }
    return rc;
}

void request_set_run(struct buf *request, uint32_t run)
{
    put_u32(request->data + 4, run);
}

struct view request_next(struct request *r)
{
    size_t len = get_u32(r->rest);
    struct view v = view_bytes(r->rest + 4, len);
    r->rest += 4 + len;
    return v;
}

void request_open(const struct buf *packed, struct request *ret)
{
    ret->has_stdin = packed->data[8] == STDIN_HERE;
    ret->stdin_open = packed->data[8] == STDIN_OPEN;
    ret->arg_count = get_u32(packed->data + 9);
    ret->env_count = get_u32(packed->data + 13);
    ret->rest = packed->data + HEAD_BYTES;
    ret->code = request_next(ret);
    ret->stdin_data = request_next(ret);
}

void request_drop_stdin(struct buf *request)
{
    struct request r;
    request_open(request, &r);
    size_t end = (size_t)(r.rest - request->data);
    size_t field = 4 + r.stdin_data.len;
    memmove(request->data + end - field, request->data + end, request->len - end);
    request->len -= field;
    put_u32(request->data, request->len - 4);
    if (r.has_stdin) {
        request->data[8] = 0;
    }
}
