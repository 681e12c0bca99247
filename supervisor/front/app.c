/*
 * Turns requests into tool calls. A call borrows everything from its request, and ends it.
 *
 * The state that tools keep between calls is the default sandbox. On a pipe it belongs to the
 * principal, and the next server finds it again. An older client over HTTP has one of its own,
 * which ends with its session. Where each request is its own session, the calls of a principal
 * share one (owners.c). An option overrides this: one for everything that a principal does, or a
 * new one for each call, whose result has its id.
 *
 * The form of a call's result is chosen by the request, else by the client's URL, else by the
 * option, else by what is known of the client.
 *
 * A session may end while its default sandbox is being opened. The object that the fleet will call
 * back stays until then.
 */
#include "supervisor/front/app.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/text.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/base/result_form.h"
#include "supervisor/compat/profile.h"
#include "supervisor/front/owners.h"
#include "supervisor/front/seen.h"
#include "supervisor/front/tools.h"
#include "supervisor/mcp/app.h"
#include "supervisor/mcp/request.h"
#include "supervisor/mcp/session.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/resources/resources.h"
#include "supervisor/results/form.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/output.h"
#include "supervisor/tools/tool.h"
#include "supervisor/view/view.h"

static const char instructions[] =
    "Runs code in isolated sandboxes. Start with execute_code: without sandbox_id "
    "@default_sandbox@. Files and variables of a sandbox stay between calls, so work in small "
    "steps. Code that takes long goes on after the call has "
    "answered with status running: follow it with get_execution, stop it with cancel_execution. "
    "Put files in with write_file and get them out with read_file; relative paths start in the "
    "workspace, where code runs.@shares_about@ Files are resources, too: "
    "sandbox://SANDBOX_ID/workspace/NAME; "
    "output that was cut is whole at execution://EXECUTION_ID/stdout. Sandboxes have no network, "
    "but install_package installs packages of pip and npm into them. When a call fails, its hint "
    "says what to do next.";

/* With a profile, behind how its tools are used. Only what is true whichever of our own tools the
 * profile's take the names of. */
static const char beside[] =
    "When code takes longer than a call may wait, the answer says so: get_execution with its "
    "execution_id waits for the end, and cancel_execution stops it.";

/* The icon: a cell, a room with its own door. A URI has no spaces. */
#define ICON_SVG                                                                                   \
    "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%2024%2024'"   \
    "%20fill='none'%20stroke='%236b7280'%20stroke-width='2'%3E"                                    \
    "%3Cpath%20d='M4%2021V9a8%208%200%200%201%2016%200v12z'/%3E"                                   \
    "%3Cpath%20d='M9%2021v-7a3%203%200%200%201%206%200v7'/%3E%3C/svg%3E"

static const char icons[] =
    "[{\"src\":\"" ICON_SVG "\",\"mimeType\":\"image/svg+xml\",\"sizes\":[\"any\"]}]";

struct app {
    const struct config *config;
    struct fleet *fleet;
    struct tools *tools;
    struct tool_services services;
    struct mcp_app mcp;
    char *instructions;
    struct owners *owners;
    struct app_session *sessions;
    struct seen_sinks sinks;
};

struct app_session {
    struct tool_session tools; /* first, since the fleet's callbacks lead to it */
    struct app *app;
    struct principal *principal;
    char *name;       /* of the session, as mcp_session_name() */
    const char *kind; /* in a word, for the audit log */
    /* the state shared by its principal's calls; NULL before the first call, or if the session has
     * its own default sandbox */
    struct tool_session *shared;
    struct app_session *prev, *next;
    struct call *calls;
};

struct call {
    struct tool_call tool; /* first */
    struct mcp_request *request;
    struct app_session *session;
    cJSON *meant;          /* repaired arguments; NULL: as they came */
    enum result_form form; /* RESULT_FORM_AUTO: that of another server's tool */
    bool has_view;         /* the client shows people a view of the result */
    struct seen seen;
    struct call *prev, *next;
};

static char *make_instructions(const struct config *config, const struct languages *languages)
{
    CLEANUP_FREE char *used = profiles_instructions(config);
    return used[0] != '\0' ? alloc_printf("%s%s", used, beside)
                           : tools_text(instructions, config, languages);
}

/* ---- sessions ------------------------------------------------------------------------------- */

static void session_free(struct tool_session *tools)
{
    struct app_session *s = (struct app_session *)tools;
    if (s->prev != NULL) {
        s->prev->next = s->next;
    } else {
        s->app->sessions = s->next;
    }
    if (s->next != NULL) {
        s->next->prev = s->prev;
    }
    principal_release(s->principal);
    free(s->name);
    free(s);
}

/* Which sandbox is used by calls without sandbox_id. */
static enum tool_default default_of(const struct config *config, enum mcp_session_kind kind)
{
    const char *whose = config->default_sandbox;
    if (strcmp(whose, "call") == 0) {
        return TOOL_DEFAULT_FRESH;
    }
    if (strcmp(whose, "session") == 0) {
        return kind == MCP_SESSION_SINGLE ? TOOL_DEFAULT_FRESH : TOOL_DEFAULT_SESSION;
    }
    bool own = strcmp(whose, "auto") == 0 && kind == MCP_SESSION_LEGACY;
    return own ? TOOL_DEFAULT_SESSION : TOOL_DEFAULT_OWNER;
}

static struct tool_session *tools_of(struct app_session *s)
{
    if (s->tools.kind != TOOL_DEFAULT_OWNER) {
        return &s->tools;
    }
    if (s->shared == NULL) {
        s->shared = owners_hold(s->app->owners, s->principal);
    }
    return s->shared;
}

static const char *kind_word(enum mcp_session_kind kind)
{
    static const char *const words[] = {
        [MCP_SESSION_PIPE] = "stdio",
        [MCP_SESSION_LEGACY] = "session",
        [MCP_SESSION_SINGLE] = "request",
    };
    return words[kind];
}

static void *on_session_open(void *arg, struct mcp_session *session)
{
    struct app *a = arg;
    struct principal *principal = mcp_session_principal(session);
    struct app_session *s = alloc_one(struct app_session);
    s->app = a;
    s->principal = principal_hold(principal);
    tool_session_init(&s->tools, a->fleet, a->config, &a->services, s->principal,
                      default_of(a->config, mcp_session_kind(session)));
    s->name = alloc_strdup(mcp_session_name(session));
    s->tools.name = s->name;
    s->kind = kind_word(mcp_session_kind(session));
    s->tools.resumed = mcp_session_is_initialized(session);
    s->next = a->sessions;
    if (s->next != NULL) {
        s->next->prev = s;
    }
    a->sessions = s;
    return s;
}

static void call_free(struct call *c)
{
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        c->session->calls = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    tool_call_finish(&c->tool);
    cJSON_Delete(c->meant);
    free(c);
}

static void on_session_lost(void *arg, void *data)
{
    struct app_session *s = data;
    s->tools.lost = true;
}

static void on_session_close(void *arg, void *data)
{
    struct app_session *s = data;
    while (s->calls != NULL) {
        seen_lost(&s->calls->seen, &s->calls->tool);
        call_free(s->calls); /* the server is closed, so its calls will not end */
    }
    if (s->shared != NULL) {
        owners_let_go(STEAL_PTR(s->shared));
    }
    tool_session_end(&s->tools, session_free);
}

/* ---- forms of results ----------------------------------------------------------------------- */

/* False: the request asks for an unknown form. */
static bool form_of(const struct mcp_request *r, enum result_form *ret)
{
    const struct app *a = mcp_request_app(r);
    bool known = mcp_request_results(r, ret);
    if (*ret == RESULT_FORM_AUTO) {
        (void)result_form_parse(a->config->results, ret); /* config.c has checked the word */
    }
    if (*ret == RESULT_FORM_AUTO) {
        *ret = result_form_of_client(mcp_request_client(r));
    }
    return known;
}

static void answer_unknown_form(struct mcp_request *r)
{
    mcp_answer_error(r, JSONRPC_INVALID_PARAMS,
                     "Invalid params: _meta[\"" RESULT_FORM_META
                     "\"]: expected one of " RESULT_FORM_WORDS,
                     NULL);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static cJSON *result_json(struct result *r, enum result_form form, bool has_view)
{
    cJSON *result = cJSON_CreateObject();
    cJSON *left_out = result_set_form(r, form);
    bool is_long = form != RESULT_FORM_AUTO && result_is_long(r);
    cJSON_AddItemToObjectCS(result, "content", STEAL_PTR(r->content));
    if (r->structured != NULL) {
        cJSON_AddItemToObjectCS(result, "structuredContent", STEAL_PTR(r->structured));
    }
    if (r->is_error) {
        cJSON_AddItemToObjectCS(result, "isError", cJSON_CreateTrue());
    }
    if (is_long) {
        result_allow_long(result);
    }
    if (has_view && left_out != NULL) {
        result_add_view_fields(result, STEAL_PTR(left_out));
    }
    cJSON_Delete(left_out);
    return result;
}

static void answer_failure(struct mcp_request *r, int code, const char *message, const char *hint)
{
    struct result result;
    enum result_form form;
    (void)form_of(r, &form);
    result_init(&result);
    result_set_failure(&result, code, message, hint);
    mcp_answer(r, result_json(&result, form, false));
    result_finish(&result);
}

static void on_refuse(struct mcp_request *r)
{
    answer_failure(r, ERR_SHUTTING_DOWN, "the server is shutting down", NULL);
}

static void answer_bad_arguments(struct mcp_request *r, const char *tool, const char *problem)
{
    CLEANUP_FREE char *text = alloc_printf("Invalid arguments for %s: %s", tool, problem);
    if (revision_argument_errors_are_results(mcp_request_revision(r))) {
        answer_failure(r, ERR_INVALID, text,
                       "correct the arguments according to the tool's inputSchema");
    } else {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS, text, NULL);
    }
}

static void on_tool_done(struct tool_call *tool, struct result *result)
{
    struct call *c = (struct call *)tool;
    struct mcp_request *r = c->request;
    seen_end(&c->seen, tool, result);
    cJSON *json = result_json(result, c->form, c->has_view);
    call_free(c);
    mcp_answer(r, json);
}

static void on_tool_progress(struct tool_call *tool, const struct fleet_progress *progress)
{
    struct call *c = (struct call *)tool;
    mcp_progress(c->request, (double)progress->done, (double)progress->total, progress->text);
}

static void on_tool_log(struct tool_call *tool, const char *level, const char *text)
{
    struct call *c = (struct call *)tool;
    mcp_log(c->request, level, NULL, cJSON_CreateString(text));
}

static bool on_tool_output(struct tool_call *tool, const struct fleet_output *output)
{
    struct mcp_request *r = ((struct call *)tool)->request;
    if (!mcp_wants_progress(r)) {
        return !mcp_hears_progress(r); /* false: never again; true: not now */
    }
    CLEANUP_BUF struct buf message;
    buf_init(&message, 4 * OUTPUT_MESSAGE_BYTES);
    output_message(&message, output);
    mcp_progress(r, (double)(output->out_bytes + output->err_bytes), 0, text_cstr(&message));
    return true;
}

static enum tool_task on_task(struct tool_call *tool)
{
    const struct mcp_request *r = ((struct call *)tool)->request;
    if (mcp_is_task(r)) {
        return TOOL_TASK_IS;
    }
    return mcp_may_become_task(r) ? TOOL_TASK_MAY : TOOL_TASK_NO;
}

static void on_tell_task(struct tool_call *tool, const char *status)
{
    struct mcp_request *r = ((struct call *)tool)->request;
    if (mcp_is_task(r)) {
        mcp_task_status(r, status);
    } else {
        mcp_become_task(r, status);
    }
}

static void on_cancel(struct mcp_request *r)
{
    struct call *c = mcp_request_data(r);
    tool_cancel(&c->tool); /* this may end the call */
}

static void on_tool_call(struct mcp_request *r, const struct mcp_tool *mcp_tool,
                         const cJSON *arguments)
{
    const struct tool *tool = tools_tool(mcp_tool);
    struct err err = ERR_INIT;
    enum result_form form;
    if (!form_of(r, &form)) {
        answer_unknown_form(r);
        return;
    }
    cJSON *meant;
    struct app_session *s = mcp_request_session_data(r);
    struct seen_what what = {
        .sinks = &s->app->sinks,
        .meta = json_get(mcp_request_params(r), "_meta"),
        .principal = s->principal->name,
        .session = s->kind,
        .tool = mcp_tool->name,
        .compat = tool->output_schema == NULL,
        .args = arguments,
    };
    if (tools_read(mcp_tool, arguments, &meant, &err) < 0) {
        seen_invalid(&what);
        answer_bad_arguments(r, mcp_tool->name, err.text);
        return;
    }
    struct call *c = alloc_one(struct call);
    c->request = r;
    c->session = s;
    c->form = what.compat ? RESULT_FORM_AUTO : form;
    c->has_view = tool->has_view && mcp_client_shows_views(r);
    c->tool.session = tools_of(s);
    c->meant = meant;
    c->tool.args = meant != NULL ? meant : arguments;
    c->tool.done = on_tool_done;
    c->tool.progress = on_tool_progress;
    c->tool.log = on_tool_log;
    c->tool.output = mcp_hears_progress(r) ? on_tool_output : NULL;
    c->tool.task = on_task;
    c->tool.tell_task = on_tell_task;
    c->tool.begun_ms = clock_ms();
    what.args = c->tool.args;
    seen_begin(&c->seen, &what);
    c->next = s->calls;
    if (c->next != NULL) {
        c->next->prev = c;
    }
    s->calls = c;
    mcp_request_set_data(r, c);
    mcp_on_cancel(r, on_cancel);
    tool->run(&c->tool); /* this may end the call */
}

/* Code in a sandbox asks for packages by itself. */
static bool on_install(void *arg, const char *owner, const char *sandbox,
                       const struct msg_install *wish)
{
    const struct app *a = arg;
    return packages_wish(a->services.packages, owner, sandbox, wish);
}

/* ---- lists ---------------------------------------------------------------------------------- */

static const struct mcp_tool *on_tool_find(void *arg, const char *name)
{
    const struct app *a = arg;
    return tools_find(a->tools, name);
}

/* The list of tools has four forms: with and without output schemas, with and without views. */
static unsigned on_list_form(const struct mcp_request *r, enum mcp_list list)
{
    (void)list;
    enum result_form form;
    if (!form_of(r, &form)) {
        return MCP_LIST_FORMS;
    }
    return (form == RESULT_FORM_STRUCTURED ? 1u : 0u) + (mcp_client_shows_views(r) ? 2u : 0u);
}

static void on_list(struct mcp_request *r, enum mcp_list list, const char *cursor)
{
    const struct app *a = mcp_request_app(r);
    enum result_form form;
    if (list == MCP_LIST_TOOLS && !form_of(r, &form)) {
        answer_unknown_form(r);
    } else if (list == MCP_LIST_TOOLS) {
        cJSON *items = tools_list(a->tools, form);
        if (mcp_client_shows_views(r)) {
            tools_list_views(a->tools, items);
        }
        mcp_answer_items(r, items);
    } else if (list == MCP_LIST_TEMPLATES) {
        resources_templates(r);
    } else {
        assert(list == MCP_LIST_RESOURCES); /* no other list is offered */
        resources_list(a->fleet, r, cursor, mcp_client_shows_views(r) ? view_item() : NULL);
    }
}

static void on_resource_read(struct mcp_request *r, const char *uri)
{
    const struct app *a = mcp_request_app(r);
    if (strcmp(uri, VIEW_URI) == 0 && mcp_client_shows_views(r)) {
        view_answer(r);
    } else {
        resources_read(a->fleet, r, uri);
    }
}

static void on_complete(struct mcp_request *r, const struct mcp_completion *what)
{
    const struct app *a = mcp_request_app(r);
    resources_complete(a->fleet, r, what);
}

static bool on_may_subscribe(void *arg, const struct principal *principal, const char *uri)
{
    const struct app *a = arg;
    return resources_may_subscribe(a->fleet, principal, uri);
}

/* ---- life ----------------------------------------------------------------------------------- */

struct app *app_create(uv_loop_t *loop, const struct config *config,
                       const struct languages *languages, struct fleet *fleet, struct links *links)
{
    struct app *a = alloc_one(struct app);
    a->config = config;
    a->fleet = fleet;
    a->services.loop = loop;
    a->services.links = links;
    a->services.port_links = links;
    a->services.languages = languages;
    a->services.packages = packages_create(loop, fleet, config);
    fleet_on_install(fleet, on_install, a);
    a->owners = owners_create(fleet, config, &a->services);
    a->tools = tools_create(config, languages);
    a->instructions = make_instructions(config, languages);
    /* only the tools of that server send log messages */
    bool logs = config_lists(config->compat, "docker-interpreter");
    a->mcp = (struct mcp_app){
        .arg = a,
        .name = profiles_server_name(config),
        .title = "Cloister sandboxes",
        .version = CLOISTER_VERSION,
        .instructions = a->instructions,
        .description = "Runs code for language models in isolated sandboxes",
        .icons = icons,
        .offers = MCP_OFFER_TOOLS | MCP_OFFER_RESOURCES | MCP_OFFER_RESOURCES_CHANGED |
                  MCP_OFFER_SUBSCRIBE | MCP_OFFER_COMPLETIONS | MCP_OFFER_TASKS | MCP_OFFER_VIEWS |
                  (logs ? MCP_OFFER_LOGGING : 0),
        .log_level = logs ? "info" : NULL,
        .calls_max = config->max_calls,
        .fixed = {[MCP_LIST_TOOLS] = true, [MCP_LIST_TEMPLATES] = true},
        .has_forms = {[MCP_LIST_TOOLS] = true},
        .list_form = on_list_form,
        .session_open = on_session_open,
        .session_close = on_session_close,
        .session_lost = on_session_lost,
        .list = on_list,
        .tool_find = on_tool_find,
        .tool_call = on_tool_call,
        .resource_read = on_resource_read,
        .complete = on_complete,
        .may_subscribe = on_may_subscribe,
        .refuse = on_refuse,
    };
    return a;
}

void app_announce(struct app *a, struct mcp_server *server)
{
    resources_observe(a->fleet, server);
}

void app_measure(const struct app *a)
{
    packages_measure(a->services.packages);
    audit_measure(a->sinks.audit);
}

void app_set_audit(struct app *a, struct audit *audit)
{
    a->sinks.audit = audit;
}

void app_set_ports(struct app *a, struct links *links, int (*open)(void *arg, struct err *err),
                   void *arg)
{
    a->services.port_links = links;
    a->services.open_ports = open;
    a->services.ports_arg = arg;
}

void app_set_traces(struct app *a, struct traces *traces)
{
    a->sinks.traces = traces;
}

void app_stop(struct app *a)
{
    packages_stop(a->services.packages);
}

void app_close(struct app *a)
{
    fleet_on_install(a->fleet, NULL, NULL);
    packages_destroy(STEAL_PTR(a->services.packages));
}

void app_destroy(struct app *a)
{
    if (a == NULL) {
        return;
    }
    app_close(a);
    while (a->sessions != NULL) {
        session_free(&a->sessions->tools);
    }
    owners_destroy(a->owners);
    tools_destroy(a->tools);
    free(a->instructions);
    free(a);
}

const struct mcp_app *app_mcp(const struct app *a)
{
    return &a->mcp;
}
