/* What was asked for and means nothing, and the word that was meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "supervisor/base/asked.h"
#include "supervisor/base/near.h"

static const char *near_one(const char *typed)
{
    static const char *const words[] = {"memory-mb", "max-memory-mb", "pids", "doctor", "demo"};
    struct near_word n;
    near_begin(&n, view_of(typed));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        near_try(&n, words[i]);
    }
    return n.best;
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    assert_string_equal(near_one("memory-mb"), "memory-mb");
    assert_string_equal(near_one("MEMROY_MB"), "memory-mb");
    assert_string_equal(near_one("memory-m"), "memory-mb");
    assert_string_equal(near_one("doctr"), "doctor");
    assert_string_equal(near_one("dmeo"), "demo");
    assert_string_equal(near_one("pid"), "pids");
}

static void what_has_little_in_common_is_not_near(void **state)
{
    char letters[200];
    (void)state;
    assert_null(near_one(""));
    assert_null(near_one("x"));
    assert_null(near_one("serve"));
    assert_null(near_one("colour"));
    memset(letters, 'm', sizeof(letters) - 1);
    letters[sizeof(letters) - 1] = '\0';
    assert_null(near_one(letters));
}

/* Whether a server with these options may begin. */
static int checked(const char *const *words, struct err *err)
{
    struct config config;
    int argc = 0, used;
    while (words[argc] != NULL) {
        argc++;
    }
    assert_int_equal(config_load(&config, argc, (char **)(uintptr_t)words, &used, err), 0);
    int rc = asked_check_http(&config, err);
    config_finish(&config);
    return rc;
}

static void protection_of_http_without_http_is_refused(void **state)
{
    static const char *const bad[][3] = {{"--tokens", "/f", NULL},
                                         {"--tls-key", "/f", NULL},
                                         {"--allow-origins", "https://a.example", NULL},
                                         {"--oauth-issuer", "https://a.example", NULL}};
    static const char *const good[][5] = {{NULL},
                                          {"--stdio", NULL},
                                          {"--max-sessions", "9", NULL},
                                          {"--http", "0", "--tokens", "/f", NULL}};
    struct err err = ERR_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(checked(bad[i], &err), -ERR_CONFIG);
        assert_non_null(strstr(err.text, bad[i][0]));
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(checked(good[i], &err), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_word_is_found),
        cmocka_unit_test(what_has_little_in_common_is_not_near),
        cmocka_unit_test(protection_of_http_without_http_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
