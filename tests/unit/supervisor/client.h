/*
 * A client of one session on the fake fleet: sends messages as text, keeps the answers as JSON.
 */
#ifndef CLOISTER_TESTS_UNIT_SUPERVISOR_CLIENT_H
#define CLOISTER_TESTS_UNIT_SUPERVISOR_CLIENT_H

#include <cjson/cJSON.h>

#include "supervisor/base/config.h"
#include "supervisor/front/app.h"
#include "supervisor/languages/languages.h"
#include "supervisor/mcp/session.h"
#include "tests/lib/json_at.h"
#include "tests/unit/supervisor/fake_fleet.h"

#define CLIENT_ANSWERS 1200

struct client {
    struct config config;
    struct languages *languages;
    struct fleet *fleet;
    struct app *app;
    uv_loop_t loop;
    struct mcp_server *server;
    struct mcp_session *session;
    struct mcp_sink sink;
    char *texts[CLIENT_ANSWERS]; /* as sent */
    cJSON *answers[CLIENT_ANSWERS];
    size_t count;
    size_t calls; /* made with client_call(), for their ids */
};

struct client *client_create(void);
void client_free(struct client *c);

/* cmocka setup and teardown for the same with an open legacy session, of the latest revision. */
int client_setup(void **state);
int client_teardown(void **state);

/* One line from the client; double quotes may be written as single ones. */
void client_send(struct client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A message that is JSON already. */
void client_take(struct client *c, cJSON *message, size_t bytes);

/* Opens a legacy session of that revision. */
void client_initialize(struct client *c, const char *revision);

/* Sends tools/call with the next id, modern if `modern`. */
void client_call(struct client *c, bool modern, const char *tool, const char *arguments);

/* As client_call() on a legacy session, with everything answered; returns the result. */
const cJSON *client_tool(struct client *c, const char *tool, const char *arguments);

/* The latest answer, which must be there. */
const cJSON *client_last(const struct client *c);

/* The number at a path such as "error.code", which must be one. */
double number_at(const cJSON *root, const char *path);

/* A tool's result: that it failed with this code and a message in which the words are, */
void assert_failure(const cJSON *result, const char *code, const char *words);
/* and what its first text says. */
void assert_text(const cJSON *result, const char *expected);

#endif
