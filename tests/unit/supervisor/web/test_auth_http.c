/*
 * Authentication behind a real listener: responses to unauthenticated clients, and clients that
 * hang up while the issuer is being asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/auth/auth.h"
#include "tests/lib/needs.h"
#include "tests/unit/supervisor/web/issuer.h"
#include "tests/unit/supervisor/web/lab.h"

struct server {
    struct lab lab;
    struct issuer issuer;
    struct config config;
    struct web_auth *auth;
    bool auth_closed;
    size_t asked, refused, checked;
};

struct visit {
    struct server *server;
    struct web_exchange *x;
};

static int admit(void *arg, struct web_exchange *x)
{
    struct server *s = arg;
    bool admitted = web_auth_admit(s->auth, x);
    s->refused += !admitted;
    return admitted ? 0 : -1;
}

static void on_checked(void *arg, struct principal *principal)
{
    struct visit v = *(struct visit *)arg;
    free(arg);
    v.server->checked++;
    if (principal != NULL) {
        web_respond_text(v.x, 200, "text/plain",
                         alloc_printf("hello %s, %zu bytes\n", principal->name, web_body(v.x).len));
    }
}

static void handle(void *arg, struct web_exchange *x)
{
    struct server *s = arg;
    s->asked++;
    if (!web_auth_metadata(s->auth, x)) {
        struct visit *v = alloc_one(struct visit);
        *v = (struct visit){s, x};
        web_auth_check(s->auth, x, on_checked, v);
    }
}

static int setup(void **state)
{
    struct server *s = alloc_one(struct server);
    struct err err = ERR_INIT;
    int used;
    issuer_start(&s->issuer);
    CLEANUP_FREE char *tokens = alloc_printf("%s/tokens", s->issuer.server.top);
    CLEANUP_FREE char *client = alloc_printf("%s/client", s->issuer.server.top);
    CLEANUP_FREE char *issuer = alloc_printf("http://127.0.0.1:%u/realm", s->issuer.port);
    CLEANUP_FREE char *url = alloc_printf("http://127.0.0.1:%u/introspect/", s->issuer.port);
    issuer_write(tokens, "alice 0123456789abcdef\n", 0600);
    issuer_write(client, ISSUER_CLIENT, 0600);
    /* the issuer makes its tokens for that URL, whatever the port of this listener */
    const char *const words[] = {
        "--http",         "0",    "--public-url",          "http://127.0.0.1:8080",
        "--tokens",       tokens, "--oauth-issuer",        issuer,
        "--oauth-client", client, "--oauth-introspection", url};
    char *argv[12];
    for (size_t i = 0; i < 12; i++) {
        argv[i] = alloc_strdup(words[i]);
    }
    assert_int_equal(config_load(&s->config, 12, argv, &used, &err), 0);
    for (size_t i = 0; i < 12; i++) {
        free(argv[i]);
    }
    lab_init(&s->lab);
    s->lab.config.admit = admit;
    s->lab.config.handle = handle;
    s->lab.config.arg = s;
    assert_int_equal(web_auth_create(&s->lab.loop, &s->config, &s->auth, &err), 0);
    lab_open(&s->lab);
    web_auth_set_url(s->auth, web_listener_url(s->lab.listener));
    *state = s;
    return 0;
}

static void on_auth_closed(void *arg)
{
    ((struct server *)arg)->auth_closed = true;
}

static int teardown(void **state)
{
    struct server *s = *state;
    web_auth_close(s->auth, on_auth_closed, s);
    lab_until(&s->lab, &s->auth_closed);
    lab_close(&s->lab);
    issuer_stop(&s->issuer);
    config_finish(&s->config);
    free(s);
    return 0;
}

static void expect(struct server *s, const char *request, const char *const *parts)
{
    struct buf answer = lab_request(&s->lab, request);
    for (size_t i = 0; parts[i] != NULL; i++) {
        if (!lab_has(&answer, parts[i])) {
            fail_msg("\"%s\" is not in \"%s\"", parts[i], buf_cstr(&answer));
        }
    }
    buf_finish(&answer);
}
#define EXPECT(s, request, ...) expect(s, request, (const char *const[]){__VA_ARGS__, NULL})

#define POST  "POST /mcp HTTP/1.1\r\nConnection: close\r\n"
#define HOST  "Host: 127.0.0.1:1\r\n"
#define BODY  "Content-Length: 2\r\n\r\n{}"
#define LARGE "Content-Length: 1000000\r\n\r\n{" /* with a body that never comes */

static void who_may_come_in_is_decided_by_the_head(void **state)
{
    struct server *s = *state;
    EXPECT(s, POST HOST "Authorization: Bearer 0123456789abcdef\r\n" BODY, "HTTP/1.1 200 ",
           "hello alice, 2 bytes", "Vary: Origin");
    EXPECT(s, POST HOST "Authorization: Bearer one\r\n" BODY, "hello alice@127.0.0.1:");
    EXPECT(s, POST HOST "Origin: http://localhost:5\r\nAuthorization: Bearer one\r\n" BODY,
           "HTTP/1.1 200 ", "Access-Control-Allow-Origin: http://localhost:5");
    s->asked = 0;
    /* the head is refused, so the body is not waited for */
    EXPECT(s, POST "Host: evil.example\r\n" LARGE, "HTTP/1.1 403 ");
    EXPECT(s, POST HOST "Origin: null\r\nAuthorization: Bearer one\r\n" LARGE, "HTTP/1.1 403 ");
    EXPECT(s, POST HOST LARGE, "HTTP/1.1 401 ",
           "WWW-Authenticate: Bearer resource_metadata=\"http://127.0.0.1:8080/.well-known/"
           "oauth-protected-resource/mcp\"");
    EXPECT(s, POST HOST "Authorization: Bearer a b\r\n" LARGE, "HTTP/1.1 400 ");
    assert_int_equal(s->asked, 0);
    assert_int_equal(s->refused, 4);
    EXPECT(s, POST HOST "Authorization: Bearer off\r\n" BODY, "HTTP/1.1 401 ", "invalid_token");
    EXPECT(s, POST HOST "Authorization: Bearer off\r\n" LARGE, "HTTP/1.1 401 ");
    EXPECT(s,
           "GET /.well-known/oauth-protected-resource/mcp HTTP/1.1\r\nConnection: close\r\n" HOST
           "\r\n",
           "HTTP/1.1 200 ", "\"resource\":\"http://127.0.0.1:8080/mcp\"");
    EXPECT(s,
           "OPTIONS /mcp HTTP/1.1\r\nConnection: close\r\n" HOST
           "Origin: http://localhost:5\r\nAccess-Control-Request-Method: POST\r\n\r\n",
           "HTTP/1.1 204 ", "Access-Control-Allow-Headers: content-type, ");
    EXPECT(s, "GET /mcp HTTP/1.0\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n", " 403 ");
}

static void clients_that_hang_up_during_the_check_harm_nobody(void **state)
{
    struct server *s = *state;
    int fds[8];
    for (size_t i = 0; i < 8; i++) {
        fds[i] = lab_connect(&s->lab);
        CLEANUP_FREE char *request =
            alloc_printf(POST HOST "Authorization: Bearer hang.%zu\r\n" BODY, i % 4);
        lab_send(&s->lab, fds[i], request);
    }
    lab_until_count(&s->lab, &s->asked, 8);
    assert_int_equal(s->checked, 0);
    for (size_t i = 0; i < 7; i++) {
        close(fds[i]);
    }
    lab_until_count(&s->lab, &s->checked, 7);
    EXPECT(s, POST HOST "Authorization: Bearer two\r\n" BODY, "HTTP/1.1 200 ");
    /* the eighth still waits; the end of the server answers it */
    web_auth_close(s->auth, on_auth_closed, s);
    lab_until(&s->lab, &s->auth_closed);
    assert_int_equal(s->checked, 9);
    struct buf answer;
    buf_init(&answer, 1 << 16);
    assert_true(lab_read_until(&s->lab, fds[7], &answer, "\r\n\r\n"));
    assert_true(lab_has(&answer, "HTTP/1.1 503 "));
    buf_finish(&answer);
    close(fds[7]);
    struct err err = ERR_INIT;
    s->auth_closed = false;
    assert_int_equal(web_auth_create(&s->lab.loop, &s->config, &s->auth, &err), 0);
}

int main(void)
{
    needs_program("openssl"); /* makes the certificates of its server */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_may_come_in_is_decided_by_the_head, setup, teardown),
        cmocka_unit_test_setup_teardown(clients_that_hang_up_during_the_check_harm_nobody, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
