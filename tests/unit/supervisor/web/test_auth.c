/*
 * Authentication of requests: by Host and Origin, by a token of the file, by a token of an issuer
 * that may be slow, wrong or down. Also: tokens never appear in the log.
 */
#include "tests/lib/needs.h"
#include "tests/unit/supervisor/web/auth_lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"

#define HOST   "Host: 127.0.0.1:8080\n"
#define BEARER HOST "Authorization: Bearer "
#define METADATA                                                                                   \
    "resource_metadata=\"http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp\""
#define SCOPES          "scope=\"read write\""
#define CHALLENGE(rest) "WWW-Authenticate: Bearer " rest

static void create_plain(struct auth_lab *lab)
{
    const char *const words[] = {NULL};
    lab_configure(lab, words);
    lab_create(lab);
}

static void create_with_tokens(struct auth_lab *lab, const char *text)
{
    const char *const words[] = {"--tokens", lab->tokens, "--principal-sandboxes", "6", NULL};
    issuer_write(lab->tokens, text, 0600);
    lab_configure(lab, words);
    lab_create(lab);
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool admits(struct auth_lab *lab, struct web_exchange *x)
{
    bool admitted = web_auth_admit(lab->auth, x);
    assert_true(admitted == (x->status == 0));
    return admitted;
}

static void other_hosts_and_origins_are_refused(void **state)
{
    struct auth_lab *lab = *state;
    create_plain(lab);
    static const char *const refused[] = {
        "",
        "Host: evil.example\n",
        "Host: evil.example:8080\nOrigin: http://evil.example:8080\n",
        "Host: 127.0.0.1:8080\nHost: evil.example\n",
        "Host: evil.example\nHost: 127.0.0.1:8080\n",
        HOST "Origin: null\n",
        HOST "Origin: http://evil.example\n",
        HOST "Origin: http://localhost\nOrigin: http://evil.example\n",
        HOST "Origin: \n",
        HOST "Sec-Fetch-Site: cross-site\n",
        HOST "Sec-Fetch-Site: same-site\n",
        HOST "Sec-Fetch-Site: same-origin\nOrigin: http://evil.example\n",
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct web_exchange *x = exchange_new(refused[i]);
        assert_false(admits(lab, x));
        assert_int_equal(x->status, 403);
        assert_false(exchange_sent_name(x, "Access-Control-Allow-Origin"));
        assert_null(strstr(x->body, "127.0.0.1")); /* nor does it name the right host */
        exchange_free(x);
    }
    struct web_exchange *x = exchange_new(HOST);
    assert_true(admits(lab, x));
    assert_true(exchange_sent(x, "Vary: Origin"));
    assert_false(exchange_sent_name(x, "Access-Control-Allow-Origin"));
    exchange_free(x);
    x = exchange_new(HOST "Sec-Fetch-Site: none\n"); /* a person typed the URL */
    assert_true(admits(lab, x));
    exchange_free(x);
    x = exchange_new(HOST "Sec-Fetch-Site: cross-site\nOrigin: http://localhost\n");
    assert_true(admits(lab, x));
    exchange_free(x);
    x = exchange_new("Host: localhost\nOrigin: http://localhost:6274\n");
    assert_true(admits(lab, x));
    assert_true(exchange_sent(x, "Vary: Origin"));
    assert_true(exchange_sent(x, "Access-Control-Allow-Origin: http://localhost:6274"));
    assert_true(
        exchange_sent(x, "Access-Control-Expose-Headers: Mcp-Session-Id, WWW-Authenticate"));
    assert_false(exchange_sent_name(x, "Access-Control-Allow-Credentials"));
    exchange_free(x);
}

static void a_browser_is_told_what_it_may_send(void **state)
{
    struct auth_lab *lab = *state;
    create_with_tokens(lab, "alice 0123456789abcdef\n");
    struct web_exchange *x =
        exchange_new(HOST "Origin: http://localhost:6274\nAccess-Control-Request-Method: POST\n"
                          "Access-Control-Request-Headers: authorization,mcp-param-path, X-Evil, "
                          "Mcp-Param-a\x01,mcp-param-, MCP-PARAM-B\n");
    x->method = "OPTIONS";
    assert_false(admits(lab, x));
    assert_int_equal(x->status, 204);
    assert_string_equal(x->body, "");
    assert_true(exchange_sent(x, "Access-Control-Allow-Origin: http://localhost:6274"));
    assert_true(exchange_sent(x, "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS"));
    assert_true(exchange_sent(
        x, "Access-Control-Allow-Headers: content-type, accept, authorization, "
           "mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id, "
           "mcp-param-path, MCP-PARAM-B"));
    assert_true(exchange_sent(x, "Access-Control-Max-Age: 600"));
    assert_true(exchange_sent(x, "Vary: Origin"));
    exchange_free(x);

    x = exchange_new(HOST "Origin: http://evil.example\nAccess-Control-Request-Method: POST\n");
    x->method = "OPTIONS";
    assert_false(admits(lab, x));
    assert_int_equal(x->status, 403);
    exchange_free(x);
    x = exchange_new(HOST
                     "Access-Control-Request-Method: POST\n"); /* no page sends this without an
                                                                  Origin, so it is no preflight */
    x->method = "OPTIONS";
    assert_false(admits(lab, x));
    assert_int_equal(x->status, 401); /* it needs a token, as every request does */
    exchange_free(x);
}

/* ---- without tokens ------------------------------------------------------------------------- */

static void without_tokens_everybody_is_the_local_principal(void **state)
{
    struct auth_lab *lab = *state;
    create_plain(lab);
    assert_int_equal(lab_status(lab, "whatever", "local"), 0);
    struct web_exchange *x = exchange_new(HOST);
    assert_string_equal(lab_check(lab, x), "local");
    struct principal *first = x->principal;
    exchange_again(x);
    lab_check(lab, x);
    assert_ptr_equal(x->principal, first);
    exchange_again(x);
    x->target = "/.well-known/oauth-protected-resource";
    assert_false(web_auth_metadata(lab->auth, x));
    exchange_free(x);
    struct err err = ERR_INIT;
    assert_int_equal(lab_reload(lab, &err), 0);
    assert_int_equal(lab->revoked, 0);
}

/* ---- who is known to the listener ----------------------------------------------------------- */

static bool known_after_head(struct auth_lab *lab, const char *headers, const char *target)
{
    struct web_exchange *x = exchange_new(headers);
    x->target = target;
    (void)web_auth_admit(lab->auth, x);
    bool known = x->known != 0;
    exchange_free(x);
    return known;
}

/* Connections of all others give way when there are many. */
static void whoever_shows_a_good_token_is_known_to_the_listener(void **state)
{
    struct auth_lab *lab = *state;
    create_with_tokens(lab, "alice 0123456789abcdef\n");
    assert_true(known_after_head(lab, BEARER "0123456789abcdef\n", "/mcp"));
    assert_false(known_after_head(lab, BEARER "0123456789abcdeF\n", "/mcp"));
    assert_false(known_after_head(lab, HOST, "/mcp"));
    assert_false(known_after_head(lab, HOST, "/healthz"));
    assert_false(known_after_head(lab, "Host: evil.example\n", "/mcp"));
    assert_false(
        known_after_head(lab, BEARER "0123456789abcdef\n", "/healthz")); /* not looked at */
    struct web_exchange *x = exchange_new(HOST); /* a connection that was known before */
    x->known = 1;
    assert_false(web_auth_admit(lab->auth, x));
    assert_int_equal(x->known, 0);
    exchange_free(x);
}

/* Whoever has more than half of the connections gets no more, if there are others. */
static void a_principal_with_half_of_the_connections_gets_no_more(void **state)
{
    struct auth_lab *lab = *state;
    create_with_tokens(lab, "alice 0123456789abcdef\nbob 0123456789abcdeg\n");
    struct web_exchange *x = exchange_new(BEARER "0123456789abcdef\n");
    x->crowd = true;
    assert_false(web_auth_admit(lab->auth, x));
    assert_int_equal(x->status, 429);
    assert_true(exchange_sent_name(x, "Retry-After"));
    assert_int_equal(x->known, 0);
    exchange_free(x);
    x = exchange_new(BEARER "0123456789abcdef\n"); /* one that he has */
    x->crowd = true;
    x->known = hash_text("alice");
    assert_true(web_auth_admit(lab->auth, x));
    exchange_free(x);
    issuer_write(lab->tokens, "alice 0123456789abcdef\n", 0600);
    struct err err = ERR_INIT;
    assert_int_equal(lab_reload(lab, &err), 0);
    x = exchange_new(BEARER "0123456789abcdef\n");
    x->crowd = true;
    x->alone = true;
    assert_true(web_auth_admit(lab->auth, x));
    assert_int_equal(x->known, hash_text("alice"));
    exchange_free(x);
}

static void principals_have_numbers(void **state)
{
    static const struct principal_limits none;
    struct principal *alice = principal_create("alice", &none);
    struct principal *again = principal_create("alice", &none);
    struct principal *bob = principal_create("bob", &none);
    assert_true(alice->number == again->number && alice->number != bob->number);
    assert_true(alice->number != 0 && bob->number != 0);
    principal_release(alice);
    principal_release(again);
    principal_release(bob);
}

static void without_tokens_all_are_known(void **state)
{
    struct auth_lab *lab = *state;
    create_plain(lab);
    assert_true(known_after_head(lab, HOST, "/mcp"));
    assert_false(known_after_head(lab, "Host: evil.example\n", "/mcp"));
}

/* ---- the file of tokens --------------------------------------------------------------------- */

static void expect_answer(struct auth_lab *lab, const char *headers, int status,
                          const char *challenge)
{
    struct web_exchange *x = exchange_new(headers);
    assert_string_equal(lab_check(lab, x), "");
    assert_int_equal(x->status, status);
    if (!exchange_sent(x, challenge)) {
        fail_msg("\"%s\" is not in \"%s\"", challenge, x->sent);
    }
    assert_true(exchange_sent(x, "Cache-Control: no-store"));
    exchange_free(x);
}

static void tokens_of_the_file_are_let_in_and_others_are_not(void **state)
{
    struct auth_lab *lab = *state;
    create_with_tokens(lab, "alice 0123456789abcdef calls=2\n"
                            "x sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f2001"
                            "5ad\n");
    assert_int_equal(lab_status(lab, "0123456789abcdef", "alice"), 0);
    assert_int_equal(lab_status(lab, "abc", "x"), 0);
    struct web_exchange *x = exchange_new(HOST "Authorization: bEARER    0123456789abcdef\n");
    assert_string_equal(lab_check(lab, x), "alice");
    assert_int_equal(x->principal->limits.calls, 2);
    assert_int_equal(x->principal->limits.sandboxes, 6);
    exchange_free(x);

    expect_answer(lab, HOST, 401, CHALLENGE("realm=\"cloister\""));
    expect_answer(lab, HOST "Authorization: Basic 0123456789abcdef\n", 401,
                  CHALLENGE("realm=\"cloister\""));
    expect_answer(lab, HOST "Authorization: Bearer0123456789abcdef\n", 401,
                  CHALLENGE("realm=\"cloister\""));
    expect_answer(lab, BEARER "0123456789abcdeF\n", 401,
                  CHALLENGE("error=\"invalid_token\", error_description=\"the token is not known "
                            "here\""));
    expect_answer(lab, HOST "Authorization: Bearer\n", 400,
                  CHALLENGE("error=\"invalid_request\", error_description=\"expected Bearer and a "
                            "token in the Authorization header\""));
    expect_answer(lab, BEARER "0123456789abcdef, Basic x\n", 400,
                  CHALLENGE("error=\"invalid_request\", error_description=\"expected Bearer and a "
                            "token in the Authorization header\""));
    expect_answer(lab, BEARER "0123456789abcdef\nauthorization: Bearer 0123456789abcdef\n", 400,
                  CHALLENGE("error=\"invalid_request\", error_description=\"there is more than one "
                            "Authorization header\""));
    expect_answer(lab, HOST "X-Query: 0123456789abcdef\n", 400,
                  CHALLENGE("error=\"invalid_request\", error_description=\"a token belongs into "
                            "the Authorization header, not into the URL\""));
    x = exchange_new(HOST);
    x->target = "/.well-known/oauth-protected-resource";
    assert_false(web_auth_metadata(lab->auth, x));
    exchange_free(x);
}

/* Unauthenticated requests are refused before their body is read. */
static void who_may_not_come_in_is_refused_before_the_body(void **state)
{
    struct auth_lab *lab = *state;
    create_with_tokens(lab, "alice 0123456789abcdef\n");
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {BEARER "0123456789abcdef\n", 0},
        {BEARER "0123456789abcdeg\n", 401},
        {HOST, 401},
        {BEARER "a b\n", 400},
        {"Host: evil.example\nAuthorization: Bearer 0123456789abcdef\n", 403},
        {HOST "Origin: null\nAuthorization: Bearer 0123456789abcdef\n", 403},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct web_exchange *x = exchange_new(cases[i].headers);
        assert_int_equal(admits(lab, x), cases[i].status == 0);
        assert_int_equal(x->status, cases[i].status);
        exchange_free(x);
    }
    struct web_exchange *x = exchange_new(HOST);
    x->target = "/.well-known/oauth-authorization-server";
    assert_true(admits(lab, x));
    exchange_again(x);
    x->target = "/.well-known"; /* a path below it is another one */
    assert_false(admits(lab, x));
    exchange_free(x);
    lab_close(lab);
    /* a token that only the issuer knows passes admission until the issuer has been asked */
    lab_configure_oauth(lab, "/introspect/", "", false);
    lab_create(lab);
    x = exchange_new(BEARER "off.admitted\n");
    assert_true(admits(lab, x));
    assert_string_equal(lab_check(lab, x), "");
    exchange_again(x);
    assert_false(admits(lab, x));
    assert_int_equal(x->status, 401);
    exchange_free(x);
}

static void a_token_file_that_others_may_read_or_write_is_refused(void **state)
{
    struct auth_lab *lab = *state;
    static const struct {
        const char *text;
        mode_t mode;
        const char *error; /* NULL: accepted */
    } cases[] = {
        {"a 0123456789abcdef\n", 0600, NULL},
        {"a 0123456789abcdef\n", 0640, NULL},
        {"a 0123456789abcdef\n", 0644, "everybody may read"},
        {"a 0123456789abcdef\n", 0604, "chmod 600"},
        {"a sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n", 0644, NULL},
        {"a sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n", 0646,
         "everybody may write"},
        {"a 0123456789\n", 0600, "line 1: "},
    };
    const char *const words[] = {"--tokens", lab->tokens, NULL};
    lab_configure(lab, words);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct err err = ERR_INIT;
        issuer_write(lab->tokens, cases[i].text, cases[i].mode);
        int rc = lab_try_create(lab, &err);
        assert_int_equal(rc, cases[i].error != NULL ? -ERR_CONFIG : 0);
        if (cases[i].error != NULL) {
            assert_non_null(strstr(err.text, cases[i].error));
            assert_non_null(strstr(err.text, lab->tokens));
            assert_null(strstr(err.text, "0123456789"));
        }
        lab_close(lab);
    }
    static const char *const no_files[] = {"/nonexistent/tokens", "/tmp", "/dev/zero"};
    for (size_t i = 0; i < sizeof(no_files) / sizeof(no_files[0]); i++) {
        struct err err = ERR_INIT;
        const char *const other[] = {"--tokens", no_files[i], NULL};
        lab_configure(lab, other);
        assert_int_equal(lab_try_create(lab, &err), -ERR_CONFIG);
        assert_non_null(strstr(err.text, no_files[i]));
    }
    /* a pipe without a writer must not be waited for */
    struct err err = ERR_INIT;
    unlink(lab->tokens);
    assert_int_equal(mkfifo(lab->tokens, 0600), 0);
    lab_configure(lab, words);
    assert_int_equal(lab_try_create(lab, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "is not a file"));
    /* nor may a file without end be read */
    unlink(lab->tokens);
    int fd = open(lab->tokens, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, (1 << 20) + 1), 0);
    close(fd);
    assert_int_equal(lab_try_create(lab, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "1024 KiB"));
}

static void a_changed_token_file_is_taken_and_a_bad_one_is_not(void **state)
{
    struct auth_lab *lab = *state;
    struct err err = ERR_INIT;
    create_with_tokens(lab, "alice 0123456789abcdef calls=2\nbob 0123456789abcdeg\n");
    struct web_exchange *x = exchange_new(BEARER "0123456789abcdef\n");
    lab_check(lab, x);
    struct principal *alice = x->principal;
    /* an invalid file changes nothing */
    issuer_write(lab->tokens, "alice 0123456789abcdef calls=9\nbob short\n", 0600);
    assert_int_equal(lab_reload(lab, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(alice->limits.calls, 2);
    assert_int_equal(lab_status(lab, "0123456789abcdeg", "bob"), 0);
    unlink(lab->tokens);
    assert_int_equal(lab_reload(lab, &err), -ERR_CONFIG);
    assert_int_equal(lab_status(lab, "0123456789abcdeg", "bob"), 0);
    /* a new token for one client, none for the other */
    issuer_write(lab->tokens, "alice 0123456789abcdeh calls=9\n", 0600);
    assert_int_equal(lab_reload(lab, &err), 0);
    assert_int_equal(lab->revoked, 1);
    assert_string_equal(lab->revoked_name, "bob");
    assert_int_equal(alice->limits.calls, 9);
    assert_int_equal(lab_status(lab, "0123456789abcdef", ""), 401);
    assert_int_equal(lab_status(lab, "0123456789abcdeg", ""), 401);
    exchange_free(x);
    x = exchange_new(BEARER "0123456789abcdeh\n");
    lab_check(lab, x);
    assert_ptr_equal(x->principal, alice);
    exchange_free(x);
    /* an empty list is valid, and accepts no token */
    issuer_write(lab->tokens, "# closed\n", 0600);
    assert_int_equal(lab_reload(lab, &err), 0);
    assert_int_equal(lab->revoked, 1);
    assert_int_equal(lab_status(lab, "0123456789abcdeh", ""), 401);
}

static void who_tries_too_many_tokens_has_to_wait(void **state)
{
    struct auth_lab *lab = *state;
    create_with_tokens(lab, "alice 0123456789abcdef\n");
    for (int i = 0; i < 20; i++) {
        assert_int_equal(lab_status(lab, "wrong", ""), 401);
    }
    struct web_exchange *x = exchange_new(BEARER "wrong\n");
    assert_string_equal(lab_check(lab, x), "");
    assert_int_equal(x->status, 429);
    assert_true(exchange_sent(x, "Retry-After: 3"));
    exchange_free(x);
    /* the right token is accepted from that address, too; without a token nothing has changed */
    assert_int_equal(lab_status(lab, "0123456789abcdef", "alice"), 0);
    expect_answer(lab, HOST, 401, CHALLENGE("realm=\"cloister\""));
    x = exchange_new(BEARER "wrong\n");
    x->peer = "192.0.2.2";
    lab_check(lab, x);
    assert_int_equal(x->status, 401);
    exchange_free(x);
}

/* ---- an issuer ------------------------------------------------------------------------------ */

#define ISSUED(lab, user) alloc_printf("%s@127.0.0.1:%u", user, (lab)->issuer.port)

static void create_oauth(struct auth_lab *lab)
{
    lab_configure_oauth(lab, "/introspect/", "read write", false);
    lab_create(lab);
}

static void tokens_of_an_issuer_are_let_in_as_their_subject(void **state)
{
    struct auth_lab *lab = *state;
    create_oauth(lab);
    CLEANUP_FREE char *alice = ISSUED(lab, "alice");
    CLEANUP_FREE char *bob = ISSUED(lab, "bob%2F%C3%A4%20x");
    CLEANUP_FREE char *robot = ISSUED(lab, "client/robot");
    struct web_exchange *x = exchange_new(BEARER "one\n");
    assert_string_equal(lab_check(lab, x), alice);
    assert_int_equal(x->principal->limits.calls, 7);
    struct principal *first = principal_hold(x->principal);
    exchange_free(x);
    x = exchange_new(BEARER "two.listaud\n");
    assert_string_equal(lab_check(lab, x), alice);
    assert_ptr_equal(x->principal, first); /* two tokens of one principal */
    principal_release(first);
    exchange_free(x);
    assert_int_equal(lab_status(lab, "othersub", bob), 0);
    assert_int_equal(lab_status(lab, "client", robot), 0);
    assert_int_equal(lab_status(lab, "a+b/c==", alice), 0); /* characters that forms escape */

    expect_answer(lab, HOST, 401, CHALLENGE(METADATA ", " SCOPES));
    static const struct {
        const char *token, *why;
    } bad[] = {
        {"off", "the token is not active"},
        {"noaud", "the token was not issued for this server"},
        {"otheraud", "the token was not issued for this server"},
        {"expired", "the token has expired"},
        {"early", "the token is not valid yet"},
        {"otheriss", "the token is of another issuer"},
        {"refresh", "this is not a bearer access token"},
        {"bound", "this is not a bearer access token"},
        {"nobody", "the token does not say whose it is"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CLEANUP_FREE char *headers = alloc_printf(BEARER "%s\n", bad[i].token);
        CLEANUP_FREE char *challenge =
            alloc_printf(CHALLENGE(METADATA ", " SCOPES ", error=\"invalid_token\", "
                                            "error_description=\"%s\""),
                         bad[i].why);
        expect_answer(lab, headers, 401, challenge);
    }
    expect_answer(lab, BEARER "noscope\n", 403,
                  CHALLENGE("error=\"insufficient_scope\", " SCOPES ", " METADATA ", "
                            "error_description=\"the token lacks a scope that is needed here\""));
    expect_answer(lab, BEARER "a b\n", 400,
                  CHALLENGE("error=\"invalid_request\", " METADATA ", error_description=\"expected "
                            "Bearer and a token in the Authorization header\""));
}

static void the_issuer_is_asked_once_for_a_token(void **state)
{
    struct auth_lab *lab = *state;
    create_oauth(lab);
    CLEANUP_FREE char *once = ISSUED(lab, "asked1");
    CLEANUP_FREE char *twice = ISSUED(lab, "asked2");
    struct web_exchange *x[40];
    for (int i = 0; i < 40; i++) { /* more wrong tokens than one address may try */
        x[i] = exchange_new(BEARER "count.together\n");
        lab_begin_check(lab, x[i]);
        assert_int_equal(x[i]->times, 0);
    }
    for (int i = 0; i < 40; i++) {
        lab_wait(lab, x[i]);
        assert_string_equal(x[i]->principal->name, once);
        exchange_free(x[i]);
    }
    struct web_exchange *later = exchange_new(BEARER "count.together\n");
    lab_begin_check(lab, later);
    assert_int_equal(later->times, 1); /* answered at once */
    assert_string_equal(later->principal->name, once);
    exchange_free(later);
    /* invalid tokens are cached as well: this one stays refused, however often it is tried */
    assert_int_equal(lab_status(lab, "off.remembered", ""), 401);
    later = exchange_new(BEARER "off.remembered\n");
    lab_begin_check(lab, later);
    assert_int_equal(later->times, 1);
    exchange_free(later);
    /* a reload empties the cache */
    struct err err = ERR_INIT;
    assert_int_equal(lab_reload(lab, &err), 0);
    assert_int_equal(lab_status(lab, "count.together", twice), 0);
}

static void an_issuer_that_answers_nonsense_lets_nobody_in(void **state)
{
    struct auth_lab *lab = *state;
    create_oauth(lab);
    static const char *const tokens[] = {"redirect", "moved",     "error500", "notjson",
                                         "huge",     "endless",   "hangup",   "cut",
                                         "badexp",   "badactive", "hang"};
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        CLEANUP_FREE char *headers = alloc_printf(BEARER "%s\n", tokens[i]);
        struct web_exchange *x = exchange_new(headers);
        assert_string_equal(lab_check(lab, x), "");
        if (x->status != 503) {
            fail_msg("%s: %d", tokens[i], x->status);
        }
        assert_true(exchange_sent(x, "Retry-After: 5"));
        assert_false(exchange_sent_name(x, "WWW-Authenticate")); /* the token may be good */
        exchange_free(x);
    }
    CLEANUP_FREE char *alice = ISSUED(lab, "alice");
    assert_int_equal(lab_status(lab, "after-all-that", alice), 0);
}

static void an_issuer_that_is_not_there_lets_nobody_in(void **state)
{
    struct auth_lab *lab = *state;
    /* a path that does not exist; a certificate that is not trusted; a port without a listener */
    lab_configure_oauth(lab, "/elsewhere", "", false);
    lab_create(lab);
    assert_int_equal(lab_status(lab, "one", ""), 503);
    lab_close(lab);
    lab_configure_oauth(lab, "/introspect/", "", true);
    lab_create(lab);
    assert_int_equal(lab_status(lab, "one", ""), 503);
    lab_close(lab);
    lab->port = 1;
    lab_configure_oauth(lab, "/introspect/", "", false);
    lab->port = lab->issuer.port;
    lab_create(lab);
    assert_int_equal(lab_status(lab, "one", ""), 503);
    lab_close(lab);
    /* an issuer that does not know this client */
    lab_configure_oauth(lab, "/introspect/", "", false);
    issuer_write(lab->client, "cloister:wrong", 0600);
    lab_create(lab);
    assert_int_equal(lab_status(lab, "one", ""), 503);
    /* this is corrected without a restart */
    struct err err = ERR_INIT;
    CLEANUP_FREE char *alice = ISSUED(lab, "alice");
    issuer_write(lab->client, ISSUER_CLIENT, 0600);
    assert_int_equal(lab_reload(lab, &err), 0);
    assert_int_equal(lab_status(lab, "one", alice), 0);
    issuer_write(lab->client, "no colon", 0600);
    assert_int_equal(lab_reload(lab, &err), -ERR_CONFIG);
    assert_null(strstr(err.text, "no colon"));
    assert_int_equal(lab_status(lab, "one", alice), 0);
    lab_close(lab);
    issuer_write(lab->client, ISSUER_CLIENT, 0644);
    assert_int_equal(lab_try_create(lab, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "everybody may read"));
}

static void who_hangs_up_takes_nobodys_answer_away(void **state)
{
    struct auth_lab *lab = *state;
    create_oauth(lab);
    struct web_exchange *gone = exchange_new(BEARER "hang.1\n");
    struct web_exchange *stays = exchange_new(BEARER "count.stays\n");
    struct web_exchange *both = exchange_new(BEARER "count.stays\n");
    lab_begin_check(lab, gone);
    lab_begin_check(lab, stays);
    lab_begin_check(lab, both);
    exchange_hang_up(gone);
    exchange_hang_up(both);
    assert_int_equal(gone->times, 1);
    assert_null(gone->principal);
    assert_int_equal(both->times, 1);
    lab_wait(lab, stays);
    CLEANUP_FREE char *once = ISSUED(lab, "asked1");
    assert_string_equal(stays->principal->name, once);
    assert_int_equal(both->times, 1);
    exchange_free(gone);
    exchange_free(stays);
    exchange_free(both);
    /* the server ends while a request waits */
    struct web_exchange *late = exchange_new(BEARER "hang.2\n");
    lab_begin_check(lab, late);
    lab_close(lab);
    assert_int_equal(late->times, 1);
    assert_int_equal(late->status, 503);
    exchange_free(late);
}

static void too_many_questions_at_once_are_not_asked(void **state)
{
    struct auth_lab *lab = *state;
    create_oauth(lab);
    struct web_exchange *x[65];
    for (int i = 0; i < 65; i++) {
        char headers[128];
        snprintf(headers, sizeof(headers), BEARER "hang.%d\n", i);
        x[i] = exchange_new(headers);
        lab_begin_check(lab, x[i]);
    }
    assert_int_equal(x[63]->times, 0);
    assert_int_equal(x[64]->times, 1); /* one too many, which is answered without asking */
    assert_int_equal(x[64]->status, 503);
    for (int i = 0; i < 64; i++) {
        exchange_hang_up(x[i]);
    }
    for (int i = 0; i < 65; i++) {
        exchange_free(x[i]);
    }
}

static void a_token_file_and_an_issuer_work_side_by_side(void **state)
{
    struct auth_lab *lab = *state;
    lab_configure_oauth(lab, "/introspect/", "", false);
    issuer_write(lab->tokens, "alice 0123456789abcdef\n", 0600);
    free(lab->config.tokens);
    lab->config.tokens = alloc_strdup(lab->tokens);
    lab_create(lab);
    CLEANUP_FREE char *issued = ISSUED(lab, "alice");
    assert_int_equal(lab_status(lab, "0123456789abcdef", "alice"), 0);
    assert_int_equal(lab_status(lab, "one", issued), 0);
    /* the issuer would accept it, but is not asked about tokens of our own form */
    assert_int_equal(lab_status(lab, "cloister_abcdefghijklmnop", ""), 401);
    for (int i = 1; i < 25; i++) {
        char token[32];
        snprintf(token, sizeof(token), "off.%d", i);
        assert_int_equal(lab_status(lab, token, ""), i < 20 ? 401 : 429);
    }
    /* known tokens are accepted from that address, others have to wait */
    assert_int_equal(lab_status(lab, "0123456789abcdef", "alice"), 0);
    assert_int_equal(lab_status(lab, "one", issued), 0);
    assert_int_equal(lab_status(lab, "two", ""), 429);
}

static void the_metadata_name_the_issuer_and_the_scopes(void **state)
{
    struct auth_lab *lab = *state;
    create_oauth(lab);
    CLEANUP_FREE char *expected = alloc_printf(
        "{\"resource\":\"http://127.0.0.1:8080/mcp\",\"authorization_servers\":[\"%s\"],"
        "\"scopes_supported\":[\"read\",\"write\"],\"bearer_methods_supported\":[\"header\"]}",
        lab->url);
    struct web_exchange *x = exchange_new(HOST);
    static const char *const paths[] = {"/.well-known/oauth-protected-resource",
                                        "/.well-known/oauth-protected-resource/mcp"};
    for (size_t i = 0; i < 2; i++) {
        x->method = "GET";
        x->target = paths[i];
        assert_true(web_auth_metadata(lab->auth, x));
        assert_int_equal(x->status, 200);
        assert_string_equal(x->body, expected);
        exchange_again(x);
    }
    x->method = "POST";
    assert_true(web_auth_metadata(lab->auth, x));
    assert_int_equal(x->status, 405);
    exchange_again(x);
    x->target = "/.well-known/oauth-protected-resource/other";
    assert_false(web_auth_metadata(lab->auth, x));
    exchange_free(x);
    lab_close(lab);

    /* behind a proxy, with a path */
    lab_configure_oauth(lab, "/introspect/", "", false);
    free(lab->config.public_url);
    lab->config.public_url = alloc_strdup("https://tools.example/box/");
    lab_create(lab);
    expect_answer(lab, HOST, 401,
                  CHALLENGE("resource_metadata=\"https://tools.example/.well-known/"
                            "oauth-protected-resource/box/mcp\""));
    x = exchange_new("Host: tools.example\n");
    x->method = "GET";
    x->target = "/.well-known/oauth-protected-resource/box/mcp";
    assert_true(web_auth_admit(lab->auth, x));
    assert_true(web_auth_metadata(lab->auth, x));
    assert_non_null(strstr(x->body, "\"resource\":\"https://tools.example/box/mcp\""));
    assert_null(strstr(x->body, "scopes_supported"));
    exchange_free(x);
    assert_int_equal(lab_status(lab, "one", ""), 401); /* the token is for another URL */
}

/* ---- the log -------------------------------------------------------------------------------- */

/* The log of all tests before, at the lowest level. */
static void no_secret_is_in_the_log(void **state)
{
    (void)state;
    CLEANUP_BUF struct buf text;
    buf_init(&text, 4 << 20);
    struct err err = ERR_INIT;
    assert_int_equal(file_read("/proc/self/fd/2", &text, &err), 0);
    const char *log = buf_cstr(&text);
    assert_non_null(strstr(log, "HTTP: "));
    static const char *const secrets[] = {"0123456789abcde", "othersub", "hang.1", "s%e:c",
                                          "s%25e",           "notjson",  "Basic ", "otheraud"};
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        if (strstr(log, secrets[i]) != NULL) {
            fail_msg("\"%s\" was logged", secrets[i]);
        }
    }
}

static void log_to_file(int *ret_stderr)
{
    char path[] = "/tmp/auth-log-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    *ret_stderr = dup(2);
    assert_int_equal(dup2(fd, 2), 2);
    close(fd);
    log_set_level(LOG_DEBUG);
}

int main(void)
{
    needs_program("openssl"); /* makes the certificates of its server */
#define WITH_LAB(name) cmocka_unit_test_setup_teardown(name, auth_lab_setup, auth_lab_teardown)
    const struct CMUnitTest tests[] = {
        WITH_LAB(other_hosts_and_origins_are_refused),
        WITH_LAB(a_browser_is_told_what_it_may_send),
        WITH_LAB(without_tokens_everybody_is_the_local_principal),
        WITH_LAB(whoever_shows_a_good_token_is_known_to_the_listener),
        WITH_LAB(without_tokens_all_are_known),
        WITH_LAB(a_principal_with_half_of_the_connections_gets_no_more),
        cmocka_unit_test(principals_have_numbers),
        WITH_LAB(tokens_of_the_file_are_let_in_and_others_are_not),
        WITH_LAB(who_may_not_come_in_is_refused_before_the_body),
        WITH_LAB(a_token_file_that_others_may_read_or_write_is_refused),
        WITH_LAB(a_changed_token_file_is_taken_and_a_bad_one_is_not),
        WITH_LAB(who_tries_too_many_tokens_has_to_wait),
        WITH_LAB(tokens_of_an_issuer_are_let_in_as_their_subject),
        WITH_LAB(the_issuer_is_asked_once_for_a_token),
        WITH_LAB(an_issuer_that_answers_nonsense_lets_nobody_in),
        WITH_LAB(an_issuer_that_is_not_there_lets_nobody_in),
        WITH_LAB(who_hangs_up_takes_nobodys_answer_away),
        WITH_LAB(too_many_questions_at_once_are_not_asked),
        WITH_LAB(a_token_file_and_an_issuer_work_side_by_side),
        WITH_LAB(the_metadata_name_the_issuer_and_the_scopes),
        cmocka_unit_test(no_secret_is_in_the_log),
    };
    int true_stderr;
    log_to_file(&true_stderr);
    int failed = cmocka_run_group_tests(tests, auth_lab_begin, auth_lab_end);
    dup2(true_stderr, 2);
    return failed;
}
