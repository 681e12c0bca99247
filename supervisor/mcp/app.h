/*
 * What a server built on this protocol layer offers: a table of functions and texts. cloister is
 * one such application, the fixture of the conformance tests another.
 *
 * The layer knows JSON-RPC, the five revisions, sessions, tasks and streams, and nothing of what
 * the methods do; the application knows nothing of revisions. Values are written in the shape of
 * the latest revision, and the layer takes away or rewrites what an older client does not know
 * (shape.c).
 *
 * Handlers get a request (request.h) and end it exactly once, at once or later. What they
 * are given with it is borrowed and lives as long as the request.
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_APP_H
#define CLOISTER_SUPERVISOR_MCP_APP_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct mcp_request;
struct mcp_session;
struct principal;

/* The lists of the protocol. Which exist follows from `offers`. */
enum mcp_list {
    MCP_LIST_TOOLS,
    MCP_LIST_RESOURCES,
    MCP_LIST_TEMPLATES,
    MCP_LIST_PROMPTS,
    MCP_LIST_COUNT,
};

#define MCP_LIST_FORMS 2

/* Capabilities; a method whose capability is not offered does not exist. */
enum mcp_offer {
    MCP_OFFER_TOOLS = 1 << 0,
    MCP_OFFER_TOOLS_CHANGED = 1 << 1,
    MCP_OFFER_RESOURCES = 1 << 2,
    MCP_OFFER_RESOURCES_CHANGED = 1 << 3,
    MCP_OFFER_SUBSCRIBE = 1 << 4, /* changes of single resources */
    MCP_OFFER_PROMPTS = 1 << 5,
    MCP_OFFER_PROMPTS_CHANGED = 1 << 6,
    MCP_OFFER_COMPLETIONS = 1 << 7,
    MCP_OFFER_LOGGING = 1 << 8,
    MCP_OFFER_TASKS = 1 << 9,
};

/* Whether a call of a tool may be, or must be, a task that the client asks for again later. */
enum mcp_task_support { MCP_TASK_NEVER, MCP_TASK_OPTIONAL, MCP_TASK_REQUIRED };

struct mcp_tool {
    const char *name;
    const cJSON *input_schema; /* its x-mcp-header members are checked against HTTP headers */
    enum mcp_task_support tasks;
};

/* What completion/complete asks for. */
struct mcp_completion {
    const char *prompt;     /* name, or NULL */
    const char *uri;        /* of a template or resource, or NULL */
    const char *argument;   /* its name */
    const char *value;      /* what has been typed of it */
    const cJSON *arguments; /* values of others, or NULL */
};

struct mcp_app {
    void *arg; /* first argument of those below that take one */
    const char *name, *title, *version, *description, *website;
    const char *icons;        /* JSON text of an array, or NULL */
    const char *instructions; /* for models, or NULL */
    unsigned offers;          /* enum mcp_offer, or-ed */
    size_t calls_max;         /* of one client in flight; more are refused. 0: LIMIT_CALLS */
    /* Lists that never change while the server runs. */
    bool fixed[MCP_LIST_COUNT];

    /* Lists of which clients get different forms, so that what one got is never another's. */
    bool has_forms[MCP_LIST_COUNT];
    /* The form of such a list that this request gets, below MCP_LIST_FORMS. Any other number: it
     * gets none of them, and its answer is not kept. Needed only where has_forms is true. */
    unsigned (*list_form)(const struct mcp_request *r, enum mcp_list list);

    /* Each session may have something of its own, mcp_request_session_data(). Closed after the last
     * request of the session has ended. */
    void *(*session_open)(void *arg, struct mcp_session *session);
    void (*session_close)(void *arg, void *data);

    /* Before it is closed: its client went without a word, and may come back for what it has begun.
     * May be NULL. */
    void (*session_lost)(void *arg, void *data);

    /* Ends with mcp_answer_items() (all items there are; the layer pages) or mcp_answer_page(). The
     * cursor is NULL for the first page; otherwise as the handler gave it, but from the client:
     * check it. */
    void (*list)(struct mcp_request *r, enum mcp_list list, const char *cursor);

    const struct mcp_tool *(*tool_find)(void *arg, const char *name); /* NULL: there is none */

    /* `arguments` is an object or NULL; not checked against the schema. Called again for the same
     * request when input that it asked for has come (mcp_request_inputs()). */
    void (*tool_call)(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments);

    /* A call of a tool that came after mcp_server_stop(): says so. NULL: an error of the layer. */
    void (*refuse)(struct mcp_request *r);

    /* Ends with mcp_answer() {contents} or mcp_answer_no_resource(). */
    void (*resource_read)(struct mcp_request *r, const char *uri);

    /* `arguments` is an object of strings or NULL. Ends with mcp_answer() {messages, …}. */
    void (*prompt_get)(struct mcp_request *r, const char *name, const cJSON *arguments);

    /* Ends with mcp_answer_completion(). */
    void (*complete)(struct mcp_request *r, const struct mcp_completion *what);

    /* Whether this principal may be told of changes of this resource. NULL: of all. */
    bool (*may_subscribe)(void *arg, const struct principal *principal, const char *uri);
};

#endif
