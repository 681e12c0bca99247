#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "supervisor/web/http/digest.h"

/* FIPS 180-4, and the output of `printf '' | sha256sum`. */
static void known_digests_come_out(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        unsigned char digest[WEB_DIGEST_BYTES];
        struct err err = ERR_INIT;
        assert_int_equal(web_digest_sha256(view_of(known[i].text), digest, &err), 0);
        char hex[2 * WEB_DIGEST_BYTES + 1];
        for (size_t at = 0; at < WEB_DIGEST_BYTES; at++) {
            snprintf(hex + 2 * at, 3, "%02x", digest[at]);
        }
        assert_string_equal(hex, known[i].hex);
    }
}

static void digests_that_differ_in_any_byte_are_not_equal(void **state)
{
    (void)state;
    unsigned char a[WEB_DIGEST_BYTES] = {1, 2, 3}, b[WEB_DIGEST_BYTES] = {1, 2, 3};
    assert_true(web_digest_equal(a, b));
    for (size_t at = 0; at < WEB_DIGEST_BYTES; at++) {
        b[at] ^= 0x10;
        assert_false(web_digest_equal(a, b));
        b[at] ^= 0x10;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests_come_out),
        cmocka_unit_test(digests_that_differ_in_any_byte_are_not_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
