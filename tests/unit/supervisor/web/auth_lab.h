/*
 * Authentication with exchanges that a test fills in, and an authorization server in a process of
 * its own (issuer.py).
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

/* The test fills in the request, the code under test the response. */
struct web_exchange {
    const char *method, *target, *peer;
    char *text; /* the copy that the headers point into */
    const char *names[16], *values[16];
    size_t count;
    int status;      /* 0: not answered */
    char sent[4096]; /* headers of the response, as lines */
    char *body;
    uint64_t known; /* web_set_known() */
    bool crowd;     /* what web_would_crowd() returns, unless it is known as his */
    bool alone;     /* and nobody asks for it */
    void (*gone)(void *arg);
    void *gone_arg;
    /* calls of the callback of web_auth_check() */
    int times;
    struct principal *principal;
};

/* An exchange POST /mcp to Host 127.0.0.1:8080, with more header lines. */
struct web_exchange *exchange_new(const char *headers);
void exchange_free(struct web_exchange *x);
/* Whether the response has exactly this header line. */
bool exchange_sent(const struct web_exchange *x, const char *line);
bool exchange_sent_name(const struct web_exchange *x, const char *name);
void exchange_hang_up(struct web_exchange *x);
/* Makes the exchange unanswered, to be checked once more. */
void exchange_again(struct web_exchange *x);

struct auth_lab {
    struct issuer issuer;
    char tokens[96], client[96]; /* files */
    char url[128];               /* of the issuer */
    unsigned port;               /* port without TLS */

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

/* For a group of tests: starts the issuer. */
int auth_lab_begin(void **state);
int auth_lab_end(void **state);
/* For each test: makes a loop; at the end nothing may be left on it. */
int auth_lab_setup(void **state);
int auth_lab_teardown(void **state);

/* Configures from these words, with "--http 8080" before them. */
void lab_configure(struct auth_lab *lab, const char *const *words);
/* The same with the issuer, at `path` of it. */
void lab_configure_oauth(struct auth_lab *lab, const char *path, const char *scopes, bool tls);
int lab_try_create(struct auth_lab *lab, struct err *err);
void lab_create(struct auth_lab *lab);
void lab_close(struct auth_lab *lab);

/* Calls web_auth_check(), and waits for its end. */
void lab_begin_check(struct auth_lab *lab, struct web_exchange *x);
void lab_wait(struct auth_lab *lab, struct web_exchange *x);
/* Checks an exchange: returns the principal's name, or "" and x has the answer. */
const char *lab_check(struct auth_lab *lab, struct web_exchange *x);

/* Checks one exchange with "Authorization: Bearer TOKEN"; returns its status, 0 if it was accepted
 * as `name`. */
int lab_status(struct auth_lab *lab, const char *token, const char *name);

int lab_reload(struct auth_lab *lab, struct err *err);

#endif
