/*
 * Where installers are let out to, by what the operator configured; and what is no configuration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/net/authority.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/base/sources.h"

static struct config empty(void)
{
    static char none[] = "";
    return (struct config){.package_index = none,
                           .npm_registry = none,
                           .package_dir = none,
                           .package_hosts = none,
                           .package_proxy = none};
}

/* The places as one text. */
static void lead_to(const struct config *c, bool pip, const char *expected)
{
    struct sources s;
    char text[512] = "";
    size_t at = 0;
    sources_init(&s, c, pip);
    for (size_t i = 0; i < s.places.count; i += 2) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s %.*s", i > 0 ? ", " : "",
                               VIEW_ARG(s.places.items[i]), VIEW_ARG(s.places.items[i + 1]));
    }
    assert_string_equal(text, expected);
    sources_finish(&s);
}

static void the_usual_sources_are_on_the_internet(void **state)
{
    struct config c = empty();
    (void)state;
    lead_to(&c, true, "pypi.org:443 public, files.pythonhosted.org:443 public");
    lead_to(&c, false, "registry.npmjs.org:443 public");
    c.package_dir = (char[]){"/srv/wheels"};
    lead_to(&c, true, ""); /* nobody else is asked */
    lead_to(&c, false, "registry.npmjs.org:443 public");
}

static void what_the_operator_names_is_the_operators_own(void **state)
{
    struct config c = empty();
    (void)state;
    c.package_index = (char[]){"http://me:secret@Index.Example:8080/simple/"};
    c.npm_registry = (char[]){"https://[fd00::1]/npm/"};
    c.package_dir = (char[]){"/srv/wheels"};
    lead_to(&c, true, "index.example:8080 own");
    lead_to(&c, false, "[fd00::1]:443 own");
    c.package_hosts = (char[]){"files.example, 10.1.2.3:80,"};
    lead_to(&c, true, "index.example:8080 own, files.example:443 own, 10.1.2.3:80 own");
    c.package_index = (char[]){"https://test.pypi.org/simple"};
    lead_to(&c, true,
            "test.pypi.org:443 own, test-files.pythonhosted.org:443 public, "
            "files.example:443 own, 10.1.2.3:80 own");
}

static void a_proxy_gets_its_password_in_a_header(void **state)
{
    struct config c = empty();
    struct sources s;
    (void)state;
    sources_init(&s, &c, true);
    assert_null(s.proxy);
    assert_null(s.proxy_auth);
    sources_finish(&s);
    c.package_proxy = (char[]){"http://proxy.example:3128/"};
    sources_init(&s, &c, true);
    assert_string_equal(s.proxy, "proxy.example:3128");
    assert_null(s.proxy_auth);
    sources_finish(&s);
    c.package_proxy = (char[]){"http://me:open%20sesame%@proxy.example"};
    sources_init(&s, &c, false);
    assert_string_equal(s.proxy, "proxy.example:80");
    assert_string_equal(s.proxy_auth, "Basic bWU6b3BlbiBzZXNhbWUl");
    sources_finish(&s);
}

static void refuses(const struct config *c, const char *option)
{
    struct err err = ERR_INIT;
    assert_int_equal(sources_check(c, &err), -ERR_CONFIG);
    assert_ptr_equal(strstr(err.text, option), err.text);
    assert_non_null(strstr(err.text, "expected "));
}

static void what_is_no_source_is_refused_with_its_option(void **state)
{
    static const char *const urls[] = {"pypi.org",       "ftp://pypi.org/", "http://",
                                       "http:///x",      "https://a b/",    "http://a:0/",
                                       "http://a:99999", "file:///srv"};
    static const char *const hosts[] = {"a b", "a:0", "http://a", "a,b c", "[::1", "me@a", ","};
    struct config c = empty();
    struct err err = ERR_INIT;
    char text[64];
    (void)state;
    assert_int_equal(sources_check(&c, &err), 0);
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        snprintf(text, sizeof(text), "%s", urls[i]);
        c = empty();
        c.package_index = text;
        refuses(&c, "--package-index: ");
        c = empty();
        c.npm_registry = text;
        refuses(&c, "--npm-registry: ");
        c = empty();
        c.package_proxy = text;
        refuses(&c, "--package-proxy: ");
    }
    c = empty();
    c.package_proxy = (char[]){"https://proxy.example"};
    refuses(&c, "--package-proxy: ");
    c = empty();
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        snprintf(text, sizeof(text), "%s", hosts[i]);
        c.package_hosts = text;
        refuses(&c, "--package-hosts: ");
    }
    char many[4 * LIMIT_DOOR_RULES] = "";
    for (size_t i = 0; i < LIMIT_DOOR_RULES; i++) {
        strcat(many, "a,");
    }
    c.package_hosts = many;
    assert_int_equal(sources_check(&c, &err), -ERR_CONFIG);
}

static void a_url_is_taken_apart_as_programs_do(void **state)
{
    struct authority_url u;
    char text[AUTHORITY_TEXT_SIZE];
    (void)state;
    assert_true(authority_parse_url(view_of("HTTPS://a@b:c@Host.Example/p@q?r#s"), &u));
    assert_true(u.tls && view_is(u.user, "a@b:c") && view_is(u.rest, "/p@q?r#s"));
    authority_print(&u.authority, text);
    assert_string_equal(text, "host.example:443");
    assert_true(authority_parse_url(view_of("http://[FE80:0::1]:81?x"), &u));
    authority_print(&u.authority, text);
    assert_string_equal(text, "[fe80::1]:81");
    assert_true(view_is(u.rest, "?x") && u.user.len == 0 && !u.tls);
    u.authority.port = 0;
    authority_print(&u.authority, text);
    assert_string_equal(text, "[fe80::1]");
    static const char *const bad[] = {"",
                                      "http",
                                      "//a",
                                      "http:/a",
                                      "http://a\t/",
                                      "http://@/",
                                      "http://\xc3\xa4/",
                                      "http://a%2eb/"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(authority_parse_url(view_of(bad[i]), &u));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_sources_are_on_the_internet),
        cmocka_unit_test(what_the_operator_names_is_the_operators_own),
        cmocka_unit_test(a_proxy_gets_its_password_in_a_header),
        cmocka_unit_test(what_is_no_source_is_refused_with_its_option),
        cmocka_unit_test(a_url_is_taken_apart_as_programs_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
