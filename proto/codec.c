/*
 * One encoder and one decoder for all messages, both walking the field tables of msg.h.
 *
 * Decoding uses msgpack-c's unpack template, which calls back for every value. The library's own
 * decoder allocates an array when its header arrives, so five hostile bytes could request 64 GiB;
 * the callbacks see the count first. They collect at most LIMIT_FIELDS + 2 flat items and the items
 * of lists, as views into the input. A walk over the field table then checks that they are a valid
 * message.
 */
#include "proto/codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack/pack.h>
#include <msgpack/unpack.h>

#include "common/str.h"

#define HEAD_ITEMS 2 /* type, seq */
#define MAX_ITEMS  (LIMIT_FIELDS + HEAD_ITEMS)
#define FRAME_HEAD 4

enum item_kind {
    ITEM_NIL,
    ITEM_UINT,
    ITEM_INT,
    ITEM_BOOL,
    ITEM_STR,
    ITEM_BIN,
    ITEM_LIST,
    ITEM_TOP
};

struct item {
    enum item_kind kind;
    union {
        uint64_t u;
        int64_t i; /* negative values only: others arrive as ITEM_UINT */
        bool b;
        struct view view;
        struct {
            size_t first, count;
        } list;
    };
};

struct reader {
    struct item items[MAX_ITEMS];
    size_t count;
    bool top_seen;
    struct view *list; /* items of all lists, in order of arrival */
    size_t list_len, list_cap;
    const char *objection; /* why a callback refused the input */
    bool no_memory;        /* it refused for lack of memory, which is no fault of the peer */
};

/* ---- callbacks of the unpack template -------------------------------------------------------- */

#define msgpack_unpack_struct(name)    struct unpack##name
#define msgpack_unpack_func(ret, name) static ret unpack##name
#define msgpack_unpack_callback(name)  on##name
#define msgpack_unpack_object          struct item
#define msgpack_unpack_user            struct reader

static int refuse_message(struct reader *r, const char *objection)
{
    r->objection = objection;
    return -1;
}

static struct item on_root(struct reader *r)
{
    return (struct item){.kind = ITEM_NIL};
}

static int on_unsigned(struct item *o, uint64_t value)
{
    *o = (struct item){.kind = ITEM_UINT, .u = value};
    return 0;
}

static int on_signed(struct item *o, int64_t value)
{
    if (value >= 0) {
        return on_unsigned(o, (uint64_t)value);
    }
    *o = (struct item){.kind = ITEM_INT, .i = value};
    return 0;
}

#define ON_NUMBER(name, type, sink)                                                                \
    static int on_##name(struct reader *r, type value, struct item *o)                             \
    {                                                                                              \
        return sink(o, value);                                                                     \
    }
ON_NUMBER(uint8, uint8_t, on_unsigned)
ON_NUMBER(uint16, uint16_t, on_unsigned)
ON_NUMBER(uint32, uint32_t, on_unsigned)
ON_NUMBER(uint64, uint64_t, on_unsigned)
ON_NUMBER(int8, int8_t, on_signed)
ON_NUMBER(int16, int16_t, on_signed)
ON_NUMBER(int32, int32_t, on_signed)
ON_NUMBER(int64, int64_t, on_signed)

static int on_float(struct reader *r, float value, struct item *o)
{
    return refuse_message(r, "a float");
}

static int on_double(struct reader *r, double value, struct item *o)
{
    return refuse_message(r, "a float");
}

static int on_nil(struct reader *r, struct item *o)
{
    return refuse_message(r, "a nil");
}

static int on_true(struct reader *r, struct item *o)
{
    *o = (struct item){.kind = ITEM_BOOL, .b = true};
    return 0;
}

static int on_false(struct reader *r, struct item *o)
{
    *o = (struct item){.kind = ITEM_BOOL, .b = false};
    return 0;
}

static int on_str(struct reader *r, const char *base, const char *p, unsigned len, struct item *o)
{
    *o = (struct item){.kind = ITEM_STR, .view = view_bytes(len > 0 ? p : NULL, len)};
    return 0;
}

static int on_bin(struct reader *r, const char *base, const char *p, unsigned len, struct item *o)
{
    *o = (struct item){.kind = ITEM_BIN, .view = view_bytes(len > 0 ? p : NULL, len)};
    return 0;
}

static int on_ext(struct reader *r, const char *base, const char *p, unsigned len, struct item *o)
{
    return refuse_message(r, "an extension type");
}

static int on_map(struct reader *r, unsigned count, struct item *o)
{
    return refuse_message(r, "a map");
}

static int on_map_item(struct reader *r, struct item *map, struct item key, struct item value)
{
    return refuse_message(r, "a map");
}

static int on_array(struct reader *r, unsigned count, struct item *o)
{
    if (!r->top_seen) {
        r->top_seen = true;
        *o = (struct item){.kind = ITEM_TOP};
        return count <= MAX_ITEMS ? 0 : refuse_message(r, "too many fields");
    }
    if (count > LIMIT_LIST) {
        return refuse_message(r, "a list with too many items");
    }
    *o = (struct item){.kind = ITEM_LIST, .list = {r->list_len, 0}};
    return 0;
}

static int on_array_item(struct reader *r, struct item *array, struct item value)
{
    if (array->kind == ITEM_TOP) {
        if (r->count == MAX_ITEMS) {
            return refuse_message(r, "too many fields");
        }
        r->items[r->count++] = value;
        return 0;
    }
    if (value.kind != ITEM_BIN) {
        return refuse_message(r, "a list item that is not binary");
    }
    if (value.view.len > LIMIT_ITEM) {
        return refuse_message(r, "a list item that is too long");
    }
    if (r->list_len == r->list_cap) {
        size_t cap = r->list_cap > 0 ? r->list_cap * 2 : 16;
        struct view *list = realloc(r->list, cap * sizeof(*list));
        if (list == NULL) {
            r->no_memory = true;
            return -1;
        }
        r->list = list;
        r->list_cap = cap;
    }
    r->list[r->list_len++] = value.view;
    array->list.count++;
    return 0;
}

#include <msgpack/unpack_define.h>
#include <msgpack/unpack_template.h>

/* ---- decoding -------------------------------------------------------------------------------- */

static void *field_of(struct msg *m, const struct msg_field *f)
{
    return (char *)m + f->offset;
}

static int bad_field(const struct msg_schema *s, const struct msg_field *f, const char *why,
                     struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "message %s, field %s: %s", s->name, f->name, why);
}

/* Whether a message within a message is what the field says. How deep that can go is bounded by the
 * table. */
static int check_item(const struct msg_schema *s, const struct msg_field *f, struct view item,
                      struct err *err)
{
    struct msg m;
    const struct msg_schema *wanted = msg_schema_find((uint64_t)msg_field_item(f));
    enum msg_link link = (wanted->links & MSG_LINK_W) != 0 ? MSG_LINK_W : MSG_LINK_A;
    if (msg_decode(link, item.data, item.len, &m, err) < 0) {
        err_ignore(err_wrap(err, "message %s, field %s", s->name, f->name));
        return -ERR_PROTOCOL;
    }
    bool good = m.type == wanted->type && m.seq == 0;
    msg_finish(&m);
    return good ? 0 : bad_field(s, f, "an item is another message", err);
}

static int check_items(const struct msg_schema *s, const struct msg_field *f,
                       const struct view_list *list, struct err *err)
{
    for (size_t i = 0; f->type == FIELD_MSGS && i < list->count; i++) {
        int rc = check_item(s, f, list->items[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int store_list(struct msg *m, const struct msg_schema *s, const struct msg_field *f,
                      const struct item *item, struct err *err)
{
    if (item->kind != ITEM_LIST) {
        return bad_field(s, f, "expected a list", err);
    }
    if (item->list.count > msg_field_most(f)) {
        return bad_field(s, f, "list too long", err);
    }
    struct view_list list = {item->list.count > 0 ? m->list_items + item->list.first : NULL,
                             item->list.count};
    *(struct view_list *)field_of(m, f) = list;
    return check_items(s, f, &list, err);
}

static int store(struct msg *m, const struct msg_schema *s, const struct msg_field *f,
                 const struct item *item, struct err *err)
{
    switch (f->type) {
    case FIELD_UINT:
        if (item->kind != ITEM_UINT) {
            return bad_field(s, f, "expected an unsigned integer", err);
        }
        if (item->u > f->max) {
            return bad_field(s, f, "number over its maximum", err);
        }
        *(uint64_t *)field_of(m, f) = item->u;
        return 0;
    case FIELD_INT:
        if (item->kind == ITEM_UINT && item->u <= f->max) {
            *(int64_t *)field_of(m, f) = (int64_t)item->u;
            return 0;
        }
        if (item->kind == ITEM_INT && item->i >= -(int64_t)f->max) {
            *(int64_t *)field_of(m, f) = item->i;
            return 0;
        }
        return bad_field(s, f, "expected an integer within its range", err);
    case FIELD_BOOL:
        if (item->kind != ITEM_BOOL) {
            return bad_field(s, f, "expected a boolean", err);
        }
        *(bool *)field_of(m, f) = item->b;
        return 0;
    case FIELD_STR:
        if (item->kind != ITEM_STR) {
            return bad_field(s, f, "expected text", err);
        }
        if (item->view.len > f->max) {
            return bad_field(s, f, "text too long", err);
        }
        if (!utf8_valid(item->view.data, item->view.len) ||
            (item->view.len > 0 && memchr(item->view.data, '\0', item->view.len) != NULL)) {
            return bad_field(s, f, "not clean UTF-8", err);
        }
        *(struct view *)field_of(m, f) = item->view;
        return 0;
    case FIELD_BIN:
        if (item->kind != ITEM_BIN) {
            return bad_field(s, f, "expected bytes", err);
        }
        if (item->view.len > f->max) {
            return bad_field(s, f, "bytes too long", err);
        }
        *(struct view *)field_of(m, f) = item->view;
        return 0;
    case FIELD_LIST:
    case FIELD_MSGS:
        return store_list(m, s, f, item, err);
    }
    return bad_field(s, f, "unknown field type", err);
}

static int build_message(enum msg_link link, struct reader *r, struct msg *m, struct err *err)
{
    if (r->count < HEAD_ITEMS || r->items[0].kind != ITEM_UINT || r->items[1].kind != ITEM_UINT) {
        return err_set(err, ERR_PROTOCOL, "message without a type and a sequence number");
    }
    const struct msg_schema *s = msg_schema_find(r->items[0].u);
    if (s == NULL) {
        return err_set(err, ERR_PROTOCOL, "unknown message type %" PRIu64, r->items[0].u);
    }
    if ((s->links & (unsigned)link) == 0) {
        return err_set(err, ERR_PROTOCOL, "message %s does not belong on this link", s->name);
    }
    if (r->count != HEAD_ITEMS + s->field_count) {
        return err_set(err, ERR_PROTOCOL, "message %s has %zu fields, expected %zu", s->name,
                       r->count - HEAD_ITEMS, s->field_count);
    }
    m->type = s->type;
    m->seq = r->items[1].u;
    m->list_items = r->list;
    r->list = NULL;
    for (size_t i = 0; i < s->field_count; i++) {
        int rc = store(m, s, &s->fields[i], &r->items[HEAD_ITEMS + i], err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int msg_decode(enum msg_link link, const void *data, size_t len, struct msg *ret, struct err *err)
{
    memset(ret, 0, sizeof(*ret));
    if (len == 0) { /* data may be NULL, which msgpack-c does not accept */
        return err_set(err, ERR_PROTOCOL, "message is empty");
    }
    struct unpack_context ctx;
    ctx.user.count = 0;
    ctx.user.top_seen = false;
    ctx.user.list = NULL;
    ctx.user.list_len = ctx.user.list_cap = 0;
    ctx.user.objection = NULL;
    ctx.user.no_memory = false;
    unpack_init(&ctx);

    size_t used = 0;
    int rc = 0;
    int state = unpack_execute(&ctx, data, len, &used);
    if (state < 0 && ctx.user.no_memory) {
        rc = err_set(err, ERR_NO_MEMORY, "no memory for a list of a message");
    } else if (state < 0) {
        rc = err_set(err, ERR_PROTOCOL, "message holds %s",
                     ctx.user.objection != NULL ? ctx.user.objection : "malformed msgpack");
    } else if (state == 0) {
        rc = err_set(err, ERR_PROTOCOL, "message is cut off after %zu bytes", len);
    } else if (unpack_data(&ctx).kind != ITEM_TOP) {
        rc = err_set(err, ERR_PROTOCOL, "message is not an array");
    } else if (used != len) {
        rc = err_set(err, ERR_PROTOCOL, "%zu bytes behind the message", len - used);
    } else {
        rc = build_message(link, &ctx.user, ret, err);
    }
    free(ctx.user.list);
    if (rc < 0) {
        msg_finish(ret);
    }
    return rc;
}

void msg_finish(struct msg *m)
{
    free(m->list_items);
    memset(m, 0, sizeof(*m));
}

/* ---- encoding -------------------------------------------------------------------------------- */

static int pack_to_buf(void *arg, const char *data, size_t len)
{
    return buf_add(arg, data, len, NULL);
}

/* An upper bound of the encoded size: headers and numbers plus the bytes of views. */
static size_t size_bound(const struct msg *m, const struct msg_schema *s)
{
    size_t size = 5 + 9 * (HEAD_ITEMS + s->field_count);
    for (size_t i = 0; i < s->field_count; i++) {
        const void *p = (const char *)m + s->fields[i].offset;
        if (s->fields[i].type == FIELD_STR || s->fields[i].type == FIELD_BIN) {
            size += ((const struct view *)p)->len;
        } else if (s->fields[i].type == FIELD_LIST || s->fields[i].type == FIELD_MSGS) {
            const struct view_list *list = p;
            for (size_t k = 0; k < list->count; k++) {
                size += 5 + list->items[k].len;
            }
        }
    }
    return size;
}

static int too_big(const struct msg_schema *s, const struct msg_field *f, struct err *err)
{
    return err_set(err, ERR_TOO_BIG, "message %s, field %s: over its limit of %" PRIu64, s->name,
                   f->name, f->type == FIELD_MSGS ? msg_field_most(f) : f->max);
}

static void pack_bytes(msgpack_packer *pk, struct view v)
{
    msgpack_pack_bin(pk, v.len);
    if (v.len > 0) {
        msgpack_pack_bin_body(pk, v.data, v.len);
    }
}

static int pack_list(msgpack_packer *pk, const struct msg_schema *s, const struct msg_field *f,
                     const struct view_list *list, struct err *err)
{
    if (list->count > msg_field_most(f) || list->count > LIMIT_LIST) {
        return too_big(s, f, err);
    }
    int rc = check_items(s, f, list, err);
    if (rc < 0) {
        return rc;
    }
    msgpack_pack_array(pk, list->count);
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].len > LIMIT_ITEM) {
            return too_big(s, f, err);
        }
        pack_bytes(pk, list->items[i]);
    }
    return 0;
}

static int pack_field(msgpack_packer *pk, const struct msg_schema *s, const struct msg_field *f,
                      const void *p, struct err *err)
{
    switch (f->type) {
    case FIELD_UINT: {
        uint64_t value = *(const uint64_t *)p;
        if (value > f->max) {
            return too_big(s, f, err);
        }
        msgpack_pack_uint64(pk, value);
        return 0;
    }
    case FIELD_INT: {
        int64_t value = *(const int64_t *)p;
        if (value > (int64_t)f->max || value < -(int64_t)f->max) {
            return too_big(s, f, err);
        }
        msgpack_pack_int64(pk, value);
        return 0;
    }
    case FIELD_BOOL:
        if (*(const bool *)p) {
            msgpack_pack_true(pk);
        } else {
            msgpack_pack_false(pk);
        }
        return 0;
    case FIELD_STR: {
        struct view v = *(const struct view *)p;
        if (v.len > f->max) {
            return too_big(s, f, err);
        }
        if (!utf8_valid(v.data, v.len) || (v.len > 0 && memchr(v.data, '\0', v.len) != NULL)) {
            return err_set(err, ERR_PROTOCOL, "message %s, field %s: not clean UTF-8", s->name,
                           f->name);
        }
        msgpack_pack_str(pk, v.len);
        if (v.len > 0) {
            msgpack_pack_str_body(pk, v.data, v.len);
        }
        return 0;
    }
    case FIELD_BIN: {
        struct view v = *(const struct view *)p;
        if (v.len > f->max) {
            return too_big(s, f, err);
        }
        pack_bytes(pk, v);
        return 0;
    }
    case FIELD_LIST:
    case FIELD_MSGS:
        return pack_list(pk, s, f, p, err);
    }
    return err_set(err, ERR_INTERNAL, "field %s has no type", f->name);
}

size_t msg_encode_bound(const struct msg *m)
{
    const struct msg_schema *s = msg_schema_find((uint64_t)m->type);
    return s != NULL ? size_bound(m, s) : 0;
}

/* Without the bytes of the BIN field left_out, which belong at *ret_at, if that is not NULL. */
static int encode(struct buf *out, const struct msg *m, const struct view *left_out, size_t *ret_at,
                  struct err *err)
{
    const struct msg_schema *s = msg_schema_find((uint64_t)m->type);
    if (s == NULL) {
        return err_set(err, ERR_INTERNAL, "cannot encode message type %d", (int)m->type);
    }
    /* reserved once, so that packing cannot fail half-way */
    size_t left_out_len = left_out != NULL ? left_out->len : 0;
    int rc = buf_reserve(out, size_bound(m, s) - left_out_len, err);
    if (rc < 0) {
        return err_wrap(err, "message %s", s->name);
    }
    size_t start = out->len;
    msgpack_packer pk;
    msgpack_packer_init(&pk, out, pack_to_buf);
    msgpack_pack_array(&pk, HEAD_ITEMS + s->field_count);
    msgpack_pack_uint64(&pk, (uint64_t)s->type);
    msgpack_pack_uint64(&pk, m->seq);
    for (size_t i = 0; i < s->field_count; i++) {
        const struct msg_field *f = &s->fields[i];
        const void *p = (const char *)m + f->offset;
        if (p == left_out) {
            rc = left_out_len <= f->max ? 0 : too_big(s, f, err);
            msgpack_pack_bin(&pk, left_out_len);
            *ret_at = out->len;
        } else {
            rc = pack_field(&pk, s, f, p, err);
        }
        if (rc < 0) {
            out->len = start;
            return rc;
        }
    }
    return 0;
}

int msg_encode(struct buf *out, const struct msg *m, struct err *err)
{
    return encode(out, m, NULL, NULL, err);
}

int msg_encode_frame_around(struct buf *out, const struct msg *m, const struct view *left_out,
                            size_t *ret_at, struct err *err)
{
    size_t start = out->len;
    int rc = buf_add(out, "\0\0\0\0", FRAME_HEAD, err);
    if (rc < 0) {
        return rc;
    }
    rc = encode(out, m, left_out, ret_at, err);
    size_t len = out->len - start - FRAME_HEAD + (left_out != NULL ? left_out->len : 0);
    if (rc == 0 && len > LIMIT_FRAME) {
        rc = err_set(err, ERR_TOO_BIG, "message %s is over the frame limit", msg_name(m->type));
    }
    if (rc < 0) {
        out->len = start;
        return rc;
    }
    out->data[start] = (uint8_t)(len >> 24);
    out->data[start + 1] = (uint8_t)(len >> 16);
    out->data[start + 2] = (uint8_t)(len >> 8);
    out->data[start + 3] = (uint8_t)len;
    return 0;
}

int msg_encode_frame(struct buf *out, const struct msg *m, struct err *err)
{
    return msg_encode_frame_around(out, m, NULL, NULL, err);
}

int frame_next(const void *data, size_t len, size_t max, struct view *ret_payload, size_t *ret_used,
               struct err *err)
{
    if (len < FRAME_HEAD) {
        return 0;
    }
    const uint8_t *p = data;
    size_t size = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | (size_t)p[3];
    if (size > max) {
        return err_set(err, ERR_PROTOCOL, "frame of %zu bytes is over the limit of %zu", size, max);
    }
    if (len - FRAME_HEAD < size) {
        return 0;
    }
    *ret_payload = view_bytes(p + FRAME_HEAD, size);
    *ret_used = FRAME_HEAD + size;
    return 1;
}
