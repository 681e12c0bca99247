/*
 * The parts of authentication that need no loop: names of hosts, the check of an issuer's answer,
 * and the two small tables; the file of tokens is in test_tokens.c.
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
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/auth/introspect_answer.h"
#include "supervisor/web/auth/token_cache.h"
#include "supervisor/web/auth/tokens.h"
#include "supervisor/web/http/guard.h"
#include "supervisor/web/http/throttle.h"
#include "supervisor/web/http/url.h"

/* ---- names ---------------------------------------------------------------------------------- */

static void hosts_with_ports_are_read_and_known_as_local_or_not(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        unsigned port;
        bool address, local, loopback;
    } good[] = {
        {"localhost", "localhost", 0, false, true, true},
        {"LocalHost:8080", "localhost", 8080, false, true, true},
        {"127.0.0.1:1", "127.0.0.1", 1, true, true, true},
        {"127.8.0.1", "127.8.0.1", 0, true, false, true},
        {"[::1]:65535", "::1", 65535, true, true, true},
        {"[0:0:0:0:0:0:0:1]", "::1", 0, true, true, true},
        {"[2001:DB8::A]", "2001:db8::a", 0, true, false, false},
        {"a-b.example_1.com", "a-b.example_1.com", 0, false, false, false},
        {"127.1", "127.1", 0, false, false, false},
        {"127.0.0.1.evil.example", "127.0.0.1.evil.example", 0, false, false, false},
        {"localhost.", "localhost.", 0, false, false, false},
    };
    static const char *const bad[] = {
        "",         ":80",    "a:",          "a:0",         "a:65536",    "a:80x", "a:+80",
        "a:080000", "a b",    "a/b",         "user@host",   "host@evil",  "[::1",  "::1",
        "[::1]80",  "[::1]:", "[]",          "[127.0.0.1]", "a,b",        "a%41",  "[::1%25lo]",
        "a:80:80",  "*",      "h\xc3\xb6st", " localhost",  "localhost ", "a\tb",
    };
    struct authority a;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(authority_parse(view_of(good[i].text), &a));
        assert_string_equal(a.host, good[i].host);
        assert_int_equal(a.port, good[i].port);
        assert_int_equal(a.is_address, good[i].address);
        assert_int_equal(authority_is_local(&a), good[i].local);
        assert_int_equal(authority_is_loopback(&a), good[i].loopback);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(authority_parse(view_of(bad[i]), &a));
    }
    char nul[] = "localhost\0.evil.example";
    assert_false(authority_parse(view_bytes(nul, sizeof(nul) - 1), &a));
    char longest[300];
    memset(longest, 'a', sizeof(longest));
    assert_true(authority_parse(view_bytes(longest, 255), &a));
    assert_false(authority_parse(view_bytes(longest, 256), &a));
}

static void listen_addresses_are_read_and_bad_ones_refused(void **state)
{
    (void)state;
    struct authority a;
    struct err err = ERR_INIT;
    assert_int_equal(listen_address_parse("8080", &a, &err), 0);
    assert_string_equal(a.host, "127.0.0.1");
    assert_int_equal(a.port, 8080);
    assert_int_equal(listen_address_parse("[::]:0", &a, &err), 0);
    assert_true(authority_is_any(&a));
    assert_int_equal(a.port, 0);
    assert_int_equal(listen_address_parse("box.example:99", &a, &err), 0);
    assert_string_equal(a.host, "box.example");
    static const char *const bad[] = {"", "host", "host:", ":80", "::1:80", "h:70000", "1.2.3.4"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err why = ERR_INIT;
        assert_int_equal(listen_address_parse(bad[i], &a, &why), -ERR_CONFIG);
        assert_non_null(strstr(why.text, "--http"));
    }
}

static void load(struct config *config, const char *const *words)
{
    char *argv[16] = {NULL};
    int argc = 0;
    int used;
    struct err err = ERR_INIT;
    for (; words[argc] != NULL; argc++) {
        argv[argc] = alloc_strdup(words[argc]);
    }
    assert_int_equal(config_load(config, argc, argv, &used, &err), 0);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
}

static struct guard *guard_for(const char *http, const char *url, const char *hosts,
                               const char *origins)
{
    const char *const words[] = {
        "--http", http, "--public-url", url, "--allow-hosts", hosts, "--allow-origins",
        origins,  NULL};
    struct config config;
    struct guard *g = NULL;
    struct err err = ERR_INIT;
    load(&config, words);
    assert_int_equal(guard_create(&config, &g, &err), 0);
    config_finish(&config);
    return g;
}

static void only_hosts_of_our_own_are_let_in(void **state)
{
    (void)state;
    static const struct {
        const char *http, *url, *hosts;
        const char *good[8], *bad[12];
    } cases[] = {
        {"8080",
         "",
         "",
         {"localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:1", "LOCALHOST:9"},
         {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
          "192.168.1.1", "0.0.0.0:8080", "", "localhost:x", "localhost@evil.example",
          "127.0.0.2:8080", "localhost, evil.example"}},
        {"127.0.0.5:80", "", "", {"127.0.0.5", "localhost"}, {"127.0.0.6", "evil.example"}},
        {"192.168.1.5:80",
         "",
         "",
         {"192.168.1.5:80", "192.168.1.5"},
         {"localhost", "127.0.0.1", "192.168.1.6", "evil.example"}},
        {"0.0.0.0:80",
         "",
         "",
         {"10.0.0.1", "localhost", "[2001:db8::1]:80"},
         {"evil.example", "127.1", "0x7f000001", "10.0.0.1.evil.example"}},
        {"8080",
         "https://mcp.example/base",
         "a.example, b.example:81",
         {"localhost", "mcp.example", "MCP.example:444", "a.example:1", "b.example:81"},
         {"b.example", "b.example:82", "c.a.example", "example", "xmcp.example"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guard *g = guard_for(cases[i].http, cases[i].url, cases[i].hosts, "");
        for (size_t j = 0; cases[i].good[j] != NULL; j++) {
            assert_true(guard_host_ok(g, cases[i].good[j]));
        }
        for (size_t j = 0; cases[i].bad[j] != NULL; j++) {
            assert_false(guard_host_ok(g, cases[i].bad[j]));
        }
        assert_false(guard_host_ok(g, NULL));
        guard_destroy(g);
    }
    /* "localhost" was given, and resolved to an address */
    struct guard *g = guard_for("box.example:0", "", "", "");
    assert_true(guard_host_ok(g, "box.example:4"));
    assert_false(guard_host_ok(g, "192.0.2.9:4"));
    guard_set_url(g, "http://192.0.2.9:4");
    assert_true(guard_host_ok(g, "192.0.2.9:4"));
    guard_destroy(g);
}

static void names_of_the_certificate_are_our_own(void **state)
{
    static const char *const names[] = {"A.example", "*.b.example", "[2001:db8::1]", "192.0.2.1",
                                        "no name",   "*.",          "c.example:80",  ""};
    static const char *const good[] = {"a.example", "a.example:444", "x.b.example",
                                       "[2001:db8:0::1]", "192.0.2.1:1"};
    static const char *const bad[] = {"b.example",    "x.y.b.example", "x.a.example", "c.example",
                                      "c.example:80", "192.0.2.2",     "example"};
    struct guard *g = guard_for("8080", "", "", "");
    (void)state;
    guard_set_names(g, names, sizeof(names) / sizeof(names[0]));
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(guard_host_ok(g, good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(guard_host_ok(g, bad[i]));
    }
    guard_set_names(g, names + 1, 1);
    assert_false(guard_host_ok(g, "a.example"));
    assert_true(guard_host_ok(g, "x.b.example"));
    const char *many[100];
    for (size_t i = 0; i < 100; i++) {
        many[i] = "a.example";
    }
    guard_set_names(g, many, 100);
    assert_true(guard_host_ok(g, "a.example"));
    guard_destroy(g);
}

static void only_origins_of_our_own_are_let_in(void **state)
{
    (void)state;
    static const char *const local[] = {"http://localhost", "http://localhost:6274",
                                        "https://127.0.0.1:3", "http://[::1]:80", NULL};
    static const char *const strange[] = {"null",
                                          "",
                                          "http://evil.example",
                                          "http://localhost.evil.example",
                                          "http://localhost/",
                                          "http://localhost/x",
                                          "http://localhost@evil.example",
                                          "localhost",
                                          "file://",
                                          "*",
                                          "http://localhost http://evil.example",
                                          "http://127.0.0.2",
                                          "ftp://localhost",
                                          "http://localhost#",
                                          "http://localhost?x",
                                          "http://localhost\\evil",
                                          "//localhost",
                                          "http:/localhost",
                                          "http://",
                                          NULL};
    struct guard *g = guard_for("8080", "", "", "");
    for (size_t i = 0; local[i] != NULL; i++) {
        assert_true(guard_origin_ok(g, local[i]));
    }
    for (size_t i = 0; strange[i] != NULL; i++) {
        assert_false(guard_origin_ok(g, strange[i]));
    }
    guard_destroy(g);

    g = guard_for("8080", "", "",
                  "https://app.example, http://app.example:81 ,vscode-webview://ab1");
    assert_true(guard_origin_ok(g, "https://app.example"));
    assert_true(guard_origin_ok(g, "HTTPS://APP.example:443"));
    assert_true(guard_origin_ok(g, "http://app.example:81"));
    assert_true(guard_origin_ok(g, "vscode-webview://ab1"));
    assert_false(guard_origin_ok(g, "http://app.example"));
    assert_false(guard_origin_ok(g, "https://app.example:81"));
    assert_false(guard_origin_ok(g, "https://x.app.example"));
    assert_false(guard_origin_ok(g, "https://app.example.evil"));
    assert_false(guard_origin_ok(g, "http://localhost:8080")); /* the list replaces the defaults */
    for (size_t i = 0; strange[i] != NULL; i++) {
        assert_false(guard_origin_ok(g, strange[i]));
    }
    guard_destroy(g);
}

/* ---- configuration -------------------------------------------------------------------------- */

/* Part of the error message, or "" if the configuration is valid. */
static void expect_config(const char *part, const char *const *words)
{
    struct config config;
    struct err err = ERR_INIT;
    load(&config, words);
    int rc = web_auth_check_config(&config, &err);
    if (part[0] == '\0') {
        assert_string_equal(err.text, "");
        assert_int_equal(rc, 0);
    } else {
        assert_int_equal(rc, -ERR_CONFIG);
        if (strstr(err.text, part) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", part, err.text);
        }
    }
    config_finish(&config);
}
#define EXPECT_CONFIG(part, ...) expect_config(part, (const char *const[]){__VA_ARGS__, NULL})

static void options_that_would_be_unsafe_together_are_refused(void **state)
{
    (void)state;
#define OAUTH(issuer, introspection)                                                               \
    "--oauth-issuer", issuer, "--oauth-introspection", introspection, "--oauth-client", "/x"
    EXPECT_CONFIG("", "--log-level", "info"); /* without HTTP nothing is checked */
    EXPECT_CONFIG("", "--http", "8080");
    EXPECT_CONFIG("", "--http", "localhost:8080");
    EXPECT_CONFIG("", "--http", "[::1]:8080", "--tokens", "/x");
    EXPECT_CONFIG("--tokens", "--http", "0.0.0.0:8080");
    EXPECT_CONFIG("--insecure-http", "--http", "box.example:8080");
    EXPECT_CONFIG("--tokens", "--http", "0.0.0.0:8080", "--tls-cert", "/c", "--tls-key", "/k");
    EXPECT_CONFIG("in the clear", "--http", "0.0.0.0:8080", "--tokens", "/x");
    EXPECT_CONFIG("", "--http", "0.0.0.0:8080", "--tokens", "/x", "--insecure-http");
    EXPECT_CONFIG("", "--http", "0.0.0.0:8080", "--insecure-http");
    EXPECT_CONFIG("", "--http", "0.0.0.0:8080", "--tokens", "/x", "--tls-cert", "/c", "--tls-key",
                  "/k");
    EXPECT_CONFIG("", "--http", "0.0.0.0:8080", "--tokens", "/x", "--public-url", "https://a.b");
    EXPECT_CONFIG("in the clear", "--http", "0.0.0.0:8080", "--tokens", "/x", "--public-url",
                  "http://a.b");
    /* a public URL implies a proxy, so clients come from outside */
    EXPECT_CONFIG("--tokens", "--http", "8080", "--public-url", "https://a.b");
    EXPECT_CONFIG("", "--http", "8080", "--public-url", "https://a.b", "--tokens", "/x");
    EXPECT_CONFIG("", "--http", "8080", "--public-url", "http://localhost:8080");
    EXPECT_CONFIG("--public-url", "--http", "8080", "--public-url", "a.b");
    EXPECT_CONFIG("--public-url", "--http", "8080", "--public-url", "https://u:p@a.b");
    EXPECT_CONFIG("--public-url", "--http", "8080", "--public-url", "ftp://a.b");
    EXPECT_CONFIG("--http", "--http", "a.b");
    EXPECT_CONFIG("--allow-hosts", "--http", "8080", "--allow-hosts", "http://a.b");
    EXPECT_CONFIG("no entry for all", "--http", "8080", "--allow-origins", "*");
    EXPECT_CONFIG("--allow-origins", "--http", "8080", "--allow-origins", "https://a.b/");

    EXPECT_CONFIG("", "--http", "8080", OAUTH("https://i.s/", "https://i.s/introspect"));
    EXPECT_CONFIG("", "--http", "8080", OAUTH("http://localhost:1", "http://127.0.0.1:1/i"));
    EXPECT_CONFIG("--oauth-issuer", "--http", "8080", OAUTH("http://i.s", "https://i.s/i"));
    EXPECT_CONFIG("--oauth-introspection", "--http", "8080", OAUTH("https://i.s", "http://i.s/i"));
    EXPECT_CONFIG("go together", "--http", "8080", "--oauth-issuer", "https://i.s");
    EXPECT_CONFIG("go together", "--http", "8080", "--oauth-scopes", "read");
    EXPECT_CONFIG("offline_access", "--http", "8080", OAUTH("https://i.s", "https://i.s/i"),
                  "--oauth-scopes", "read offline_access");
    EXPECT_CONFIG("--oauth-scopes", "--http", "8080", OAUTH("https://i.s", "https://i.s/i"),
                  "--oauth-scopes", "re\"ad");
    EXPECT_CONFIG("--public-url", "--http", "0.0.0.0:8080", "--insecure-http",
                  OAUTH("https://i.s", "https://i.s/i"));
#undef OAUTH
}

/* ---- an issuer's answer --------------------------------------------------------------------- */

#define NOW_S UINT64_C(1767225600)
#define OURS  "\"active\":true,\"aud\":\"http://us/mcp\""
#define ALICE OURS ",\"sub\":\"alice\""

static void expect_answer(const char *text, int rc, enum introspect_verdict verdict,
                          const char *name, const char *why)
{
    const struct introspect_expect expect = {"https://i.s/r", "i.s", "http://us/mcp", "read write"};
    struct introspect_answer a = {.verdict = (enum introspect_verdict)99};
    struct err err = ERR_INIT;
    assert_int_equal(introspect_answer_read(view_of(text), &expect, NOW_S, &a, &err), rc);
    if (rc < 0) {
        assert_true(err.text[0] != '\0');
        assert_int_equal(a.verdict, 99);
        return;
    }
    if (a.verdict != verdict || strstr(a.why, why) == NULL) {
        fail_msg("%s: verdict %d, %s", text, (int)a.verdict, a.why);
    }
    assert_true((a.name == NULL) == (verdict != INTROSPECT_GOOD));
    if (a.name != NULL) {
        assert_string_equal(a.name, name);
    }
    free(a.name);
}

static void an_issuers_answer_becomes_a_principal_or_is_refused(void **state)
{
    (void)state;
#define SCOPE ",\"scope\":\"other write read\""
    static const struct {
        const char *text, *name;
    } good[] = {
        {"{" ALICE SCOPE "}", "alice@i.s"},
        {"{" ALICE SCOPE ",\"exp\":1767225601,\"nbf\":1767225630,\"iss\":\"https://i.s/r/\"}",
         "alice@i.s"},
        {"{" ALICE SCOPE ",\"exp\":1767225601.5,\"token_type\":\"bearer\",\"cnf\":null}",
         "alice@i.s"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":[\"x\",\"http://us/mcp\"]" SCOPE "}",
         "alice@i.s"},
        {"{" OURS SCOPE ",\"client_id\":\"alice\"}", "client/alice@i.s"},
        {"{" OURS SCOPE ",\"sub\":\"client/alice\"}", "client%2Falice@i.s"},
        {"{" OURS SCOPE ",\"sub\":\"a@i.s\"}", "a@i.s@i.s"},
        {"{" OURS SCOPE ",\"sub\":\"auth0|1\"}", "auth0|1@i.s"},
        {"{" OURS SCOPE ",\"sub\":\"a%2F \\n\xc3\xa4\"}", "a%252F%20%0A%C3%A4@i.s"},
    };
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"{\"active\":false}", "not active"},
        {"{\"active\":false,\"exp\":\"junk\"}", "not active"},
        {"{\"active\":true,\"sub\":\"alice\"" SCOPE "}", "not issued for this server"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":null" SCOPE "}", "not issued for this server"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":[]" SCOPE "}", "not issued for this server"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":\"http://us\"" SCOPE "}", "not issued"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":\"http://us/mcp/x\"" SCOPE "}", "not issued"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":\"http://us/mcp//\"" SCOPE "}", "not issued"},
        {"{\"active\":true,\"sub\":\"alice\",\"aud\":\"HTTP://US/MCP\"" SCOPE "}", "not issued"},
        {"{" ALICE SCOPE ",\"exp\":1767225600}", "expired"},
        {"{" ALICE SCOPE ",\"exp\":0}", "expired"},
        {"{" ALICE SCOPE ",\"nbf\":1767225631}", "not valid yet"},
        {"{" ALICE SCOPE ",\"iss\":\"https://i.s\"}", "another issuer"},
        {"{" ALICE SCOPE ",\"iss\":\"https://i.s/r.evil\"}", "another issuer"},
        {"{" ALICE SCOPE ",\"token_type\":\"Refresh\"}", "bearer access token"},
        {"{" ALICE SCOPE ",\"token_use\":\"refresh_token\"}", "bearer access token"},
        {"{" ALICE SCOPE ",\"cnf\":{\"jkt\":\"x\"}}", "bearer access token"},
        {"{" OURS SCOPE "}", "whose it is"},
        {"{" OURS SCOPE ",\"sub\":\"\",\"client_id\":\"x\"}", "whose it is"},
    };
    static const char *const scope[] = {
        "{" ALICE "}",
        "{" ALICE ",\"scope\":\"\"}",
        "{" ALICE ",\"scope\":\"read\"}",
        "{" ALICE ",\"scope\":\"read writes\"}",
        "{" ALICE ",\"scope\":\"READ WRITE\"}",
        "{" ALICE ",\"scope\":\"read,write\"}",
    };
    static const char *const nonsense[] = {
        "",
        "{",
        "[]",
        "true",
        "\"active\"",
        "{}",
        "{\"active\":null}",
        "{\"active\":\"true\"}",
        "{\"active\":1}",
        "{\"Active\":true}",
        "{" ALICE "} x",
        "{" ALICE SCOPE ",\"exp\":\"1767225601\"}",
        "{" ALICE SCOPE ",\"exp\":-1}",
        "{" ALICE SCOPE ",\"exp\":1e300}",
        "{" ALICE SCOPE ",\"nbf\":{}}",
        "{" ALICE SCOPE ",\"iss\":[]}",
        "{" OURS SCOPE ",\"sub\":5}",
        "{" ALICE ",\"scope\":[\"read\",\"write\"]}",
        "{" ALICE SCOPE ",\"token_type\":true}",
        "{\"active\":true,\"sub\":\"a\",\"aud\":5" SCOPE "}",
        "{\"active\":true,\"sub\":\"a\",\"aud\":[\"http://us/mcp\",5]" SCOPE "}",
        "{" OURS SCOPE ",\"sub\":\"alice\\u0000x\"}",
        "{" OURS SCOPE ",\"sub\":\"\xff\"}",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        expect_answer(good[i].text, 0, INTROSPECT_GOOD, good[i].name, "");
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_answer(bad[i].text, 0, INTROSPECT_BAD, NULL, bad[i].why);
    }
    for (size_t i = 0; i < sizeof(scope) / sizeof(scope[0]); i++) {
        expect_answer(scope[i], 0, INTROSPECT_SCOPE, NULL, "scope");
    }
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
        expect_answer(nonsense[i], -ERR_PROTOCOL, INTROSPECT_BAD, NULL, "");
    }
    char subject[256 + 1];
    memset(subject, '/', sizeof(subject));
    subject[256] = '\0';
    CLEANUP_FREE char *long_text = alloc_printf("{" OURS SCOPE ",\"sub\":\"%s\"}", subject);
    expect_answer(long_text, 0, INTROSPECT_BAD, NULL, "whose it is");
#undef SCOPE
}

/* ---- tables --------------------------------------------------------------------------------- */

static int fail_until_blocked(struct throttle *t, const char *peer, uint64_t now_ms)
{
    int n = 0;
    while (throttle_wait_ms(t, peer, now_ms) == 0 && n < 1000) {
        throttle_failed(t, peer, now_ms);
        n++;
    }
    return n;
}

static void wrong_tokens_cost_an_address_its_tries(void **state)
{
    (void)state;
    struct throttle *t = throttle_create();
    uint64_t now_ms = 5;
    assert_int_equal(fail_until_blocked(t, "192.0.2.1", now_ms), THROTTLE_BURST);
    assert_int_equal(throttle_wait_ms(t, "192.0.2.1", now_ms), THROTTLE_REFILL_MS);
    assert_int_equal(throttle_wait_ms(t, "192.0.2.2", now_ms), 0);
    now_ms += THROTTLE_REFILL_MS;
    assert_int_equal(fail_until_blocked(t, "192.0.2.1", now_ms), 1);
    for (int i = 0; i < 1000; i++) { /* all asked at once, all wrong */
        throttle_failed(t, "192.0.2.1", now_ms);
    }
    assert_int_equal(throttle_wait_ms(t, "192.0.2.1", now_ms), THROTTLE_WAIT_MS);
    now_ms += 600000;
    assert_int_equal(fail_until_blocked(t, "192.0.2.1", now_ms), THROTTLE_BURST);
    /* a network of IPv6 counts as one address, and so do both forms of an IPv4 address */
    assert_int_equal(fail_until_blocked(t, "2001:db8::1", now_ms), THROTTLE_BURST);
    assert_int_not_equal(throttle_wait_ms(t, "2001:db8::ffff:1", now_ms), 0);
    assert_int_equal(throttle_wait_ms(t, "2001:db8:0:1::1", now_ms), 0);
    assert_int_not_equal(throttle_wait_ms(t, "::ffff:192.0.2.1", now_ms), 0);
    assert_int_equal(fail_until_blocked(t, "local", now_ms), THROTTLE_BURST);
    /* a flood of addresses evicts the one with the fewest failures */
    for (int i = 0; i < THROTTLE_ADDRESSES + 1; i++) {
        char peer[32];
        snprintf(peer, sizeof(peer), "10.0.%d.%d", i / 256, i % 256);
        throttle_failed(t, peer, now_ms);
    }
    assert_int_not_equal(throttle_wait_ms(t, "192.0.2.1", now_ms), 0);
    throttle_destroy(t);
}

static void verdicts_are_kept_for_their_time_and_the_least_used_go_first(void **state)
{
    (void)state;
    struct token_cache *c = token_cache_create(3);
    unsigned char digest[5][WEB_DIGEST_BYTES] = {{0}, {1}, {2}, {3}, {4}};
    static const struct principal_limits limits = {1, 2, 3};
    struct principal *p = principal_create("p", &limits);
    struct token_known known = {7, "why", p};
    assert_null(token_cache_find(c, digest[0], 10));
    for (int i = 0; i < 3; i++) {
        token_cache_put(c, digest[i], &known, 100 + (uint64_t)i);
    }
    assert_int_equal(p->refs, 4);
    assert_int_equal(token_cache_find(c, digest[0], 99)->verdict, 7);
    assert_null(token_cache_find(c, digest[0], 100));
    assert_int_equal(p->refs, 3);
    token_cache_put(c, digest[3], &known, 200);
    assert_non_null(token_cache_find(c, digest[1], 50)); /* so the third was used least recently */
    token_cache_put(c, digest[4], &known, 200);
    assert_non_null(token_cache_find(c, digest[1], 50));
    assert_null(token_cache_find(c, digest[2], 50));
    assert_non_null(token_cache_find(c, digest[3], 50));
    assert_int_equal(p->refs, 4);
    token_cache_put(c, digest[4], &(struct token_known){8, "", NULL}, 300);
    assert_int_equal(token_cache_find(c, digest[4], 250)->verdict, 8);
    assert_int_equal(p->refs, 3);
    token_cache_clear(c);
    assert_null(token_cache_find(c, digest[1], 50));
    assert_int_equal(p->refs, 1);
    token_cache_destroy(c);
    principal_release(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_with_ports_are_read_and_known_as_local_or_not),
        cmocka_unit_test(listen_addresses_are_read_and_bad_ones_refused),
        cmocka_unit_test(only_hosts_of_our_own_are_let_in),
        cmocka_unit_test(names_of_the_certificate_are_our_own),
        cmocka_unit_test(only_origins_of_our_own_are_let_in),
        cmocka_unit_test(options_that_would_be_unsafe_together_are_refused),
        cmocka_unit_test(an_issuers_answer_becomes_a_principal_or_is_refused),
        cmocka_unit_test(wrong_tokens_cost_an_address_its_tries),
        cmocka_unit_test(verdicts_are_kept_for_their_time_and_the_least_used_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
