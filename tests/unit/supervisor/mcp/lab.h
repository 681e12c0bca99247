/*
 * The protocol layer with an application that does what a test chooses, and clients that keep the
 * messages to them.
 */
#ifndef CLOISTER_TESTS_UNIT_MCP_LAB_H
#define CLOISTER_TESTS_UNIT_MCP_LAB_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "supervisor/base/principal.h"
#include "supervisor/mcp/app.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/session.h"
#include "tests/lib/json_at.h"

#define LAB_HELD 600

/* What the application offers: the tools
 *   echo    answers at once with lab.result, or "echo" if there is none
 *   hold    is ended by lab_end()
 *   routed  has arguments with x-mcp-header: region (string, Region), where.zone (integer, Zone),
 *           fast (boolean, Fast); answers like echo
 *   needs   needs the capability "sampling"
 *   picky   objects to its arguments
 * and lists of as many further items as lab.items says. */
struct lab {
    uv_loop_t loop;
    struct mcp_app app;
    struct mcp_server *server;
    struct principal *me;
    cJSON *schema; /* of routed */
    struct mcp_tool tools[5];
    char *result;                       /* JSON; result of echo, resources/read and prompts/get */
    int items;                          /* of each list */
    size_t lists;                       /* how often a list was asked for */
    struct mcp_request *held[LAB_HELD]; /* in order of arrival; NULL: ended */
    size_t held_count;
    size_t cancels;     /* requests that were cancelled */
    bool end_on_cancel; /* ends a request in its cancellation, as handlers do that need not wait */
    struct peer *lose;  /* its sink goes while a request is being cancelled; NULL: none */
    size_t sessions;    /* how many sessions have data */
};

struct lab *lab_create(void);
void lab_free(struct lab *l);

/* Ends the n-th call of hold. */
void lab_end(struct lab *l, size_t n);

/* A sink, and the messages to it. */
struct peer {
    struct mcp_sink sink;
    struct mcp_session *session;
    cJSON *got[64];             /* all messages, in order; NULL: "there will be no answer" */
    enum mcp_status status[64]; /* 0: it was not an answer */
    size_t count;
    bool deaf;     /* refuses all messages but answers */
    size_t claims; /* the size that it reports for its messages; 0: the real one */
};

/* A peer with a session of its own; `revision` NULL: without initialize. */
struct peer *peer_create(struct lab *l, enum mcp_session_kind kind, const char *revision);
/* Another sink for the session of a peer. */
struct peer *peer_beside(struct peer *p);
/* Frees the peer; its session goes on. */
void peer_free(struct peer *p);
/* The same, after mcp_session_end(). */
void peer_end(struct peer *p);

/* Sends a message; double quotes may be written as single ones. */
bool peer_send(struct peer *p, const struct mcp_head *head, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Sends a request "id" with these members of params ("" for none); of the latest revision with
 * _meta. */
bool peer_ask(struct peer *p, bool modern, const char *id, const char *method, const char *params);
bool peer_cancel(struct peer *p, const char *id);

/* The latest message; fails if there is none. */
const cJSON *peer_last(const struct peer *p);
enum mcp_status peer_status(const struct peer *p);

/* The number at a path such as "error.code"; fails if there is none. */
int number_at(const cJSON *root, const char *path);
void assert_error(const struct peer *p, int code, const char *words);

#define LAB_META                                                                                   \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                             \
    "'io.modelcontextprotocol/clientCapabilities':{}}"

#endif
