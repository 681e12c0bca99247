#include "tests/unit/common/io/lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"

enum { GUARD_MS = 10000 };

/* ---- the server ---- */

int lab_begin(void **state)
{
    struct lab *lab = alloc_one(struct lab);
    /* A proxy in the environment must not be used for servers on this machine. */
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("https_proxy", "http://127.0.0.1:1", 1);
    FILE *file = script_server_start(&lab->server, HTTP_SERVER);
    int found = fscanf(file, "ready %u %u %u %u", &lab->tcp, &lab->tls, &lab->mutual, &lab->mute);
    fclose(file);
    assert_int_equal(found, 4);
    *state = lab;
    return 0;
}

int lab_end(void **state)
{
    struct lab *lab = *state;
    script_server_stop(&lab->server);
    free(lab);
    return 0;
}

/* ---- the loop ---- */

static void on_guard(uv_timer_t *timer)
{
    struct lab *lab = timer->data;
    lab->expired = true;
}

static void guard_begin(struct lab *lab)
{
    lab->expired = false;
    uv_timer_start(&lab->guard, on_guard, GUARD_MS, 0);
}

static void turn(struct lab *lab)
{
    uv_run(&lab->loop, UV_RUN_ONCE);
    assert_false(lab->expired);
}

void lab_wait(struct lab *lab, const int *number, int wanted)
{
    guard_begin(lab);
    while (*number < wanted) {
        turn(lab);
    }
    uv_timer_stop(&lab->guard);
    assert_int_equal(*number, wanted);
}

void lab_wait_true(struct lab *lab, const bool *flag)
{
    guard_begin(lab);
    while (!*flag) {
        turn(lab);
    }
    uv_timer_stop(&lab->guard);
}

void lab_pass(struct lab *lab)
{
    uv_run(&lab->loop, UV_RUN_NOWAIT);
}

int lab_setup(void **state)
{
    struct lab *lab = *state;
    uv_loop_init(&lab->loop);
    uv_timer_init(&lab->loop, &lab->guard);
    lab->guard.data = lab;
    lab->client = NULL;
    lab->closed = false;
    return 0;
}

int lab_teardown(void **state)
{
    struct lab *lab = *state;
    lab_close(lab);
    uv_close((uv_handle_t *)&lab->guard, NULL);
    uv_run(&lab->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&lab->loop), 0);
    return 0;
}

static const char *file_of(struct lab *lab, char *path, const char *name)
{
    snprintf(path, PATH_MAX, "%s/%s", lab->server.top, name);
    return path;
}

struct http_endpoint lab_endpoint(struct lab *lab, enum place place)
{
    static char url[64], path[PATH_MAX], ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
    const unsigned ports[] = {0, lab->tcp, lab->tls, lab->mutual, lab->mute, lab->mute};
    bool tls = place == PLACE_TLS || place == PLACE_MUTUAL || place == PLACE_MUTE_TLS;
    struct http_endpoint endpoint = {.name = "the engine", .base_url = url, .verify = true};
    if (place == PLACE_UNIX) {
        snprintf(url, sizeof(url), "http://localhost");
        endpoint.unix_socket = file_of(lab, path, "socket");
    } else {
        snprintf(url, sizeof(url), "%s://127.0.0.1:%u", tls ? "https" : "http", ports[place]);
    }
    if (tls) {
        endpoint.ca_file = file_of(lab, ca, "ca.pem");
    }
    if (place == PLACE_MUTUAL) {
        endpoint.cert_file = file_of(lab, cert, "client.pem");
        endpoint.key_file = file_of(lab, key, "client-key.pem");
    }
    return endpoint;
}

void lab_connect_to(struct lab *lab, const struct http_endpoint *endpoint)
{
    struct err err = ERR_INIT;
    int rc = http_client_create(&lab->loop, endpoint, &lab->client, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
}

void lab_connect(struct lab *lab, enum place place)
{
    struct http_endpoint endpoint = lab_endpoint(lab, place);
    lab_connect_to(lab, &endpoint);
}

static void on_closed(void *arg)
{
    struct lab *lab = arg;
    lab->closed = true;
}

void lab_close(struct lab *lab)
{
    if (lab->client != NULL) {
        http_client_close(STEAL_PTR(lab->client), on_closed, lab);
        assert_false(lab->closed);
        lab_wait_true(lab, &lab->closed);
        lab->closed = false;
    }
}

/* ---- answers ---- */

void answer_init(struct answer *a, struct lab *lab)
{
    *a = (struct answer){.lab = lab};
    buf_init(&a->body, 16 << 20);
}

void answer_finish(struct answer *a)
{
    buf_finish(&a->body);
}

void on_answer(void *arg, int rc, const struct http_response *response, const struct err *err)
{
    struct answer *a = arg;
    a->times++;
    a->rc = rc;
    a->call = NULL;
    if (rc < 0) {
        a->err = *err;
        assert_string_not_equal(err->text, "");
        assert_null(strstr(err->text, "\n"));
        assert_non_null(strstr(err->text, "the engine"));
        return;
    }
    a->status = response->status;
    struct view value = http_response_header(response, "x-rePLY");
    if (value.len == 0) {
        value = http_response_header(response, "content-type");
    }
    snprintf(a->header, sizeof(a->header), "%.*s", VIEW_ARG(value));
    assert_int_equal(http_response_header(response, "absent").len, 0);
    assert_int_equal(buf_add(&a->body, response->body.data, response->body.len, NULL), 0);
}

void on_answer_tunnel(void *arg, int rc, struct http_tunnel *tunnel,
                      const struct http_response *response, const struct err *err)
{
    struct answer *a = arg;
    on_answer(arg, rc, response, err);
    a->tunnel = tunnel;
}

struct http_request lab_request(const char *path)
{
    struct http_request request = {.method = "GET", .path = path, .total_ms = 5000};
    return request;
}

void lab_ask(struct answer *a, const struct http_request *request)
{
    int before = a->times;
    buf_reset(&a->body, SIZE_MAX);
    a->call = http_send(a->lab->client, request, on_answer, a);
    assert_int_equal(a->times, before); /* the callback never runs inside the call */
    lab_wait(a->lab, &a->times, before + 1);
}

void lab_get(struct answer *a, const char *path)
{
    struct http_request request = lab_request(path);
    lab_ask(a, &request);
}

void lab_upgrade(struct answer *a, const char *path)
{
    struct http_request request = lab_request(path);
    request.method = "POST";
    int before = a->times;
    a->call = http_tunnel_open(a->lab->client, &request, on_answer_tunnel, a);
    assert_int_equal(a->times, before);
    lab_wait(a->lab, &a->times, before + 1);
}

bool body_is(const struct answer *a, const char *text)
{
    return view_is(view_bytes(a->body.data, a->body.len), text);
}

int lab_count(struct lab *lab, const char *name)
{
    struct answer a;
    answer_init(&a, lab);
    lab_get(&a, "/stats");
    assert_int_equal(a.rc, 0);
    const char *at = strstr(buf_cstr(&a.body), name);
    int value = -1;
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "\": %d", &value), 1);
    answer_finish(&a);
    return value;
}
