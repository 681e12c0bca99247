/* An engine's place: which values are valid, and that it survives the way to a worker and to the
 * disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/codec.h"
#include "proto/place.h"

static const struct place good[] = {
    {.kind = PLACE_NONE},
    {.kind = PLACE_NAMED, .address = "whatever somebody wrote"},
    {.kind = PLACE_SOCKET, .address = "/run/engine.sock"},
    {.kind = PLACE_URL, .address = "http://[::1]:2375/base@1"},
    {.kind = PLACE_URL, .address = "https://host:6443"},
    {.kind = PLACE_URL,
     .address = "https://host:2376/base",
     .verify = true,
     .ca_file = "/a b/ca.pem",
     .cert_file = "/c/cert.pem",
     .key_file = "/c/gr\xc3\xbc\xc3\x9f.pem"},
};

static const struct place bad[] = {
    {.kind = PLACE_NONE, .address = "/s"},
    {.kind = PLACE_NONE, .verify = true},
    {.kind = PLACE_NAMED},
    {.kind = PLACE_NAMED, .address = ""},
    {.kind = PLACE_NAMED, .address = "a\nb"},
    {.kind = PLACE_NAMED, .address = "x", .verify = true},
    {.kind = PLACE_SOCKET, .address = "run/engine.sock"},
    {.kind = PLACE_SOCKET, .address = "/s", .ca_file = "/ca.pem"},
    {.kind = PLACE_URL, .address = "ftp://host"},
    {.kind = PLACE_URL, .address = "https://"},
    {.kind = PLACE_URL, .address = "https:///base"},
    {.kind = PLACE_URL, .address = "https://me:secret@host"},
    {.kind = PLACE_URL, .address = "https://host?key=1"},
    {.kind = PLACE_URL, .address = "http://host", .verify = true},
    {.kind = PLACE_URL, .address = "http://host", .ca_file = "/ca.pem"},
    {.kind = PLACE_URL, .address = "https://host", .ca_file = "ca.pem"},
    {.kind = PLACE_URL, .address = "https://host", .cert_file = "/cert.pem"},
    {.kind = PLACE_URL, .address = "https://host", .key_file = "/key.pem"},
    {.kind = (enum place_kind)4, .address = "x"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_text_equal(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL) {
        assert_string_equal(a, b);
    }
}

static void a_place_arrives_as_it_was_sent(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct view_list list = {NULL, 0};
        struct place got;
        struct err err = ERR_INIT;
        assert_int_equal(place_encode(&good[i], &list, &err), 0);
        assert_int_equal(list.count, good[i].kind == PLACE_NONE ? 0 : 1);
        assert_int_equal(place_decode(list, &got, &err), 0);
        assert_int_equal(got.kind, good[i].kind);
        assert_int_equal(got.verify, good[i].verify);
        assert_text_equal(got.address, good[i].address);
        assert_text_equal(got.ca_file, good[i].ca_file);
        assert_text_equal(got.cert_file, good[i].cert_file);
        assert_text_equal(got.key_file, good[i].key_file);
        struct place copy = place_copy(&got);
        place_finish(&got);
        assert_int_equal(place_check(&copy, &err), 0);
        assert_text_equal(copy.key_file, good[i].key_file);
        place_finish(&copy);
        alloc_listfree(&list);
    }
}

/* As a broken worker might send it: every field is valid by itself. */
static int decode_fields(const struct place *p)
{
    CLEANUP_BUF struct buf wire;
    struct place got = {.kind = PLACE_NONE};
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_ENGINE_PLACE};
    m.engine_place.kind = (uint64_t)p->kind;
    m.engine_place.address = view_of(p->address);
    m.engine_place.verify = p->verify;
    m.engine_place.ca_file = view_of(p->ca_file);
    m.engine_place.cert_file = view_of(p->cert_file);
    m.engine_place.key_file = view_of(p->key_file);
    buf_init(&wire, LIMIT_ITEM);
    assert_int_equal(msg_encode(&wire, &m, &err), 0);
    struct view item = view_bytes(wire.data, wire.len);
    int rc = place_decode((struct view_list){&item, 1}, &got, &err);
    assert_int_equal(err.code, -rc);
    assert_int_equal(got.kind, PLACE_NONE); /* nothing of it is kept */
    return rc;
}

static void what_is_no_place_is_neither_sent_nor_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct view_list list = {NULL, 0};
        struct err err = ERR_INIT;
        assert_int_equal(place_check(&bad[i], &err), -ERR_INVALID);
        assert_true(err.text[0] != '\0');
        assert_null(strstr(err.text, "secret "));
        assert_int_equal(place_encode(&bad[i], &list, &err), -ERR_INVALID);
        assert_int_equal(list.count, 0);
        assert_int_equal(decode_fields(&bad[i]), -ERR_PROTOCOL);
    }
    struct place odd = {.kind = PLACE_NAMED, .address = "\xff"};
    struct view_list list = {NULL, 0};
    struct err err = ERR_INIT;
    assert_int_equal(place_encode(&odd, &list, &err), -ERR_INVALID);
    CLEANUP_FREE char *longest = alloc_array(PLACE_ADDRESS_MAX + 2, 1);
    memset(longest, 'x', PLACE_ADDRESS_MAX + 1);
    odd.address = longest;
    assert_int_equal(place_encode(&odd, &list, &err), -ERR_INVALID);
    longest[PLACE_ADDRESS_MAX] = '\0';
    assert_int_equal(place_encode(&odd, &list, &err), 0);
    struct view twice[] = {list.items[0], list.items[0]};
    struct place got;
    assert_int_equal(place_decode((struct view_list){twice, 2}, &got, &err), -ERR_PROTOCOL);
    struct view half = {list.items[0].data, list.items[0].len / 2};
    assert_int_equal(place_decode((struct view_list){&half, 1}, &got, &err), -ERR_PROTOCOL);
    alloc_listfree(&list);
}

static void a_configured_place_is_for_backends_with_an_engine(void **state)
{
    (void)state;
    struct view_list list = place_configured("docker", "tcp://there:2375");
    CLEANUP_FREE char *text = place_list_text(list);
    assert_string_equal(text, "tcp://there:2375");
    alloc_listfree(&list);
    assert_int_equal(place_configured("docker", "").count, 0);
    assert_int_equal(place_configured("oci", "tcp://there:2375").count, 0);
    assert_int_equal(place_configured("nonsense", "tcp://there:2375").count, 0);
    CLEANUP_FREE char *none = place_list_text(list);
    assert_string_equal(none, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_arrives_as_it_was_sent),
        cmocka_unit_test(what_is_no_place_is_neither_sent_nor_taken),
        cmocka_unit_test(a_configured_place_is_for_backends_with_an_engine),
    };
    return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
