/*
 * A server of the protocol layer with a small application, and clients without a transport: they
 * send text and keep the messages to them as JSON.
 *
 * Tools: `echo` answers at once; `hold` when the test says so; `ask` asks the user for a name;
 * `two` asks two questions at once; `rounds` asks twice and counts in its state; `forever` asks
 * until it is stopped; `log` logs at every level. Each may be a task of 2025-11-25. With the prefix
 * `task_` a call becomes a task if the client can handle it; with `must_` it has to be one.
 */
#ifndef CLOISTER_TESTS_UNIT_MCP_TALK_H
#define CLOISTER_TESTS_UNIT_MCP_TALK_H

#include <cjson/cJSON.h>
#include <uv.h>

#include "supervisor/base/principal.h"
#include "supervisor/mcp/app.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/session.h"

#define TALK_MESSAGES 3000

struct talk {
    uv_loop_t loop;
    struct mcp_app app;
    struct mcp_server *server;
    struct principal *anna, *berta;
    struct mcp_request *held; /* the latest request of the tool `hold` */
    size_t runs;              /* how many handlers ran */
    size_t cancels;           /* how many cancellations handlers were told of */
    size_t mays;              /* how often it was asked which client may be told of a resource */
    bool closed;
};

struct talker {
    struct mcp_sink sink;
    struct talk *talk;
    struct mcp_session *session;
    bool modern;
    bool behind;  /* takes no messages but answers */
    bool hang_up; /* ends the session when it gets the next message */
    cJSON *got[TALK_MESSAGES];
    size_t count;
    size_t unanswered; /* how many requests will not be answered */
    int ids;
};

struct talk *talk_create(unsigned offers);
void talk_destroy(struct talk *t);

/* Makes a client; `revision` opens a legacy session, NULL: the latest revision. Capabilities are
 * JSON text. */
struct talker *talk_join(struct talk *t, struct principal *who, enum mcp_session_kind kind,
                         const char *revision, const char *capabilities);
void talk_leave(struct talker *c);

/* Sends one message; single quotes stand for double ones. */
void talk_send(struct talker *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Sends a request with the next id, which it returns. `params` are the members without the braces,
 * or "". A modern one declares elicitation, sampling, roots and tasks. */
int talk_ask(struct talker *c, const char *method, const char *params, ...)
    __attribute__((format(printf, 3, 4)));

/* The latest message; fails if there is none. */
const cJSON *talk_last(const struct talker *c);
/* The answer to the request of this id; NULL if there is none. */
const cJSON *talk_answer(const struct talker *c, int id);
/* The n-th message of this method from the end (0: the last); NULL if there is none. */
const cJSON *talk_heard(const struct talker *c, const char *method, size_t n);
size_t talk_count(const struct talker *c, const char *method);
void talk_forget(struct talker *c);

/* Ends the held request with this text. */
void talk_release(struct talk *t, const char *text, bool is_error);

/* Runs the loop until so many messages of this method have arrived (at most 5 s). */
void talk_await(struct talker *c, const char *method, size_t count);

/* The value at a path such as "result.content.0.text", in which names with dots are written in `…`;
 * NULL if absent. */
const cJSON *at(const cJSON *root, const char *path);
const char *text_at(const cJSON *root, const char *path);
void assert_text_at(const cJSON *root, const char *path, const char *expected);
void assert_error(const cJSON *message, int code);

#endif
