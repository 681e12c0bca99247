/*
 * Exchanges and authentication without a network: a test writes the request, passes it on, and
 * checks the response.
 *
 * Bearer tokens are names: the token "alice" authenticates as alice. The token "slow" is decided
 * asynchronously, when the test chooses.
 */
#ifndef CLOISTER_TESTS_UNIT_WEB_FAKE_WEB_H
#define CLOISTER_TESTS_UNIT_WEB_FAKE_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "supervisor/base/principal.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/http/exchange.h"

struct fake_field {
    char *name, *value;
};

struct web_exchange {
    char *method, *path, *query;
    struct fake_field headers[32];
    size_t header_count;
    char *body;
    /* the response */
    int status; /* 0: not begun */
    char *content_type;
    struct fake_field sent[16];
    size_t sent_count;
    char *text;    /* the body so far, "" at first */
    size_t queued; /* the result of web_stream_queued() */
    bool streaming, ended;
    void (*gone)(void *arg);
    void *gone_arg;
};

/* Makes an exchange. `target` may have a query; `headers` is "Name: value" lines; body NULL: none.
 * In body and headers double quotes may be written as single ones. */
struct web_exchange *fake_exchange(const char *method, const char *target, const char *headers,
                                   const char *body);
void fake_free(struct web_exchange *x);

/* The client hangs up. */
void fake_hang_up(struct web_exchange *x);

/* A header of the response, or NULL. */
const char *fake_sent(const struct web_exchange *x, const char *name);

struct web_auth *fake_auth(void);
void fake_auth_free(struct web_auth *a);
/* Decides the pending "Bearer slow": it is this name, or refused (NULL). */
void fake_auth_decide(struct web_auth *a, const char *name);
struct principal *fake_principal(struct web_auth *a, const char *name);

#endif
