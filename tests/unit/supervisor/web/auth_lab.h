/*
 * Authentication with exchanges that a test writes by hand, and an authorization server in a
 * process of its own (issuer.py).
 */
#ifndef CLOISTER_TESTS_UNIT_WEB_AUTH_LAB_H
#define CLOISTER_TESTS_UNIT_WEB_AUTH_LAB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <uv.h>

#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/http/exchange.h"
#include "tests/unit/supervisor/web/issuer.h"

/* The request is written down by the test, the response by whom we test. */
struct web_exchange {
    const char *method, *target, *peer;
    char *text; /* of the headers, cut into … */
    const char *names[16], *values[16];
    size_t count;
    int status;      /* 0: not answered */
    char sent[4096]; /* headers of the response, as lines */
    char *body;
    void (*gone)(void *arg);
    void *gone_arg;
    /* of web_auth_check() */
    int times;
    struct principal *principal;
};

/* POST /mcp to Host 127.0.0.1:8080, with more header lines. */
struct web_exchange *exchange_new(const char *headers);
void exchange_free(struct web_exchange *x);
/* A header line of the response is exactly this. */
bool exchange_sent(const struct web_exchange *x, const char *line);
bool exchange_sent_name(const struct web_exchange *x, const char *name);
void exchange_hang_up(struct web_exchange *x);
/* The same exchange once more, unanswered. */
void exchange_again(struct web_exchange *x);

struct auth_lab {
    struct issuer issuer;
    char tokens[96], client[96]; /* files */
    char url[128];               /* of the issuer */
    unsigned port;               /* where it is asked, without TLS */

    uv_loop_t loop;
    uv_timer_t guard;
    bool expired;
    struct config config;
    bool has_config;
    struct web_auth *auth;
    bool closed;
    int revoked;
    char revoked_name[64];
};

/* For a group of tests: the issuer. */
int auth_lab_begin(void **state);
int auth_lab_end(void **state);
/* For each test: a loop; afterwards nothing may be left on it. */
int auth_lab_setup(void **state);
int auth_lab_teardown(void **state);

/* The configuration of these words, "--http 8080" before them. */
void lab_configure(struct auth_lab *lab, const char *const *words);
/* The same for the issuer: on `path` there. */
void lab_configure_oauth(struct auth_lab *lab, const char *path, const char *scopes, bool tls);
int lab_try_create(struct auth_lab *lab, struct err *err);
void lab_create(struct auth_lab *lab);
void lab_close(struct auth_lab *lab);

/* web_auth_check(), and the time till its end. */
void lab_begin_check(struct auth_lab *lab, struct web_exchange *x);
void lab_wait(struct auth_lab *lab, struct web_exchange *x);
/* All in one: the principal's name, or "" and x tells what was answered. */
const char *lab_check(struct auth_lab *lab, struct web_exchange *x);

/* One exchange with "Authorization: Bearer TOKEN"; its status, 0 if it was let in as `name`. */
int lab_status(struct auth_lab *lab, const char *token, const char *name);

int lab_reload(struct auth_lab *lab, struct err *err);

#endif
