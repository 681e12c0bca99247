/*
 * The endpoint on the real protocol layer with a small application, and exchanges that tests fill
 * in.
 *
 * Tools: "echo" answers at once, "wait" when the test says so (world->waiting).
 */
#ifndef CLOISTER_TESTS_UNIT_WEB_WEB_WORLD_H
#define CLOISTER_TESTS_UNIT_WEB_WEB_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "supervisor/mcp/app.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/session.h"
#include "supervisor/web/mcp/endpoint.h"
#include "supervisor/web/mcp/session_id.h"
#include "tests/unit/supervisor/web/fake_web.h"

#define HEARTBEAT_MS 20
#define WORLD_MAX    128

#define AUTH    "Authorization: Bearer alice\n"
#define TYPE    "Content-Type: application/json\n"
#define ACCEPT  "Accept: application/json, text/event-stream\n"
#define BASE    AUTH TYPE ACCEPT
#define SESSION "Mcp-Session-Id: $\n" /* the session of world_initialize() */
#define MODERN  "MCP-Protocol-Version: 2026-07-28\n"

#define P    "io.modelcontextprotocol/"
#define META "'_meta':{'" P "protocolVersion':'2026-07-28','" P "clientCapabilities':{}}"
#define CALL(id, tool)                                                                             \
    "{'jsonrpc':'2.0','id':" #id ",'method':'tools/call','params':{'name':'" tool                  \
    "','arguments':{},'_meta':{'progressToken':" #id "}}}"
#define MODERN_CALL(id, tool)                                                                      \
    "{'jsonrpc':'2.0','id':" #id ",'method':'tools/call','params':{'name':'" tool                  \
    "','arguments':{},'_meta':{'progressToken':" #id ",'" P "protocolVersion':'2026-07-28','" P    \
    "clientCapabilities':{}}}}"
#define MODERN_CALL_HEAD(tool) BASE MODERN "Mcp-Method: tools/call\nMcp-Name: " tool "\n"
#define INITIALIZE(revision)                                                                       \
    "{'jsonrpc':'2.0','id':0,'method':'initialize','params':{'protocolVersion':'" revision         \
    "','capabilities':{},'clientInfo':{'name':'t','version':'1'}}}"

struct world {
    uv_loop_t loop;
    struct mcp_app app;
    struct mcp_server *server;
    struct web_auth *auth;
    struct mcp_endpoint *endpoint;
    struct mcp_request *waiting[WORLD_MAX]; /* in order of arrival; NULL: answered */
    size_t calls;
    size_t cancelled;
    void (*on_cancelled)(struct world *w); /* NULL: does nothing more */
    enum result_form results;              /* the form in which the latest list was asked for */
    size_t sessions;                       /* open sessions of the protocol layer */
    char id[512];                          /* id of the latest session */
    unsigned char key[SESSION_KEY_BYTES];  /* key of the instance */
    bool no_key;                           /* the key cannot be read */
    struct web_exchange *exchanges[WORLD_MAX];
    size_t exchange_count;
};

struct world *world_create(size_t max_sessions, uint64_t session_idle_ms);

/* The same for an instance with this key, which signs session ids. */
struct world *world_create_named(size_t max_sessions, uint64_t session_idle_ms, uint8_t key);
void world_free(struct world *w);

/* cmocka setup: 4 sessions with a timeout of an hour. */
int world_setup(void **state);
int world_teardown(void **state);
#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

/* Passes a request to the endpoint; the exchange is freed with the world. `$` in headers and target
 * is the session's id. */
struct web_exchange *world_send(struct world *w, const char *method, const char *target,
                                const char *headers, const char *body);

/* Opens a session for alice; its id is in w->id. */
void world_initialize(struct world *w, const char *revision);

/* Answers the n-th call of "wait" with its number. */
void world_answer(struct world *w, size_t n);

/* Runs the loop until the exchange has sent these words, or has ended, … */
void world_until_sent(struct world *w, const struct web_exchange *x, const char *words);
void world_until_ended(struct world *w, const struct web_exchange *x);
/* … or so many sessions are open. */
void world_until_sessions(struct world *w, size_t count);

#endif
