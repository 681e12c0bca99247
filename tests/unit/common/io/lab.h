/*
 * A server in a process of its own (server.py), a loop, a client, and helpers that wait for
 * answers.
 */
#ifndef CLOISTER_TESTS_UNIT_HTTP_LAB_H
#define CLOISTER_TESTS_UNIT_HTTP_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <uv.h>

#include "common/buf.h"
#include "common/io/http_client.h"
#include "tests/lib/script_server.h"

struct lab {
    struct script_server server;     /* its directory contains socket and certificates */
    unsigned tcp, tls, mutual, mute; /* ports */

    uv_loop_t loop;
    uv_timer_t guard;
    bool expired;
    struct http_client *client;
    bool closed;
};

/* For a group of tests: the server. */
int lab_begin(void **state);
int lab_end(void **state);

/* For each test: makes a loop; the teardown closes the client if the test did not, and requires
 * that nothing is left on the loop. */
int lab_setup(void **state);
int lab_teardown(void **state);

enum place { PLACE_UNIX, PLACE_TCP, PLACE_TLS, PLACE_MUTUAL, PLACE_MUTE, PLACE_MUTE_TLS };

/* The endpoint of that place; its paths are in static memory of the lab. */
struct http_endpoint lab_endpoint(struct lab *lab, enum place place);
void lab_connect(struct lab *lab, enum place place);
void lab_connect_to(struct lab *lab, const struct http_endpoint *endpoint);
void lab_close(struct lab *lab);

struct answer {
    struct lab *lab;
    int times;
    int rc;
    int status;
    struct err err;
    struct buf body;
    char header[128]; /* the value of X-Reply or of Content-Type */
    struct http_tunnel *tunnel;
    struct http_call *call;
    bool cancel_in_data, refuse_data; /* what the callback does with a piece of the body */
    struct answer *other;             /* cancelled as well */
    size_t streamed, largest_piece;
    void *giver; /* argument of a test that sends a body in pieces */
};

void answer_init(struct answer *a, struct lab *lab);
void answer_finish(struct answer *a);
void on_answer(void *arg, int rc, const struct http_response *response, const struct err *err);
void on_answer_tunnel(void *arg, int rc, struct http_tunnel *tunnel,
                      const struct http_response *response, const struct err *err);

/* Runs the loop until *number is `wanted`; fails the test after ten seconds. */
void lab_wait(struct lab *lab, const int *number, int wanted);
void lab_wait_true(struct lab *lab, const bool *flag);
void lab_pass(struct lab *lab); /* runs one turn of the loop, without waiting */

/* GET with a timeout of five seconds. */
struct http_request lab_request(const char *path);
void lab_get(struct answer *a, const char *path);
void lab_ask(struct answer *a, const struct http_request *request); /* sends and waits */
void lab_upgrade(struct answer *a, const char *path);               /* waits */
bool body_is(const struct answer *a, const char *text);

/* A counter of the server. */
int lab_count(struct lab *lab, const char *name);

#endif
