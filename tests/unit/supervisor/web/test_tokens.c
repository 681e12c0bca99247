/*
 * The file of tokens: what its lines mean, what is refused, and what becomes of principals when it
 * is read anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/auth/tokens.h"

#define NOW_MS (UINT64_C(1767225600) * 1000) /* 2026-01-01 */

static const struct principal_limits defaults = {1, 2, 3};

static struct tokens *read_good(const char *text)
{
    struct tokens *t = NULL;
    bool plain;
    struct err err = ERR_INIT;
    int rc = tokens_read(view_of(text), &defaults, NOW_MS, &t, &plain, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
    return t;
}

static struct principal *find(const struct tokens *t, const char *token, uint64_t now_ms)
{
    unsigned char digest[WEB_DIGEST_BYTES];
    struct err err = ERR_INIT;
    assert_int_equal(web_digest_sha256(view_of(token), digest, &err), 0);
    return tokens_find(t, digest, now_ms);
}

static void a_token_file_is_read_with_names_limits_and_dates(void **state)
{
    (void)state;
    struct tokens *t =
        read_good("# who may come in\n"
                  "\n"
                  "alice abcdefghijklmnop sandboxes=5\r\n"
                  "alice\t0123456789abcdef==\tcalls=9   \n"
                  "  # indented\n"
                  "bob sha256:98EA6E4F216F2FB4B69FFF9B3A44842C38686CA685F3F55DC48C5D3FB1107BE4 "
                  "expires=2026-01-01\n"
                  "carol token-of-carol-1 expires=2026-01-01T00:00:01Z memory_mb=0\n"
                  "dave token-of-dave-999 expires=2025-12-31\n"
                  "eve.x_y-1 A-._~+/aaaaaaaaa");
    struct principal *alice = find(t, "abcdefghijklmnop", NOW_MS);
    assert_non_null(alice);
    assert_string_equal(alice->name, "alice");
    assert_int_equal(alice->limits.sandboxes, 5);
    assert_int_equal(alice->limits.memory_mb, 2);
    assert_int_equal(alice->limits.calls, 9); /* from either line */
    assert_ptr_equal(find(t, "0123456789abcdef==", NOW_MS), alice);
    assert_null(find(t, "0123456789abcdef=", NOW_MS));
    assert_null(find(t, "abcdefghijklmno", NOW_MS));
    assert_null(find(t, "abcdefghijklmnopq", NOW_MS));
    assert_null(find(t, "", NOW_MS));
    /* the digest of "hi there"; a digest is not a token */
    struct principal *bob = find(t, "hi there", NOW_MS);
    assert_null(bob);
    assert_null(
        find(t, "sha256:98EA6E4F216F2FB4B69FFF9B3A44842C38686CA685F3F55DC48C5D3FB1107BE4", NOW_MS));
    /* valid for the whole day, including its last second */
    assert_non_null(find(t, "token-of-carol-1", NOW_MS + 999));
    assert_null(find(t, "token-of-carol-1", NOW_MS + 1000));
    assert_null(find(t, "token-of-dave-999", NOW_MS));
    assert_string_equal(find(t, "A-._~+/aaaaaaaaa", NOW_MS)->name, "eve.x_y-1");
    assert_int_equal(tokens_count(t), 5);
    tokens_destroy(t);
}

static void a_digest_is_as_good_as_its_token_until_its_date(void **state)
{
    (void)state;
    /* printf abc | sha256sum */
    struct tokens *t =
        read_good("x sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad "
                  "expires=2026-02-28\n");
    uint64_t end_ms = NOW_MS + UINT64_C(59) * 86400 * 1000; /* the end of the 28th of February */
    assert_non_null(find(t, "abc", end_ms - 1));
    assert_null(find(t, "abc", end_ms));
    tokens_destroy(t);
    t = read_good("");
    assert_int_equal(tokens_count(t), 0);
    tokens_destroy(t);
}

static void who_may_read_metrics_is_said_behind_a_token(void **state)
{
    (void)state;
    struct tokens *t = read_good("alice 0123456789abcdef metrics=yes\n"
                                 "alice 0123456789abcdeg\n"
                                 "bob 0123456789abcdeh calls=1 metrics=yes expires=2027-01-01\n"
                                 "bob 0123456789abcdei metrics=yes\n"
                                 "carol 0123456789abcdej\n"
                                 "scraper 0123456789abcdek metrics=only\n");
    assert_int_equal(find(t, "0123456789abcdeg", NOW_MS)->metrics, PRINCIPAL_METRICS_YES);
    assert_int_equal(find(t, "0123456789abcdei", NOW_MS)->metrics, PRINCIPAL_METRICS_YES);
    assert_int_equal(find(t, "0123456789abcdej", NOW_MS)->metrics, PRINCIPAL_METRICS_NO);
    assert_int_equal(find(t, "0123456789abcdek", NOW_MS)->metrics, PRINCIPAL_METRICS_ONLY);
    assert_int_equal(tokens_names(t), 3); /* no share is kept for who uses no tools */
    struct tokens *fresh = read_good("scraper 0123456789abcdek\n"
                                     "carol 0123456789abcdej metrics=yes\n"
                                     "alice 0123456789abcdef\nbob 0123456789abcdeh\n");
    struct principal *carol = find(t, "0123456789abcdej", NOW_MS);
    tokens_replace(t, fresh, NULL, NULL);
    assert_ptr_equal(find(fresh, "0123456789abcdej", NOW_MS), carol);
    assert_int_equal(carol->metrics, PRINCIPAL_METRICS_YES);
    assert_int_equal(find(fresh, "0123456789abcdek", NOW_MS)->metrics, PRINCIPAL_METRICS_NO);
    assert_int_equal(find(fresh, "0123456789abcdef", NOW_MS)->metrics, PRINCIPAL_METRICS_NO);
    tokens_destroy(fresh);
}

static void who_may_use_the_control_api_is_said_behind_a_token(void **state)
{
    (void)state;
    struct tokens *t =
        read_good("alice 0123456789abcdef admin=yes\nalice 0123456789abcdeg\n"
                  "bob 0123456789abcdeh sandboxes=1 memory_mb=2 calls=3 metrics=yes admin=yes "
                  "expires=2027-01-01\ncarol 0123456789abcdei\n");
    assert_true(find(t, "0123456789abcdeg", NOW_MS)->admin);
    assert_true(find(t, "0123456789abcdeh", NOW_MS)->admin);
    assert_false(find(t, "0123456789abcdei", NOW_MS)->admin);
    struct tokens *fresh = read_good("alice 0123456789abcdef\ncarol 0123456789abcdei admin=yes\n"
                                     "bob 0123456789abcdeh\n");
    tokens_replace(t, fresh, NULL, NULL);
    assert_false(find(fresh, "0123456789abcdef", NOW_MS)->admin);
    assert_true(find(fresh, "0123456789abcdei", NOW_MS)->admin);
    tokens_destroy(fresh);
}

static void a_bad_line_is_named_and_its_secret_is_not(void **state)
{
    (void)state;
#define SECRET "SeCrEtSeCrEtSeCrEt"
    static const char *const bad[] = {
        "alice",
        "alice short",
        "alice fifteen-charact",
        "alice " SECRET " " SECRET,
        "alice " SECRET " sandboxes=" SECRET,
        "alice " SECRET " sandboxes=",
        "alice " SECRET " sandboxes=-1",
        "alice " SECRET " sandboxes=99999999999",
        "alice " SECRET " Sandboxes=1",
        "alice " SECRET " metrics",
        "alice " SECRET " metrics=",
        "alice " SECRET " metrics=no",
        "alice " SECRET " metrics=" SECRET,
        "alice " SECRET " metrics=yes metrics=only",
        "alice " SECRET " admin",
        "alice " SECRET " admin=no",
        "alice " SECRET " admin=" SECRET,
        "alice " SECRET " sandboxes=1 sandboxes=2",
        "alice " SECRET " expires=2026-02-30",
        "alice " SECRET " expires=2026-13-01",
        "alice " SECRET " expires=2026-1-1",
        "alice " SECRET " expires=tomorrow",
        "alice " SECRET " expires=2026-01-01T25:00:00Z",
        "alice " SECRET " expires=2026-01-01T00:00:00+",
        "alice " SECRET " expires=1969-12-31",
        "alice " SECRET " expires=2027-01-01 expires=2027-01-01",
        "alice = " SECRET,
        "al/ice " SECRET,
        "alice@example " SECRET,
        "local " SECRET,
        "stdio " SECRET,
        "cloister_abcdefghijklmnop alice-alice-alice",
        "alice " SECRET "$",
        "alice " SECRET "=x",
        "alice " SECRET "\x01",
        "alice sha256:" SECRET,
        "alice sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
        "alice sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015adf",
        "alice sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ag",
        "alice sha512:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "alice " SECRET " calls=1 calls=1 calls=1 calls=1 calls=1 calls=1 calls=1",
        "\xef\xbb\xbf"
        "alice " SECRET,
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tokens *t = NULL;
        bool plain;
        struct err err = ERR_INIT;
        CLEANUP_FREE char *text = alloc_printf("# comment\nbob 0123456789abcdef\n%s\n", bad[i]);
        assert_int_equal(tokens_read(view_of(text), &defaults, NOW_MS, &t, &plain, &err),
                         -ERR_CONFIG);
        assert_null(t);
        assert_int_equal(strncmp(err.text, "line 3: ", 8), 0);
        assert_null(strstr(err.text, "SeCrEt")); /* not even when it is in the wrong place */
    }
    static const char *const together[] = {
        "a 0123456789abcdef\nb 0123456789abcdef\n",
        ("a 0123456789abcdef\na "
         "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f\n"),
        "a 0123456789abcdef calls=1\na 0123456789abcdeg calls=2\n",
        "a 0123456789abcdef metrics=only\na 0123456789abcdeg metrics=yes\n",
    };
    for (size_t i = 0; i < sizeof(together) / sizeof(together[0]); i++) {
        struct tokens *t = NULL;
        bool plain;
        struct err err = ERR_INIT;
        assert_int_equal(tokens_read(view_of(together[i]), &defaults, NOW_MS, &t, &plain, &err),
                         -ERR_CONFIG);
        assert_non_null(strstr(err.text, "line 2: "));
        assert_non_null(strstr(err.text, "line 1"));
    }
#undef SECRET
}

static void there_is_a_limit_to_tokens(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < TOKENS_MAX; i++) {
        assert_int_equal(buf_printf(&text, NULL, "user%d sha256:%064x\n", i % 2000, i), 0);
    }
    struct tokens *t = NULL;
    bool plain = true;
    struct err err = ERR_INIT;
    assert_int_equal(
        tokens_read(view_bytes(text.data, text.len), &defaults, NOW_MS, &t, &plain, &err), 0);
    assert_false(plain);
    assert_int_equal(tokens_count(t), TOKENS_MAX);
    unsigned char digest[WEB_DIGEST_BYTES] = {0};
    digest[30] = 4095 >> 8;
    digest[31] = 4095 & 255;
    assert_string_equal(tokens_find(t, digest, NOW_MS)->name, "user95");
    tokens_destroy(t);
    assert_int_equal(buf_add_str(&text, "one sha256:more\n", NULL), 0);
    assert_int_equal(
        tokens_read(view_bytes(text.data, text.len), &defaults, NOW_MS, &t, &plain, &err),
        -ERR_CONFIG);
    assert_non_null(strstr(err.text, "line 4097"));
    buf_reset(&text, 0);
    for (int i = 0; i < TOKENS_LINE_MAX_BYTES; i++) {
        assert_int_equal(buf_add_str(&text, "#", NULL), 0);
    }
    assert_int_equal(
        tokens_read(view_bytes(text.data, text.len), &defaults, NOW_MS, &t, &plain, &err), 0);
    tokens_destroy(t);
    assert_int_equal(buf_add_str(&text, "#", NULL), 0);
    assert_int_equal(
        tokens_read(view_bytes(text.data, text.len), &defaults, NOW_MS, &t, &plain, &err),
        -ERR_CONFIG);
    buf_finish(&text);
}

static void on_revoked(void *arg, struct principal *p)
{
    char *names = arg;
    strncat(names, p->name, 31 - strlen(names));
    assert_true(p->revoked);
}

static void principals_outlive_a_new_token_file(void **state)
{
    (void)state;
    char names[32] = "";
    struct tokens *old = read_good("alice 0123456789abcdef calls=4\nbob 0123456789abcdeg\n");
    struct principal *alice = find(old, "0123456789abcdef", NOW_MS);
    struct principal *bob = principal_hold(find(old, "0123456789abcdeg", NOW_MS));
    struct tokens *fresh = read_good("carol 0123456789abcdeh\nalice 0123456789abcdei\n"
                                     "bob 0123456789abcdeg expires=2025-01-01\n");
    alice->calls = 2;
    tokens_replace(old, fresh, on_revoked, names);
    assert_string_equal(names, "bob"); /* all tokens of the other one have expired */
    assert_null(find(fresh, "0123456789abcdef", NOW_MS));
    assert_ptr_equal(find(fresh, "0123456789abcdei", NOW_MS), alice);
    assert_int_equal(alice->limits.calls, 3); /* the default again */
    assert_int_equal(alice->calls, 2);
    assert_false(alice->revoked);
    /* a later principal of that name is another one */
    struct tokens *later = read_good("bob 0123456789abcdeg\n");
    names[0] = '\0';
    tokens_replace(fresh, later, on_revoked, names);
    assert_string_equal(names, "carolalice");
    assert_ptr_not_equal(find(later, "0123456789abcdeg", NOW_MS), bob);
    assert_false(find(later, "0123456789abcdeg", NOW_MS)->revoked);
    assert_true(bob->revoked);
    principal_release(bob);
    tokens_destroy(later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_file_is_read_with_names_limits_and_dates),
        cmocka_unit_test(a_digest_is_as_good_as_its_token_until_its_date),
        cmocka_unit_test(who_may_read_metrics_is_said_behind_a_token),
        cmocka_unit_test(who_may_use_the_control_api_is_said_behind_a_token),
        cmocka_unit_test(a_bad_line_is_named_and_its_secret_is_not),
        cmocka_unit_test(there_is_a_limit_to_tokens),
        cmocka_unit_test(principals_outlive_a_new_token_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
