/*
 * Every message of messages.def: round trip, then mutation. The samples are made from the field
 * tables, so a new message is tested without a change here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/codec.h"
#include "proto/exit_codes.h"

static const struct view list_sample[] = {{"A=1", 3}, {"\0\xff", 2}, {NULL, 0}};

static struct view_list sample_items(const struct msg_field *f);

/* Fills every field with a value that depends on its position. `extreme` picks the maximum. */
static void fill(struct msg *m, const struct msg_schema *s, bool extreme)
{
    memset(m, 0, sizeof(*m));
    m->type = s->type;
    m->seq = extreme ? UINT64_MAX : 7;
    for (size_t i = 0; i < s->field_count; i++) {
        const struct msg_field *f = &s->fields[i];
        void *p = (char *)m + f->offset;
        switch (f->type) {
        case FIELD_UINT:
            *(uint64_t *)p = extreme ? f->max : i % (f->max + (f->max < UINT64_MAX));
            break;
        case FIELD_INT:
            *(int64_t *)p = extreme ? -(int64_t)f->max : (int64_t)i;
            break;
        case FIELD_BOOL:
            *(bool *)p = extreme || i % 2 == 0;
            break;
        case FIELD_STR:
            *(struct view *)p = extreme ? view_of("") : view_of("gr\xc3\xbc\xc3\x9f");
            break;
        case FIELD_BIN:
            *(struct view *)p = extreme ? view_bytes(NULL, 0) : view_bytes("\0\x01\xff", 3);
            break;
        case FIELD_LIST:
            *(struct view_list *)p =
                extreme ? (struct view_list){NULL, 0} : (struct view_list){list_sample, 3};
            break;
        case FIELD_MSGS:
            *(struct view_list *)p = extreme ? (struct view_list){NULL, 0} : sample_items(f);
            break;
        }
    }
}

/* Encodes up to two messages, as many as the field takes. They are never freed. */
static struct view_list sample_items(const struct msg_field *f)
{
    static struct view items[128][2];
    struct view *found = items[msg_field_item(f)];
    if (found[0].data == NULL) {
        struct msg m;
        struct err err = ERR_INIT;
        static struct buf wires[128];
        struct buf *wire = &wires[msg_field_item(f)];
        fill(&m, msg_schema_find((uint64_t)msg_field_item(f)), false);
        m.seq = 0;
        buf_init(wire, LIMIT_ITEM);
        assert_int_equal(msg_encode(wire, &m, &err), 0);
        found[0] = found[1] = view_bytes(wire->data, wire->len);
    }
    return (struct view_list){found, msg_field_most(f) < 2 ? msg_field_most(f) : 2};
}

static void assert_view_equal(struct view a, struct view b)
{
    assert_int_equal(a.len, b.len);
    if (a.len > 0) {
        assert_memory_equal(a.data, b.data, a.len);
    }
}

static void assert_msg_equal(const struct msg *a, const struct msg *b, const struct msg_schema *s)
{
    assert_int_equal(a->type, b->type);
    assert_true(a->seq == b->seq);
    for (size_t i = 0; i < s->field_count; i++) {
        const void *x = (const char *)a + s->fields[i].offset;
        const void *y = (const char *)b + s->fields[i].offset;
        switch (s->fields[i].type) {
        case FIELD_UINT:
            assert_true(*(const uint64_t *)x == *(const uint64_t *)y);
            break;
        case FIELD_INT:
            assert_true(*(const int64_t *)x == *(const int64_t *)y);
            break;
        case FIELD_BOOL:
            assert_int_equal(*(const bool *)x, *(const bool *)y);
            break;
        case FIELD_STR:
        case FIELD_BIN:
            assert_view_equal(*(const struct view *)x, *(const struct view *)y);
            break;
        case FIELD_LIST:
        case FIELD_MSGS: {
            const struct view_list *l = x;
            const struct view_list *k = y;
            assert_int_equal(l->count, k->count);
            for (size_t j = 0; j < l->count; j++) {
                assert_view_equal(l->items[j], k->items[j]);
            }
            break;
        }
        }
    }
}

static enum msg_link link_of(const struct msg_schema *s)
{
    return (s->links & MSG_LINK_W) != 0 ? MSG_LINK_W : MSG_LINK_A;
}

static void every_message_survives_a_round_trip(void **state)
{
    for (size_t i = 0; i < msg_schema_count; i++) {
        for (int extreme = 0; extreme < 2; extreme++) {
            const struct msg_schema *s = &msg_schemas[i];
            struct msg sent;
            struct msg got;
            struct err err = ERR_INIT;
            struct buf wire;
            buf_init(&wire, LIMIT_FRAME);
            fill(&sent, s, extreme != 0);
            assert_int_equal(msg_encode(&wire, &sent, &err), 0);
            assert_int_equal(msg_decode(link_of(s), wire.data, wire.len, &got, &err), 0);
            assert_msg_equal(&sent, &got, s);
            msg_finish(&got);
            buf_finish(&wire);
        }
    }
}

static void a_message_is_refused_on_the_wrong_link(void **state)
{
    for (size_t i = 0; i < msg_schema_count; i++) {
        const struct msg_schema *s = &msg_schemas[i];
        if (s->links == MSG_LINK_WA) {
            continue;
        }
        struct msg m;
        struct err err = ERR_INIT;
        struct buf wire;
        buf_init(&wire, LIMIT_FRAME);
        fill(&m, s, false);
        assert_int_equal(msg_encode(&wire, &m, &err), 0);
        enum msg_link wrong = link_of(s) == MSG_LINK_W ? MSG_LINK_A : MSG_LINK_W;
        assert_int_equal(msg_decode(wrong, wire.data, wire.len, &m, &err), -ERR_PROTOCOL);
        buf_finish(&wire);
    }
}

/* A decoded mutant must encode, and decode to the same again; all others must be refused with
 * -ERR_PROTOCOL. Copies have their exact size, so a sanitizer finds every read past the end. */
static void decode_mutant(enum msg_link link, const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, data, len);
    struct msg m;
    struct err err = ERR_INIT;
    int rc = msg_decode(link, copy, len, &m, &err);
    if (rc < 0) {
        assert_int_equal(rc, -ERR_PROTOCOL);
        assert_true(err.text[0] != '\0');
        assert_null(m.list_items);
    } else {
        struct buf again;
        struct msg twice;
        buf_init(&again, LIMIT_FRAME);
        assert_int_equal(msg_encode(&again, &m, &err), 0);
        assert_int_equal(msg_decode(link, again.data, again.len, &twice, &err), 0);
        assert_msg_equal(&m, &twice, msg_schema_find((uint64_t)m.type));
        msg_finish(&twice);
        buf_finish(&again);
    }
    msg_finish(&m);
    free(copy);
}

static void every_mutation_is_survived(void **state)
{
    for (size_t i = 0; i < msg_schema_count; i++) {
        const struct msg_schema *s = &msg_schemas[i];
        struct msg m;
        struct err err = ERR_INIT;
        struct buf wire;
        buf_init(&wire, LIMIT_FRAME);
        fill(&m, s, false);
        assert_int_equal(msg_encode(&wire, &m, &err), 0);
        for (size_t len = 0; len < wire.len; len++) { /* truncations: always refused */
            struct msg cut;
            assert_int_equal(msg_decode(link_of(s), wire.data, len, &cut, &err), -ERR_PROTOCOL);
            decode_mutant(link_of(s), wire.data, len);
        }
        for (size_t bit = 0; bit < wire.len * 8; bit++) {
            wire.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            decode_mutant(link_of(s), wire.data, wire.len);
            wire.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        assert_int_equal(buf_add(&wire, "\xc0", 1, &err), 0); /* a trailing byte */
        struct msg more;
        assert_int_equal(msg_decode(link_of(s), wire.data, wire.len, &more, &err), -ERR_PROTOCOL);
        buf_finish(&wire);
    }
}

static void values_over_their_maximum_are_refused(void **state)
{
    struct err err = ERR_INIT;
    struct buf wire;
    buf_init(&wire, LIMIT_FRAME);
    struct msg m = {.type = MSG_FAILED, .failed = {.code = 65536}};
    assert_int_equal(msg_encode(&wire, &m, &err), -ERR_TOO_BIG);
    char *text = calloc(1, LIMIT_TEXT + 2);
    memset(text, 'x', LIMIT_TEXT + 1);
    m = (struct msg){.type = MSG_FAILED, .failed = {.message = view_of(text)}};
    assert_int_equal(msg_encode(&wire, &m, &err), -ERR_TOO_BIG);
    m.failed.message = view_bytes("a\0b", 3);
    assert_int_equal(msg_encode(&wire, &m, &err), -ERR_PROTOCOL);
    m.failed.message = view_of("\xff");
    assert_int_equal(msg_encode(&wire, &m, &err), -ERR_PROTOCOL);
    assert_int_equal(wire.len, 0);
    free(text);
    buf_finish(&wire);
}

static int encode_open_at(struct view item, size_t count)
{
    struct buf wire;
    struct err err = ERR_INIT;
    struct view items[] = {item, item};
    struct msg m = {.type = MSG_OPEN, .open = {.place = {items, count}}};
    buf_init(&wire, LIMIT_FRAME);
    int rc = msg_encode(&wire, &m, &err);
    assert_int_equal(wire.len > 0, rc == 0);
    buf_finish(&wire);
    return rc;
}

/* An item that is not a message of the field's type is neither encoded nor decoded. */
static void messages_within_messages_are_read_as_strictly(void **state)
{
    struct err err = ERR_INIT;
    struct buf item, wire;
    buf_init(&item, LIMIT_ITEM);
    struct msg m = {.type = MSG_ENGINE_PLACE, .engine_place = {.address = view_of("/s")}};
    assert_int_equal(msg_encode(&item, &m, &err), 0);
    struct view good = view_bytes(item.data, item.len);
    assert_int_equal(encode_open_at(good, 1), 0);
    assert_int_equal(encode_open_at(good, 2), -ERR_TOO_BIG);
    assert_int_equal(encode_open_at(view_bytes(good.data, good.len - 1), 1), -ERR_PROTOCOL);
    assert_int_equal(encode_open_at(view_of("/s"), 1), -ERR_PROTOCOL);
    buf_init(&wire, LIMIT_FRAME);
    struct msg open = {.type = MSG_OPEN, .open = {.place = {&good, 1}}};
    assert_int_equal(msg_encode(&wire, &open, &err), 0);
    uint8_t *at = memmem(wire.data, wire.len, good.data, good.len);
    assert_non_null(at);
    at[good.len - 1] = 0xc0; /* a nil in the place of an empty text */
    struct msg got;
    assert_int_equal(msg_decode(MSG_LINK_W, wire.data, wire.len, &got, &err), -ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "message open, field place"));
    buf_finish(&wire);
    item.len = 0;
    m.seq = 1; /* only messages that are not items have a number */
    assert_int_equal(msg_encode(&item, &m, &err), 0);
    assert_int_equal(encode_open_at(view_bytes(item.data, item.len), 1), -ERR_PROTOCOL);
    item.len = 0;
    m = (struct msg){.type = MSG_PING};
    assert_int_equal(msg_encode(&item, &m, &err), 0);
    assert_int_equal(encode_open_at(view_bytes(item.data, item.len), 1), -ERR_PROTOCOL);
    buf_finish(&item);
}

/* An array header that announces 4 Gi items must not allocate memory for them. */
static void huge_claims_reserve_no_memory(void **state)
{
    static const uint8_t claims[][10] = {
        {0xdd, 0xff, 0xff, 0xff, 0xff},
        {0x95, 0x04, 0x00, 0xdd, 0xff, 0xff, 0xff, 0xff},
        {0xdf, 0xff, 0xff, 0xff, 0xff},
        {0x95, 0x04, 0x00, 0xc6, 0xff, 0xff, 0xff, 0xff},
        {0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91},
    };
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        struct msg m;
        struct err err = ERR_INIT;
        assert_int_equal(msg_decode(MSG_LINK_W, claims[i], sizeof(claims[i]), &m, &err),
                         -ERR_PROTOCOL);
    }
    uint8_t deep[4096];
    memset(deep, 0x91, sizeof(deep));
    struct msg m;
    struct err err = ERR_INIT;
    assert_int_equal(msg_decode(MSG_LINK_W, deep, sizeof(deep), &m, &err), -ERR_PROTOCOL);
}

static void frames_are_found_in_a_stream_of_any_cut(void **state)
{
    struct err err = ERR_INIT;
    struct buf wire;
    buf_init(&wire, LIMIT_FRAME);
    struct msg ping = {.type = MSG_PING, .seq = 1, .ping = {.value = 5}};
    assert_int_equal(msg_encode_frame(&wire, &ping, &err), 0);
    size_t first = wire.len;
    ping.seq = 2;
    assert_int_equal(msg_encode_frame(&wire, &ping, &err), 0);
    for (size_t len = 0; len < first; len++) {
        struct view payload;
        size_t used;
        assert_int_equal(frame_next(wire.data, len, 100, &payload, &used, &err), 0);
    }
    struct view payload;
    size_t used = 0;
    assert_int_equal(frame_next(wire.data, wire.len, 100, &payload, &used, &err), 1);
    assert_int_equal(used, first);
    struct msg got;
    assert_int_equal(msg_decode(MSG_LINK_W, payload.data, payload.len, &got, &err), 0);
    assert_int_equal(got.seq, 1);
    msg_finish(&got);
    assert_int_equal(frame_next("\xff\xff\xff\xff", 4, 100, &payload, &used, &err), -ERR_PROTOCOL);
    buf_finish(&wire);
}

static void numbers_and_names_are_unique(void **state)
{
    for (size_t i = 0; i < msg_schema_count; i++) {
        for (size_t k = i + 1; k < msg_schema_count; k++) {
            assert_int_not_equal(msg_schemas[i].type, msg_schemas[k].type);
            assert_string_not_equal(msg_schemas[i].name, msg_schemas[k].name);
        }
        assert_ptr_equal(msg_schema_find((uint64_t)msg_schemas[i].type), &msg_schemas[i]);
    }
    assert_null(msg_schema_find(0));
    assert_string_equal(exit_code_text(EXIT_CODE_SANDBOX_GONE), "its sandbox ended");
    assert_null(exit_code_text(1));
}

/* Both sides derive from this column which replies are legal. */
static void requests_name_the_reply_that_answers_them(void **state)
{
    for (size_t i = 0; i < msg_schema_count; i++) {
        const struct msg_schema *s = &msg_schemas[i];
        bool has_reply = msg_is_request(s->type) && s->type != MSG_SHUTDOWN;
        struct msg reply = msg_answer(s->type, 7);
        assert_int_equal(reply.type != MSG_NONE, has_reply);
        assert_int_equal(reply.seq, 7);
        assert_true(msg_answers(MSG_FAILED, s->type));
        assert_false(msg_answers(MSG_NONE, s->type));
        if (has_reply) {
            const struct msg_schema *answer = msg_schema_find((uint64_t)reply.type);
            assert_int_equal(reply.type % 2, 1);
            assert_int_equal(answer->links & s->links,
                             s->links); /* the reply is legal on the links of the request */
            assert_true(msg_answers(reply.type, s->type));
            assert_false(msg_answers(s->type, s->type));
        }
    }
    assert_false(msg_answers(MSG_OK, MSG_START));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_survives_a_round_trip),
        cmocka_unit_test(a_message_is_refused_on_the_wrong_link),
        cmocka_unit_test(every_mutation_is_survived),
        cmocka_unit_test(values_over_their_maximum_are_refused),
        cmocka_unit_test(messages_within_messages_are_read_as_strictly),
        cmocka_unit_test(huge_claims_reserve_no_memory),
        cmocka_unit_test(frames_are_found_in_a_stream_of_any_cut),
        cmocka_unit_test(numbers_and_names_are_unique),
        cmocka_unit_test(requests_name_the_reply_that_answers_them),
    };
    return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
