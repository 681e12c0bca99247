/*
 * A door between an agent and a server of the test's own, all on one loop, and names that lead
 * where the test says.
 */
#ifndef CLOISTER_TESTS_UNIT_WORKER_DOOR_LAB_H
#define CLOISTER_TESTS_UNIT_WORKER_DOOR_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <uv.h>

#include "common/buf.h"
#include "worker/door/door.h"

#define LAB_CHANNELS 8 /* whose messages are kept: number 1 to 8 */

struct lab_channel {
    struct buf said; /* all of DOOR_DATA */
    uint64_t credit; /* all of DOOR_CREDIT */
    unsigned closed; /* how often DOOR_CLOSE came */
};

struct lab {
    uv_loop_t loop;
    struct door_rules rules;
    struct door *door; /* NULL when it is closed */
    struct lab_channel channels[LAB_CHANNELS + 1];
    uv_tcp_t listener;
    unsigned port;
    uv_tcp_t *peers[4]; /* connections, the latest ones */
    unsigned accepted;
    struct buf heard;     /* what all of them said */
    bool deaf;            /* it reads nothing */
    unsigned ended;       /* connections whose other end was closed */
    unsigned looked_up;   /* names, so far */
    const char *leads_to; /* addresses of names, one after the other; the last stays */
    char last_name[300];
};

/* Group of steps: `rules` are pairs as of OPEN, in which "PORT" stands for that of the server. */
struct lab *lab_create(const char *const *rules, const char *proxy, const char *auth);
void lab_destroy(struct lab *l);

/* What the agent says; the result of door_take(). */
int lab_open(struct lab *l, uint64_t channel);
int lab_data(struct lab *l, uint64_t channel, const char *text);
int lab_bytes(struct lab *l, uint64_t channel, size_t count);
int lab_credit(struct lab *l, uint64_t channel, uint64_t bytes);
int lab_close(struct lab *l, uint64_t channel, bool whole);

/* Opens a channel and says it, in which "PORT" is as above. */
void lab_ask(struct lab *l, uint64_t channel, const char *text);

/* Turns the loop until it is so; fails the test after a long time. */
void lab_until_said(struct lab *l, uint64_t channel, const char *part);
void lab_until_closed(struct lab *l, uint64_t channel);
void lab_until_heard(struct lab *l, const char *part);
void lab_until(struct lab *l, bool (*so)(const struct lab *l));
void lab_turns(struct lab *l, int count); /* so often, without waiting */

/* The server says it on its latest connection, or closes that. */
void lab_serve(struct lab *l, const void *data, size_t len);
void lab_hang_up(struct lab *l);
void lab_listen_again(struct lab *l); /* the server reads from now on */

const char *lab_said(struct lab *l, uint64_t channel);

#endif
