#include "tests/unit/supervisor/web/auth_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/cleanup.h"

enum { GUARD_MS = 20000, WORDS_MAX = 32 };

/* ---- exchanges ---- */

struct web_exchange *exchange_new(const char *headers)
{
    struct web_exchange *x = alloc_one(struct web_exchange);
    x->method = "POST";
    x->target = "/mcp";
    x->peer = "192.0.2.1";
    x->text = alloc_strdup(headers);
    for (char *line = x->text; *line != '\0';) {
        char *end = line + strcspn(line, "\n");
        char *colon = strchr(line, ':');
        assert_true(*end == '\n' && colon != NULL && colon < end && x->count < 16);
        *colon = *end = '\0';
        x->names[x->count] = line;
        x->values[x->count++] = colon + 1 + strspn(colon + 1, " ");
        line = end + 1;
    }
    return x;
}

void exchange_again(struct web_exchange *x)
{
    free(x->body);
    x->body = NULL;
    x->status = 0;
    x->sent[0] = '\0';
    x->gone = NULL;
    x->times = 0;
    x->principal = NULL;
}

void exchange_free(struct web_exchange *x)
{
    free(x->text);
    free(x->body);
    free(x);
}

bool exchange_sent(const struct web_exchange *x, const char *line)
{
    char whole[4096];
    snprintf(whole, sizeof(whole), "\n%s\n", line);
    return strstr(x->sent, whole) != NULL;
}

bool exchange_sent_name(const struct web_exchange *x, const char *name)
{
    char start[256];
    snprintf(start, sizeof(start), "\n%s: ", name);
    return strstr(x->sent, start) != NULL;
}

void exchange_hang_up(struct web_exchange *x)
{
    assert_non_null(x->gone);
    x->status = -1;
    x->gone(x->gone_arg);
}

const char *web_method(const struct web_exchange *x)
{
    return x->method;
}

const char *web_path(const struct web_exchange *x)
{
    assert_null(strchr(x->target, '?'));
    return x->target;
}

const char *web_header(const struct web_exchange *x, const char *name)
{
    assert_int_equal(x->status, 0);
    for (size_t i = 0; i < x->count; i++) {
        if (strcasecmp(x->names[i], name) == 0) {
            return x->values[i];
        }
    }
    return NULL;
}

size_t web_header_count(const struct web_exchange *x, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < x->count; i++) {
        count += strcasecmp(x->names[i], name) == 0;
    }
    return count;
}

/* These exchanges have no query, so a header stands for it. */
const char *web_query(const struct web_exchange *x, const char *name)
{
    return strcmp(name, "access_token") == 0 ? web_header(x, "X-Query") : NULL;
}

const char *web_peer(const struct web_exchange *x)
{
    assert_int_equal(x->status, 0);
    return x->peer;
}

void web_set_known(struct web_exchange *x, uint64_t who)
{
    x->known = who;
}

bool web_would_crowd(const struct web_exchange *x, uint64_t who)
{
    assert_false(x->alone);
    return x->known != who && x->crowd;
}

void web_set_header(struct web_exchange *x, const char *name, const char *value)
{
    assert_int_equal(x->status, 0);
    assert_null(strpbrk(value, "\r\n"));
    size_t len = strlen(x->sent);
    int n = snprintf(x->sent + len, sizeof(x->sent) - len, "%s%s: %s\n", len == 0 ? "\n" : "", name,
                     value);
    assert_true(n > 0 && (size_t)n < sizeof(x->sent) - len);
}

void web_respond_text(struct web_exchange *x, int status, const char *content_type, char *text)
{
    assert_int_equal(x->status, 0);
    x->status = status;
    x->body = text;
    assert_true(content_type != NULL || text[0] == '\0');
}

void web_respond(struct web_exchange *x, int status, const char *content_type, struct view body)
{
    web_respond_text(x, status, content_type, alloc_viewdup(body));
}

void web_on_gone(struct web_exchange *x, void (*gone)(void *arg), void *arg)
{
    assert_int_equal(x->status, 0);
    x->gone = gone;
    x->gone_arg = arg;
}

/* ---- the issuer ---- */

int auth_lab_begin(void **state)
{
    struct auth_lab *lab = alloc_one(struct auth_lab);
    issuer_start(&lab->issuer);
    snprintf(lab->tokens, sizeof(lab->tokens), "%s/tokens", lab->issuer.server.top);
    snprintf(lab->client, sizeof(lab->client), "%s/client", lab->issuer.server.top);
    snprintf(lab->url, sizeof(lab->url), "http://127.0.0.1:%u/realm", lab->issuer.port);
    *state = lab;
    return 0;
}

int auth_lab_end(void **state)
{
    struct auth_lab *lab = *state;
    issuer_stop(&lab->issuer);
    free(lab);
    return 0;
}

/* ---- the loop ---- */

static void on_guard(uv_timer_t *timer)
{
    struct auth_lab *lab = timer->data;
    lab->expired = true;
}

int auth_lab_setup(void **state)
{
    struct auth_lab *lab = *state;
    uv_loop_init(&lab->loop);
    uv_timer_init(&lab->loop, &lab->guard);
    lab->guard.data = lab;
    lab->expired = lab->closed = lab->has_config = false;
    lab->auth = NULL;
    lab->revoked = 0;
    lab->port = lab->issuer.port;
    return 0;
}

int auth_lab_teardown(void **state)
{
    struct auth_lab *lab = *state;
    lab_close(lab);
    uv_close((uv_handle_t *)&lab->guard, NULL);
    uv_run(&lab->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&lab->loop), 0);
    if (lab->has_config) {
        config_finish(&lab->config);
    }
    return 0;
}

static void turn(struct auth_lab *lab)
{
    uv_run(&lab->loop, UV_RUN_ONCE);
    assert_false(lab->expired);
}

static void on_closed(void *arg)
{
    struct auth_lab *lab = arg;
    lab->closed = true;
}

void lab_close(struct auth_lab *lab)
{
    if (lab->auth != NULL) {
        web_auth_close(STEAL_PTR(lab->auth), on_closed, lab);
        assert_false(lab->closed);
        uv_timer_start(&lab->guard, on_guard, GUARD_MS, 0);
        while (!lab->closed) {
            turn(lab);
        }
        uv_timer_stop(&lab->guard);
        lab->closed = false;
    }
}

/* ---- configuration ---- */

void lab_configure(struct auth_lab *lab, const char *const *words)
{
    char *argv[WORDS_MAX] = {NULL};
    int argc = 0;
    int used = 0;
    struct err err = ERR_INIT;
    argv[argc++] = alloc_strdup("--http");
    argv[argc++] = alloc_strdup("8080");
    for (size_t i = 0; words[i] != NULL; i++) {
        argv[argc++] = alloc_strdup(words[i]);
    }
    if (lab->has_config) {
        config_finish(&lab->config);
    }
    assert_int_equal(config_load(&lab->config, argc, argv, &used, &err), 0);
    assert_int_equal(used, argc);
    lab->has_config = true;
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
}

void lab_configure_oauth(struct auth_lab *lab, const char *path, const char *scopes, bool tls)
{
    char url[256];
    snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", tls ? "https" : "http",
             tls ? lab->issuer.tls_port : lab->port, path);
    issuer_write(lab->client, ISSUER_CLIENT "\n", 0600);
    const char *const words[] = {"--oauth-issuer",
                                 lab->url,
                                 "--oauth-introspection",
                                 url,
                                 "--oauth-client",
                                 lab->client,
                                 "--oauth-scopes",
                                 scopes,
                                 "--principal-calls",
                                 "7",
                                 NULL};
    lab_configure(lab, words);
}

int lab_try_create(struct auth_lab *lab, struct err *err)
{
    int rc = web_auth_create(&lab->loop, &lab->config, &lab->auth, err);
    if (rc == 0) {
        web_auth_set_url(lab->auth, "http://127.0.0.1:8080");
    }
    return rc;
}

void lab_create(struct auth_lab *lab)
{
    struct err err = ERR_INIT;
    int rc = lab_try_create(lab, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
}

/* ---- checks ---- */

static void on_check(void *arg, struct principal *principal)
{
    struct web_exchange *x = arg;
    x->times++;
    x->principal = principal;
    assert_true((principal == NULL) == (x->status != 0));
    assert_true(x->gone == NULL ||
                x->status == -1); /* the callback for hanging up is the earlier one again */
}

void lab_begin_check(struct auth_lab *lab, struct web_exchange *x)
{
    web_auth_check(lab->auth, x, on_check, x);
}

void lab_wait(struct auth_lab *lab, struct web_exchange *x)
{
    uv_timer_start(&lab->guard, on_guard, GUARD_MS, 0);
    while (x->times == 0) {
        turn(lab);
    }
    uv_timer_stop(&lab->guard);
    assert_int_equal(x->times, 1);
}

const char *lab_check(struct auth_lab *lab, struct web_exchange *x)
{
    lab_begin_check(lab, x);
    lab_wait(lab, x);
    return x->principal != NULL ? x->principal->name : "";
}

int lab_status(struct auth_lab *lab, const char *token, const char *name)
{
    CLEANUP_FREE char *header =
        alloc_printf("Host: 127.0.0.1:8080\nAuthorization: Bearer %s\n", token);
    struct web_exchange *x = exchange_new(header);
    const char *got = lab_check(lab, x);
    int status = x->status;
    if (status == 0) {
        assert_string_equal(got, name);
    }
    exchange_free(x);
    return status;
}

static void on_revoked(void *arg, struct principal *p)
{
    struct auth_lab *lab = arg;
    assert_true(p->revoked);
    lab->revoked++;
    snprintf(lab->revoked_name, sizeof(lab->revoked_name), "%s", p->name);
}

int lab_reload(struct auth_lab *lab, struct err *err)
{
    lab->revoked = 0;
    return web_auth_reload(lab->auth, on_revoked, lab, err);
}
