/*
 * A listener with a handler that tests control, and clients as plain sockets on the same thread:
 * waiting for a client's bytes runs the loop that serves them.
 */
#ifndef CLOISTER_TESTS_UNIT_WEB_LAB_H
#define CLOISTER_TESTS_UNIT_WEB_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "supervisor/web/http/exchange.h"
#include "supervisor/web/http/listener.h"

/* What is on a path:
 *   /hello   200 "hello\n"          /echo   200, the body       /count  200, its length
 *   /later   kept in `held`         /stream begun, kept         /headers  what it saw of the head
 *   /big     200, 8 MiB             /deny   401 by admit()      anything else  404
 * A request with a header X-Known comes from whom that names, others from strangers. */
struct lab {
    uv_loop_t loop;
    struct web_listener *listener;
    struct web_listener_config config;
    uint16_t port;
    bool closed;
    struct web_exchange *held[64];
    size_t held_count;
    size_t handled, admitted, gone, drained;
    size_t crowds; /* connections that somebody has beyond half of them */
};

#define LAB_DEADLINE_MS 20000

/* The defaults are loopback, any port, 100 connections, bodies of 1 MiB; other values are set in
 * lab->config before. */
void lab_init(struct lab *lab);
void lab_open(struct lab *lab);
/* Closes the listener and the loop, on which nothing may be left. */
void lab_close(struct lab *lab);
/* Setup and teardown of tests that need nothing else: *state is the lab. */
int lab_setup(void **state);
int lab_teardown(void **state);
/* Runs the loop until *flag is true or *count reaches n; fails the test after LAB_DEADLINE_MS. */
void lab_until(struct lab *lab, const bool *flag);
void lab_until_count(struct lab *lab, const size_t *count, size_t n);
/* Runs the loop once, waiting at most 100 ms for it or for the descriptor (-1: none). */
void lab_turn(struct lab *lab, int fd);

/* Counts calls in `gone`. */
void lab_on_gone(void *lab);

/* Connects a client; the caller closes it. */
int lab_connect(struct lab *lab);
void lab_send(struct lab *lab, int fd, const char *text);
void lab_send_bytes(struct lab *lab, int fd, const void *data, size_t len);
/* Appends received bytes until `text` is among them, or until the end. False: end or reset. */
bool lab_read_until(struct lab *lab, int fd, struct buf *in, const char *text);
bool lab_has(struct buf *in, const char *text);
size_t lab_times(struct buf *in, const char *text);
/* Bytes that our kernel holds back although the listener has written them to this connection. */
int lab_held_back(int fd);
/* Sends one request on a connection of its own and returns everything received. For
 * buf_finish(). */
struct buf lab_request(struct lab *lab, const char *text);

#endif
