/* What an operator may say of the pool, and of modules that are imported in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/base/pool_option.h"

static int load(struct config *c, struct err *err, const char *const *words)
{
    char *argv[8];
    int count = 0;
    int used;
    for (; words[count] != NULL; count++) {
        argv[count] = (char *)(uintptr_t)words[count];
    }
    return config_load(c, count, argv, &used, err);
}

static void expect(uint64_t size, const char *image, const char *const *words)
{
    struct config c = {.backend = NULL};
    struct err err = ERR_INIT;
    if (load(&c, &err, words) < 0) {
        fail_msg("%s", err.text);
    }
    const struct pool_option o = pool_option_of(&c);
    assert_int_equal(o.count, size);
    assert_string_equal(o.image, image);
    config_finish(&c);
}

static void expect_refused(const char *words_of_error, const char *const *words)
{
    struct config c = {.backend = NULL};
    struct err err = ERR_INIT;
    assert_int_equal(load(&c, &err, words), -ERR_CONFIG);
    if (strstr(err.text, words_of_error) == NULL || strstr(err.text, "--pool") == NULL) {
        fail_msg("%s", err.text);
    }
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void its_size_depends_on_how_clients_come(void **state)
{
    unsetenv("CLOISTER_POOL");
    expect(1, "", WORDS("--backend=oci"));
    expect(1, "/root", WORDS("--backend=oci", "--image=/root"));
    expect(4, "", WORDS("--http=127.0.0.1:0"));
    expect(2, "", WORDS("--http=127.0.0.1:0", "--max-sandboxes=2"));
    setenv("CLOISTER_POOL", "0", 1);
    expect(0, "", WORDS("--http=127.0.0.1:0"));
    unsetenv("CLOISTER_POOL");
}

static void a_number_and_an_image_are_understood(void **state)
{
    expect(0, "", WORDS("--pool=0"));
    expect(32, "", WORDS("--pool=32"));
    expect(3, "python:3.13-slim", WORDS("--backend=docker", "--pool=3:python:3.13-slim"));
    expect(3, "/images/a", WORDS("--backend=oci", "--pool=3:/images/a"));
    expect(3, "/images/a", WORDS("--pool=3:/images/a"));
}

static void what_makes_no_sense_is_refused(void **state)
{
    expect_refused("more than the 32", WORDS("--pool=100000"));
    expect_refused("more than the 4", WORDS("--pool=5", "--max-sandboxes=4"));
    expect_refused("expected a number", WORDS("--pool=some"));
    expect_refused("expected a number", WORDS("--pool=-1"));
    expect_refused("expected a number", WORDS("--pool=99999999999999999999"));
    expect_refused("expected a number", WORDS("--pool=:a"));
    expect_refused("expected a number", WORDS("--pool="));
    expect_refused("no image", WORDS("--pool=1:"));
    expect_refused("path of a directory", WORDS("--backend=oci", "--pool=1:python"));
    expect_refused("reference", WORDS("--backend=docker", "--pool=1:/images/a"));
    expect_refused("image", WORDS("--backend=docker", "--pool=1:NO such"));
}

static void a_configuration_without_it_has_none(void **state)
{
    const struct config c = {.image = (char *)(uintptr_t) ""};
    assert_int_equal(pool_option_of(&c).count, 0);
}

/* ---- modules ---- */

static int load_modules(struct config *c, const char *pool, const char *modules, struct err *err)
{
    CLEANUP_FREE char *first = alloc_printf("--pool=%s", pool);
    CLEANUP_FREE char *second = alloc_printf("--preload=%s", modules);
    char *argv[] = {(char *)(uintptr_t) "--backend=oci", first, second};
    int used;
    return config_load(c, 3, argv, &used, err);
}

static void expect_modules(const char *modules, const char *joined)
{
    struct config c = {.backend = NULL};
    struct err err = ERR_INIT;
    char text[256] = "";
    if (load_modules(&c, "1", modules, &err) < 0) {
        fail_msg("%s", err.text);
    }
    const struct pool_modules o = pool_option_modules(&c);
    for (size_t i = 0; i < o.count; i++) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len, "[%.*s]", VIEW_ARG(o.names[i]));
    }
    assert_string_equal(text, joined);
    config_finish(&c);
}

static void expect_refused_modules(const char *pool, const char *modules, const char *words)
{
    struct config c = {.backend = NULL};
    struct err err = ERR_INIT;
    assert_int_equal(load_modules(&c, pool, modules, &err), -ERR_CONFIG);
    if (strstr(err.text, words) == NULL || strstr(err.text, "--preload") == NULL) {
        fail_msg("%s", err.text);
    }
}

static void names_with_commas_are_understood(void **state)
{
    expect_modules("", "");
    expect_modules("numpy", "[numpy]");
    expect_modules("numpy,pandas", "[numpy][pandas]");
    expect_modules(" numpy , matplotlib.pyplot,", "[numpy][matplotlib.pyplot]");
    expect_modules("_a1.b_2.C", "[_a1.b_2.C]");
}

static void what_is_no_module_is_refused(void **state)
{
    static const char *const none[] = {
        "num py", "1numpy",     "numpy.",  ".numpy",      "a..b",     "a.1",
        "a-b",    "a,,b",       ",a",      "a;import os", "a\nb",     "../a",
        "a/b",    "n\xc3\xbcm", "os as x", "\"a\"",       "numpy>=1", "a(b)",
    };
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        expect_refused_modules("1", none[i], "expected names of Python modules");
    }
    expect_refused_modules("1", "numpy,pandas,numpy", "numpy is named twice");
}

static void they_are_few_and_short(void **state)
{
    char name[LIMIT_MODULE_NAME + 2];
    memset(name, 'a', sizeof(name));
    name[LIMIT_MODULE_NAME] = '\0';
    struct config c = {.backend = NULL};
    assert_int_equal(load_modules(&c, "1", name, NULL), 0);
    config_finish(&c);
    name[LIMIT_MODULE_NAME] = 'a';
    name[LIMIT_MODULE_NAME + 1] = '\0';
    expect_refused_modules("1", name, "129 bytes");
    expect_refused_modules("1", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16 modules");
}

static void there_has_to_be_a_pool(void **state)
{
    struct config c = {.backend = NULL};
    expect_refused_modules("0", "numpy", "--pool 0");
    assert_int_equal(load_modules(&c, "auto", "numpy", NULL), 0);
    config_finish(&c);
}

int main(void)
{
    unsetenv("CLOISTER_PRELOAD");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_size_depends_on_how_clients_come),
        cmocka_unit_test(a_number_and_an_image_are_understood),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_configuration_without_it_has_none),
        cmocka_unit_test(names_with_commas_are_understood),
        cmocka_unit_test(what_is_no_module_is_refused),
        cmocka_unit_test(they_are_few_and_short),
        cmocka_unit_test(there_has_to_be_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
