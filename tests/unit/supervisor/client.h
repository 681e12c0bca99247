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
    size_t calls; /* how many were made with client_call(), for their ids */
};

struct client *client_create(void);
void client_free(struct client *c);

/* cmocka setup and teardown: the same with an open legacy session of the latest revision. */
int client_setup(void **state);
int client_teardown(void **state);

/* Sends one line of the client; double quotes may be written as single ones. */
void client_send(struct client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sends a message that is JSON already. */
void client_take(struct client *c, cJSON *message, size_t bytes);

/* Opens a legacy session of that revision. */
void client_initialize(struct client *c, const char *revision);

/* Sends tools/call with the next id, of the latest revision if `modern`. */
void client_call(struct client *c, bool modern, const char *tool, const char *arguments);

/* The same on a legacy session; answers everything that is pending and returns the result. */
const cJSON *client_tool(struct client *c, const char *tool, const char *arguments);

/* The latest answer; fails if there is none. */
const cJSON *client_last(const struct client *c);

/* The number at a path such as "error.code"; fails if there is none. */
double number_at(const cJSON *root, const char *path);

/* Asserts that the latest answer is an error with this code and a message that contains the
 * words. */
void assert_error(const struct client *c, int code, const char *words);

/* Asserts that a tool's result is a failure with this code and a message that contains the
 * words. */
void assert_failure(const cJSON *result, const char *code, const char *words);
/* Asserts the first text of a tool's result. */
void assert_text(const cJSON *result, const char *expected);

#endif
