/* Names of images: valid ones, allowed ones, and what the tool's schema says about them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "supervisor/base/image.h"
#include "supervisor/front/tools.h"
#include "tests/unit/supervisor/client.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int setup(void **state)
{
    *state = client_create();
    client_initialize(*state, "2025-11-25");
    return 0;
}

static int teardown(void **state)
{
    client_free(*state);
    return 0;
}

static void configure(char **field, const char *value)
{
    free(*field);
    *field = alloc_strdup(value);
}

/* ---- grammar -------------------------------------------------------------------------------- */

static void references_that_engines_take_are_taken(void **state)
{
    static const char *const good[] = {
        "python",
        "python:3.13-slim",
        "docker.io/library/python:3.13-slim",
        "localhost/mine",
        "localhost:5000/mine:1",
        "10.0.0.1:5000/a/b/c",
        "ghcr.io/owner/name_x/y__z:Tag_1.2-rc",
        "a--b/c.d",
        "python@sha256:" HEX64,
        "quay.io/a/b:t@sha256:" HEX64,
        "python@sha512:" HEX64 HEX64,
        IMAGE_DOCKER_DEFAULT,
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct err err = ERR_INIT;
        if (image_check_reference(good[i], &err) < 0) {
            fail_msg("%s: %s", good[i], err.text);
        }
    }
}

static void what_is_no_reference_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "-v",
        "--privileged",
        "Python",
        "docker.io/Library/python",
        "python:",
        "python@",
        ":3",
        "@sha256:" HEX64,
        "python:-x",
        "python:.x",
        "python:a b",
        "python: 3",
        "python\n",
        "pyth\x01on",
        "python\x7f",
        "pyth\xc3\xb6n",
        "../etc",
        "a/../b",
        "a..b",
        "./a",
        "/etc",
        "/",
        "a//b",
        "a/",
        "a/.b",
        "a_/b",
        "a___b",
        "a-",
        "host:/x",
        "host:port/x",
        "host:123456/x",
        "a:b/c",
        "python@sha256:" HEX64 "0",
        "python@sha256:ABC",
        "python@md5:" HEX64,
        "python@sha256:" HEX64 "@sha256:" HEX64,
        "http://x/y",
        "python?x=1",
        "python#x",
        "python%2fx",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = ERR_INIT;
        if (image_check_reference(bad[i], &err) != -ERR_INVALID) {
            fail_msg("took %s", bad[i]);
        }
        assert_non_null(strstr(err.text, "image: expected"));
    }
    char *longest = alloc_array(IMAGE_REFERENCE_MAX + 2, 1);
    memset(longest, 'a', IMAGE_REFERENCE_MAX);
    assert_int_equal(image_check_reference(longest, NULL), 0);
    longest[IMAGE_REFERENCE_MAX] = 'a';
    assert_int_equal(image_check_reference(longest, NULL), -ERR_INVALID);
    memset(longest, 0, IMAGE_REFERENCE_MAX + 1);
    longest[0] = 'a';
    longest[1] = ':';
    memset(longest + 2, 't', 128);
    assert_int_equal(image_check_reference(longest, NULL), 0);
    longest[130] = 't';
    assert_int_equal(image_check_reference(longest, NULL), -ERR_INVALID);
    free(longest);
}

/* ---- what is allowed ------------------------------------------------------------------------ */

static void patterns_allow_what_they_show_and_no_more(void **state)
{
    static const struct {
        const char *patterns, *reference;
        bool allowed;
    } cases[] = {
        {"", "evil.example.com/x", true},
        {"python:*", "python:3.13-slim", true},
        {"python:*", "python", true}, /* it means python:latest */
        {"python:*", "docker.io/library/python:3.13", true},
        {"python:*", "python@sha256:" HEX64, false},
        {"python*", "python@sha256:" HEX64, true},
        {"docker.io/library/python:3.1*", "python:3.13", true},
        {"docker.io/library/python:3.1*", "python:3.9", false},
        {"python:*", "mypython:3", false},
        {"python:*", "other/python:3", false},
        {"python*", "python.example.com/evil", false},
        {"python*", "python3:1", true},
        {"*python", "evil/python", false},
        {"python", "python:latest", true},
        {"python", "python:3", false},
        {"debian:12,python:3.13,ghcr.io/acme/*", "python:3.13", true},
        {"debian:12,python:3.13,ghcr.io/acme/*", "ghcr.io/acme/deep/tool:v1", true},
        {"debian:12,python:3.13,ghcr.io/acme/*", "ghcr.io/acme", false},
        {"debian:12,python:3.13,ghcr.io/acme/*", "ghcr.io/acmes/tool", false},
        {"debian:12,python:3.13,ghcr.io/acme/*", "python:3.1", false},
        {"*.example.com/team/*", "eu.example.com/team/x:1", true},
        {"*.example.com/team/*", "evil.com/a.example.com/team/x", false},
        {"ghcr.io/*/tool:*-slim*", "ghcr.io/acme/tool:1-slim-2", true},
        {"ghcr.io/*/tool:*-slim*", "ghcr.io/a/b/tool:1-slim", false},
        {"ghcr.io/*/tool:*a*b", "ghcr.io/x/tool:aab-ab", true},
        {"*", "python:3", true},
        {"*", "someone/python:3", false}, /* "*" only stands for official images of Docker Hub */
        {"*/*", "someone/python:3", true},
        {"*", "ghcr.io/x/y", false},
        {"localhost:5000/*", "localhost:5000/a", true},
        {"localhost:5000/*", "localhost:50000/a", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(image_check_patterns(cases[i].patterns, NULL), 0);
        if (image_is_allowed(cases[i].patterns, cases[i].reference) != cases[i].allowed) {
            fail_msg("%s with %s", cases[i].reference, cases[i].patterns);
        }
    }
}

static void a_bad_list_of_patterns_is_refused(void **state)
{
    static const char *const bad[] = {",", "a,,b", "a,", ",a", "a b", "a;b", "a\n", "\"a\"", "[a]"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = ERR_INIT;
        assert_int_equal(image_check_patterns(bad[i], &err), -ERR_CONFIG);
        assert_non_null(strstr(err.text, "separated by commas"));
    }
}

/* ---- in create_sandbox ---------------------------------------------------------------------- */

static void check_refused(struct client *c, const char *image, const char *code)
{
    char *arguments = alloc_printf("{'image':'%s'}", image);
    size_t opens = c->fleet->opens;
    const cJSON *result = client_tool(c, "create_sandbox", arguments);
    assert_string_equal(text_at(result, "structuredContent.error.code"), code);
    assert_int_equal(c->fleet->opens, opens);
    free(arguments);
}

static void check_taken(struct client *c, const char *image)
{
    char *arguments = alloc_printf("{'image':'%s','code':'1'}", image);
    const cJSON *result = client_tool(c, "create_run_close", arguments);
    assert_null(at(result, "structuredContent.error"));
    assert_string_equal(c->fleet->spec_image, image);
    assert_true(c->fleet->spec.image_is_reference);
    free(arguments);
}

static void on_docker_clients_name_references(void **state)
{
    static const char *const backends[] = {"docker", "auto"};
    for (size_t i = 0; i < 2; i++) {
        struct client *c = *state;
        configure(&c->config.backend, backends[i]);
        configure(&c->config.allow_images, "");
        check_taken(c, "python:3.12");
        check_taken(c, "registry.example.com:5000/team/tool@sha256:" HEX64);
        check_refused(c, "-v", "invalid_argument");
        check_refused(c, "../root", "invalid_argument");
        check_refused(c, "Python", "invalid_argument");
        configure(&c->config.allow_images, "python:*,debian:12");
        check_taken(c, "python:3.12");
        check_refused(c, "debian:11", "image_not_found");
        check_refused(c, "evil.example.com/python:3", "image_not_found");
    }
    /* The default image may also be named. */
    struct client *c = *state;
    configure(&c->config.backend, "docker");
    configure(&c->config.image, "mine:1");
    check_taken(c, "mine:1");
}

static void on_oci_clients_name_directories(void **state)
{
    struct client *c = *state;
    configure(&c->config.backend, "oci");
    check_refused(c, "python", "image_not_found");
    check_refused(c, "python:3.12", "invalid_argument");
    configure(&c->config.image_dir, "/");
    client_tool(c, "create_sandbox", "{'image':'usr'}");
    assert_string_equal(c->fleet->spec_image, "//usr");
    assert_false(c->fleet->spec.image_is_reference);
}

/* Checks the schema of the argument for this configuration. */
static void check_schema(struct client *c, const char *text, int max_length)
{
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    const cJSON *image = at(list, "1.inputSchema.properties.image");
    if (strstr(text_at(image, "description"), text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, text_at(image, "description"));
    }
    assert_int_equal(number_at(image, "maxLength"), max_length);
    cJSON_Delete(list);
    tools_destroy(tools);
}

static void the_schema_says_what_images_are_here(void **state)
{
    struct client *c = *state;
    check_schema(c, "if sandboxes run in a container engine", 512);
    configure(&c->config.backend, "docker");
    check_schema(c, "Default: " IMAGE_DOCKER_DEFAULT ".", 512);
    configure(&c->config.image, "mine@sha256:" HEX64);
    configure(&c->config.allow_images, "python:*,tool@sha256:*");
    check_schema(c, "python:*,tool@sha256:*. Default: mine@sha256:" HEX64 ".", 512);
    configure(&c->config.image, "");
    configure(&c->config.backend, "oci");
    struct tools *tools = tools_create(&c->config, c->languages);
    cJSON *list = tools_list(tools, RESULT_FORM_TEXT);
    assert_null(at(list, "1.inputSchema.properties.image"));
    cJSON_Delete(list);
    tools_destroy(tools);
    configure(&c->config.image_dir, "/");
    check_schema(c, "one of those this server offers", 64);
}

/* ---- configuration -------------------------------------------------------------------------- */

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

static void docker_is_configured(void **state)
{
    struct config c;
    struct err err = ERR_INIT;
    setenv("CLOISTER_ENGINE", "tcp://there:2375", 1);
    int rc = load(&c, &err,
                  (const char *const[]){"--backend=docker", "--image", "debian:12", "--pull=never",
                                        "--allow-images", "debian:*", NULL});
    unsetenv("CLOISTER_ENGINE");
    assert_int_equal(rc, 0);
    assert_string_equal(c.backend, "docker");
    assert_string_equal(c.engine, "tcp://there:2375");
    assert_string_equal(c.image, "debian:12");
    assert_string_equal(c.pull, "never");
    assert_string_equal(c.allow_images, "debian:*");
    assert_string_equal(config_backend(&c)->name, "docker");
    config_finish(&c);
    assert_int_equal(load(&c, &err, (const char *const[]){NULL}), 0);
    assert_string_equal(c.engine, "");
    assert_string_equal(c.pull, "missing");
    assert_string_equal(c.allow_images, "");
    assert_null(config_backend(&c));
    config_finish(&c);
}

static void a_bad_choice_of_images_is_named_at_the_start(void **state)
{
    static const struct {
        const char *words[4];
        const char *text;
    } cases[] = {
        {{"--pull=always"}, "--pull: expected one of: missing never; got \"always\""},
        {{"--backend=docker", "--image=/srv"}, "--image on docker: image: expected"},
        {{"--image=Python"}, "--image on docker: image: expected"},
        {{"--allow-images=a b"}, "--allow-images: expected image references"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config c;
        struct err err = ERR_INIT;
        assert_int_equal(load(&c, &err, cases[i].words), -ERR_CONFIG);
        if (strncmp(err.text, cases[i].text, strlen(cases[i].text)) != 0) {
            fail_msg("%s", err.text);
        }
    }
}

static void our_own_name_for_the_backend_comes_first(void **state)
{
    struct config c;
    struct err err = ERR_INIT;
    const char *const none[] = {NULL};
    setenv("INTERPRETER_TYPE", "docker", 1);
    assert_int_equal(load(&c, &err, none), 0);
    assert_string_equal(c.backend, "docker");
    config_finish(&c);
    setenv("INTERPRETER_TYPE", "firecracker", 1);
    assert_int_equal(load(&c, &err, none), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "INTERPRETER_TYPE: expected one of"));
    setenv("CLOISTER_BACKEND", "oci", 1);
    assert_int_equal(load(&c, &err, none), 0);
    unsetenv("INTERPRETER_TYPE");
    unsetenv("CLOISTER_BACKEND");
    assert_string_equal(c.backend, "oci");
    config_finish(&c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_that_engines_take_are_taken),
        cmocka_unit_test(what_is_no_reference_is_refused),
        cmocka_unit_test(patterns_allow_what_they_show_and_no_more),
        cmocka_unit_test(a_bad_list_of_patterns_is_refused),
        T(on_docker_clients_name_references),
        T(on_oci_clients_name_directories),
        T(the_schema_says_what_images_are_here),
        cmocka_unit_test(docker_is_configured),
        cmocka_unit_test(a_bad_choice_of_images_is_named_at_the_start),
        cmocka_unit_test(our_own_name_for_the_backend_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
