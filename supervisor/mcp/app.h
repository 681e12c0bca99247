/*
 * What a server built on this protocol layer offers, as a table of functions and texts. Cloister is
 * one such application, the fixture of the conformance tests another.
 *
 * The layer knows JSON-RPC, the five revisions, sessions, tasks and streams, but not what methods
 * do; the application does not know revisions. The application writes values in the shape of the
 * latest revision, and the layer removes or rewrites what an older client does not know (shape.c).
 *
 * A handler gets a request (request.h) and ends it exactly once, at once or later. Its arguments
 * are borrowed and live as long as the request.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_APP_H
#define CLOISTER_SUPERVISOR_MCP_APP_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct mcp_request;
struct mcp_session;
struct principal;

/* The lists of the protocol. `offers` decides which of them exist. */
enum mcp_list {
    MCP_LIST_TOOLS,
    MCP_LIST_RESOURCES,
    MCP_LIST_TEMPLATES,
    MCP_LIST_PROMPTS,
    MCP_LIST_COUNT,
};

#define MCP_LIST_FORMS 4

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
    MCP_OFFER_VIEWS = 1 << 10, /* told to clients that show views only */
};

/* Whether a tool call may or must be a task, whose result the client fetches later. */
enum mcp_task_support { MCP_TASK_NEVER, MCP_TASK_OPTIONAL, MCP_TASK_REQUIRED };

struct mcp_tool {
    const char *name;
    const cJSON *input_schema; /* the layer checks its x-mcp-header members against HTTP headers */
    enum mcp_task_support tasks;
};

/* The parameters of completion/complete. */
struct mcp_completion {
    const char *prompt;     /* name of a prompt, or NULL */
    const char *uri;        /* URI of a template or resource, or NULL */
    const char *argument;   /* name of the argument */
    const char *value;      /* what the user has typed so far */
    const cJSON *arguments; /* values of other arguments, or NULL */
};

struct mcp_app {
    void *arg; /* first argument of the functions below that take one */
    const char *name, *title, *version, *description, *website;
    const char *icons;        /* JSON text of an array, or NULL */
    const char *instructions; /* for models, or NULL */
    unsigned offers;          /* enum mcp_offer, or-ed */
    /* with MCP_OFFER_LOGGING: from which level on clients of older revisions get messages before
     * they set one; NULL: none */
    const char *log_level;
    size_t calls_max; /* calls in flight of one client; more are refused. 0: LIMIT_CALLS */
    /* Lists that never change while the server runs. */
    bool fixed[MCP_LIST_COUNT];

    /* Lists that have several forms. Each client gets one form, and cached answers are kept
     * apart. */
    bool has_forms[MCP_LIST_COUNT];
    /* Returns the form of such a list for this request, below MCP_LIST_FORMS. With any other number
     * the answer is not cached. Needed only where has_forms is true. */
    unsigned (*list_form)(const struct mcp_request *r, enum mcp_list list);

    /* Makes the application's data of a session, mcp_request_session_data(). session_close() frees
     * it after the session's last request has ended. */
    void *(*session_open)(void *arg, struct mcp_session *session);
    void (*session_close)(void *arg, void *data);

    /* Called before session_close() if the client disconnected without ending the session; it may
     * come back for what it has begun. May be NULL. */
    void (*session_lost)(void *arg, void *data);

    /* Ends with mcp_answer_items() (all items; the layer makes pages) or mcp_answer_page().
     * `cursor` is NULL for the first page. Otherwise it should be one that the handler gave, but it
     * comes from the client: check it. */
    void (*list)(struct mcp_request *r, enum mcp_list list, const char *cursor);

    const struct mcp_tool *(*tool_find)(void *arg, const char *name); /* NULL: there is none */

    /* `arguments` is an object or NULL, not yet checked against the schema. Called again for the
     * same request when the input that it asked for has arrived (mcp_request_inputs()). */
    void (*tool_call)(struct mcp_request *r, const struct mcp_tool *tool, const cJSON *arguments);

    /* Refuses a tool call that arrived after mcp_server_stop(). NULL: the layer refuses it. */
    void (*refuse)(struct mcp_request *r);

    /* Ends with mcp_answer() {contents} or mcp_answer_no_resource(). */
    void (*resource_read)(struct mcp_request *r, const char *uri);

    /* `arguments` is an object of strings or NULL. Ends with mcp_answer() {messages, …}. */
    void (*prompt_get)(struct mcp_request *r, const char *name, const cJSON *arguments);

    /* Ends with mcp_answer_completion(). */
    void (*complete)(struct mcp_request *r, const struct mcp_completion *what);

    /* Whether this principal may subscribe to this resource. NULL: to all. */
    bool (*may_subscribe)(void *arg, const struct principal *principal, const char *uri);
};

#endif
