/*
 * Which service is meant, what its sandboxes' daemons are called, and which keys can be sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "worker/backend/e2b/service.h"

#define KEY "e2b_0123456789abcdef"

/* An environment: "NAME=value", NULL at the end. */
static const char *look_up(void *arg, const char *name)
{
    const char *const *env = arg;
    size_t len = strlen(name);
    for (size_t i = 0; env[i] != NULL; i++) {
        if (strncmp(env[i], name, len) == 0 && env[i][len] == '=') {
            return env[i] + len + 1;
        }
    }
    return NULL;
}

static int find(const char *named, const char *const *env, struct e2b_service *ret, struct err *err)
{
    const struct place place = {.kind = named != NULL ? PLACE_NAMED : PLACE_NONE, .address = named};
    return e2b_service_find(&place, look_up, (void *)(uintptr_t)env, ret, err);
}

static void the_variables_of_the_sdks_count_and_an_engine_wins(void **state)
{
    (void)state;
    static const struct {
        const char *named;
        const char *env[4];
        const char *api, *envd;
    } rows[] = {
        {NULL, {NULL}, "https://api.e2b.app", "https://sandbox.e2b.app"},
        {NULL, {"E2B_DOMAIN=e2b.dev"}, "https://api.e2b.dev", "https://sandbox.e2b.dev"},
        {NULL, {"E2B_DOMAIN="}, "https://api.e2b.app", "https://sandbox.e2b.app"},
        {NULL, {"E2B_DOMAIN=x.org:81"}, "https://api.x.org:81", "https://49983-i1.x.org:81"},
        {NULL, {"E2B_API_URL=https://api.x.org/"}, "https://api.x.org", "https://49983-i1.x.org"},
        {NULL,
         {"E2B_API_URL=http://localhost:3000", "E2B_DOMAIN=x.org"},
         "http://localhost:3000",
         "https://49983-i1.x.org"},
        {NULL,
         {"E2B_API_URL=http://127.0.0.1:1", "E2B_SANDBOX_URL=http://127.0.0.1:2/"},
         "http://127.0.0.1:1",
         "http://127.0.0.1:2"},
        {"http://[::1]:8080",
         {"E2B_SANDBOX_URL=http://127.8.9.10"},
         "http://[::1]:8080",
         "http://127.8.9.10"},
        {"y.org", {"E2B_DOMAIN=x.org"}, "https://api.y.org", "https://49983-i1.y.org"},
        {"https://api.y.org/v/", {NULL}, "https://api.y.org/v", "https://49983-i1.y.org"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct e2b_service s;
        struct err err = ERR_INIT;
        const char *env[5] = {"E2B_API_KEY=" KEY};
        memcpy(env + 1, rows[i].env, 3 * sizeof(env[0]));
        if (find(rows[i].named, env, &s, &err) < 0) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(s.api_url, rows[i].api);
        assert_string_equal(s.key, KEY);
        CLEANUP_FREE char *envd = e2b_service_envd_url(&s, "i1", NULL);
        assert_string_equal(envd, rows[i].envd);
        e2b_service_finish(&s);
    }
}

static void a_sandbox_may_have_a_domain_of_its_own(void **state)
{
    (void)state;
    const char *env[] = {"E2B_API_KEY=" KEY, NULL};
    struct e2b_service s;
    assert_int_equal(find(NULL, env, &s, NULL), 0);
    CLEANUP_FREE char *own = e2b_service_envd_url(&s, "i1", "eu.x.org");
    assert_string_equal(own, "https://49983-i1.eu.x.org");
    e2b_service_finish(&s);
}

static void what_is_wrong_is_named_but_no_key_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *named;
        const char *env[3];
        const char *word;
    } rows[] = {
        {NULL, {NULL}, "E2B_API_KEY is not set"},
        {NULL, {"E2B_API_KEY="}, "E2B_API_KEY is not set"},
        {NULL, {"E2B_API_KEY=e2b 5ec"}, "E2B_API_KEY: a key is one word"},
        {NULL, {"E2B_API_KEY=5ec\r\nX: y"}, "E2B_API_KEY: a key is one word"},
        {NULL, {"E2B_API_KEY=5ec\xc3\xa9"}, "E2B_API_KEY: a key is one word"},
        {NULL, {"E2B_API_KEY=k", "E2B_DOMAIN=x/y"}, "E2B_DOMAIN"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=api.x.org"}, "E2B_API_URL"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=https://u:p@x.org"}, "E2B_API_URL"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=https://"}, "E2B_API_URL"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://x.org"}, "in plain text"},
        {NULL, {"E2B_API_KEY=k", "E2B_SANDBOX_URL=http://localhost.x.org"}, "in plain text"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://127.x.org"}, "in plain text"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://127.0.0.1.x.org"}, "in plain text"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://127.1"}, "in plain text"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://[::1].x.org"}, "E2B_API_URL"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://[::2]"}, "in plain text"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=http://localhost:x.org"}, "E2B_API_URL"},
        {NULL, {"E2B_API_KEY=k", "E2B_API_URL=HTTPS://x.org"}, "E2B_API_URL"},
        {NULL, {"E2B_API_KEY=k", "E2B_SANDBOX_URL=https://x.org?y"}, "E2B_SANDBOX_URL"},
        {"two words", {"E2B_API_KEY=k"}, "--engine"},
        {"ftp://x.org", {"E2B_API_KEY=k"}, "--engine"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct e2b_service s;
        struct err err = ERR_INIT;
        assert_int_equal(find(rows[i].named, rows[i].env, &s, &err), -ERR_CONFIG);
        if (strstr(err.text, rows[i].word) == NULL || strstr(err.text, "5ec") != NULL) {
            fail_msg("%s", err.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_variables_of_the_sdks_count_and_an_engine_wins),
        cmocka_unit_test(a_sandbox_may_have_a_domain_of_its_own),
        cmocka_unit_test(what_is_wrong_is_named_but_no_key_is_told),
    };
    return cmocka_run_group_tests_name("e2b service", tests, NULL, NULL);
}
