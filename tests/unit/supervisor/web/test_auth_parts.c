/*
 * The parts of authentication that need no loop: names of hosts, the file of tokens, the check of
 * an issuer's answer, and the two small tables.
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

/* ---- tokens --------------------------------------------------------------------------------- */

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
    struct principal *p = principal_create("p", &defaults);
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
        cmocka_unit_test(a_token_file_is_read_with_names_limits_and_dates),
        cmocka_unit_test(a_digest_is_as_good_as_its_token_until_its_date),
        cmocka_unit_test(who_may_read_metrics_is_said_behind_a_token),
        cmocka_unit_test(a_bad_line_is_named_and_its_secret_is_not),
        cmocka_unit_test(there_is_a_limit_to_tokens),
        cmocka_unit_test(principals_outlive_a_new_token_file),
        cmocka_unit_test(an_issuers_answer_becomes_a_principal_or_is_refused),
        cmocka_unit_test(wrong_tokens_cost_an_address_its_tries),
        cmocka_unit_test(verdicts_are_kept_for_their_time_and_the_least_used_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
