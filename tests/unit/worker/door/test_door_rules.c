/*
 * Which places a door leads to, and which addresses these may have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "common/net/authority.h"
#include "worker/door/rules.h"

static int take(struct door_rules *r, const char *const *texts, size_t count, const char *proxy,
                const char *auth)
{
    struct view items[2 * LIMIT_DOOR_RULES + 4];
    struct err err = ERR_INIT;
    for (size_t i = 0; i < count; i++) {
        items[i] = view_of(texts[i]);
    }
    struct msg_open open = {.door = {items, count}};
    open.door_proxy = view_of(proxy);
    open.door_proxy_auth = view_of(auth);
    int rc = door_rules_take(r, &open, &err);
    assert_int_equal(rc < 0, err.text[0] != '\0');
    return rc;
}

static bool leads_to(const struct door_rules *r, const char *text)
{
    struct authority to;
    assert_true(authority_parse(view_of(text), &to));
    return door_rules_find(r, &to) != NULL;
}

static void a_place_is_a_host_with_a_port(void **state)
{
    static const char *const texts[] = {"pypi.org:443",     "public", "Index.Example:8080", "own",
                                        "[FD00::0:1]:8080", "own",    "10.1.2.3:80",        "own"};
    struct door_rules r = {.count = 0};
    (void)state;
    assert_int_equal(take(&r, texts, 8, "", ""), 0);
    assert_true(leads_to(&r, "pypi.org:443"));
    assert_true(leads_to(&r, "PyPI.org:443"));
    assert_true(leads_to(&r, "index.example:8080"));
    assert_true(leads_to(&r, "[fd00::1]:8080"));
    assert_true(leads_to(&r, "10.1.2.3:80"));
    static const char *const others[] = {
        "pypi.org:80",
        "pypi.org",
        "pypi.org.evil.example:443",
        "evil.pypi.org:443",
        "pypi.org.:443",
        "10.1.2.3:81",
        "010.1.2.3:80",
        "[fd00::2]:8080",
        "0x0a010203:80",
        "10.1.515:80",
        "[::ffff:10.1.2.3]:80",
        "169.254.169.254:80",
        "localhost:8080",
        "127.0.0.1:80",
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(leads_to(&r, others[i]));
    }
    door_rules_finish(&r);
}

static void what_is_no_host_is_refused(void **state)
{
    struct door_rules r = {.count = 0};
    (void)state;
    static const char *const bad[] = {"",        "pypi.org", "pypi.org:0",      "pypi.org:65536",
                                      ":443",    "a b:1",    "user@pypi.org:1", "http://pypi.org:1",
                                      "[::1:80", "*:443",    "pypi.org:44x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *texts[] = {bad[i], "own"};
        assert_int_equal(take(&r, texts, 2, "", ""), -ERR_INVALID);
        assert_true(bad[i][0] == '\0' || take(&r, NULL, 0, bad[i], "") == -ERR_INVALID);
    }
    const char *kind[] = {"pypi.org:443", "other"};
    assert_int_equal(take(&r, kind, 2, "", ""), -ERR_INVALID);
    assert_int_equal(take(&r, kind, 1, "", ""), -ERR_INVALID);
    assert_int_equal(take(&r, NULL, 0, "proxy:3128", "Basic a\r\nX: y"), -ERR_INVALID);
    const char *many[2 * LIMIT_DOOR_RULES + 2];
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        many[i] = i % 2 == 0 ? "a:1" : "own";
    }
    assert_int_equal(take(&r, many, sizeof(many) / sizeof(many[0]), "", ""), -ERR_INVALID);
    assert_null(r.proxy_auth);
}

static const char *refusal(const char *at, enum door_kind kind, const char *address)
{
    struct door_rule rule = {.kind = kind};
    struct sockaddr_storage storage;
    assert_true(authority_parse(view_of(at), &rule.at));
    if (strchr(address, ':') != NULL) {
        assert_int_equal(uv_ip6_addr(address, 1, (struct sockaddr_in6 *)(void *)&storage), 0);
    } else {
        assert_int_equal(uv_ip4_addr(address, 1, (struct sockaddr_in *)(void *)&storage), 0);
    }
    return door_rule_refuses(&rule, (const struct sockaddr *)&storage);
}

#define PUBLIC(address) refusal("pypi.org:1", DOOR_PUBLIC, address)
#define OWN(address)    refusal("index.example:1", DOOR_OWN, address)

static void a_place_of_ours_is_on_the_internet(void **state)
{
    (void)state;
    static const char *const good[] = {"151.101.0.223", "8.8.8.8",        "172.32.0.1",
                                       "100.128.0.1",   "2a04:4e42::223", "64:ff9b::808:808",
                                       "::ffff:8.8.8.8"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(PUBLIC(good[i]));
        assert_null(OWN(good[i]));
    }
    static const char *const bad[] = {
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.9.9",
        "192.168.1.1",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "2001::1",
        "2001:db8::1",
        "100::1",
        "::127.0.0.1",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (PUBLIC(bad[i]) == NULL) {
            fail_msg("%s is let out to", bad[i]);
        }
    }
}

static void a_name_of_the_operator_may_be_in_a_private_network(void **state)
{
    (void)state;
    static const char *const good[] = {"10.0.0.1",   "192.168.1.1", "172.16.0.1",
                                       "100.64.0.1", "fd12::1",     "::ffff:10.0.0.1"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_null(OWN(good[i]));
    }
    static const char *const bad[] = {"127.0.0.1",
                                      "::1",
                                      "169.254.169.254",
                                      "fe80::1",
                                      "0.0.0.0",
                                      "::ffff:127.0.0.1",
                                      "64:ff9b::a9fe:a9fe",
                                      "224.0.0.1",
                                      "::"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_non_null(OWN(bad[i]));
    }
    assert_string_equal(OWN("127.0.0.1"), "a loopback address");
    assert_string_equal(OWN("169.254.169.254"), "a link-local address");
}

static void what_the_operator_names_by_number_is_that_number(void **state)
{
    (void)state;
    assert_null(refusal("127.0.0.1:1", DOOR_OWN, "127.0.0.1"));
    assert_null(refusal("[::1]:1", DOOR_OWN, "::1"));
    assert_null(refusal("169.254.1.1:1", DOOR_OWN, "169.254.1.1"));
    assert_null(refusal("localhost:1", DOOR_OWN, "127.0.0.1"));
    assert_null(refusal("localhost:1", DOOR_OWN, "::1"));
    assert_non_null(refusal("localhost:1", DOOR_OWN, "169.254.169.254"));
    assert_non_null(refusal("localhost:1", DOOR_PUBLIC, "127.0.0.1"));
    /* a name that reads like a number to a resolver */
    assert_non_null(refusal("2130706433:1", DOOR_OWN, "127.0.0.1"));
    assert_non_null(refusal("0x7f.1:1", DOOR_OWN, "127.0.0.1"));
}

static void no_address_of_this_host_is_on_the_internet(void **state)
{
    (void)state;
    uv_interface_address_t *all;
    int count;
    assert_int_equal(uv_interface_addresses(&all, &count), 0);
    for (int i = 0; i < count; i++) {
        const struct sockaddr *address = (const struct sockaddr *)&all[i].address;
        struct door_rule rule = {.kind = DOOR_PUBLIC};
        assert_true(authority_parse(view_of("pypi.org:1"), &rule.at));
        assert_non_null(door_rule_refuses(&rule, address));
    }
    uv_free_interface_addresses(all, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_a_host_with_a_port),
        cmocka_unit_test(what_is_no_host_is_refused),
        cmocka_unit_test(a_place_of_ours_is_on_the_internet),
        cmocka_unit_test(a_name_of_the_operator_may_be_in_a_private_network),
        cmocka_unit_test(what_the_operator_names_by_number_is_that_number),
        cmocka_unit_test(no_address_of_this_host_is_on_the_internet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
