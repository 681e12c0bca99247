/*
 * Code is written to a file in a directory of its own and run from there by python3. So calls share
 * nothing but files, as users of these servers expect; a traceback shows its lines; and nothing in
 * the code can break the script that runs it.
 *
 * These servers report failures in the answer: a missing sandbox as {"error": true}, and a failed
 * run as exit_code and "error" beside its output.
 */
#include "supervisor/compat/python_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/text.h"
#include "supervisor/compat/python_paths.h"
#include "supervisor/compat/runs.h"
#include "supervisor/compat/shlex.h"
#include "supervisor/links/links.h"
#include "supervisor/links/uri.h"
#include "supervisor/tools/package.h"

#define TEXT_MAX_BYTES (2u << 20)
#define FILES_MAX      100
#define FILES_COST     (300u << 10) /* beside both streams */
#define COST_EACH      7            /* escaped twice, a byte costs at most this */

/* Incomplete code must not run. The interrupt at a deadline must end the code, but not the cleanup
 * after it. */
static const char run_code[] = "d=$(mktemp -d) || exit 1\n"
                               "trap : INT\n"
                               "if cat >\"$d/code.py\"; then\n"
                               "  python3 \"$d/code.py\" </dev/null\n"
                               "  r=$?\n"
                               "else\n"
                               "  r=1\n"
                               "fi\n"
                               "rm -rf \"$d\"\n"
                               "exit $r\n";

/* ---- sandboxes ------------------------------------------------------------------------------- */

void python_refuse(struct tool_call *call, const struct python_shape *shape, const char *message)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_bool(answer, "error", true);
    result_put_text(answer, "message", message);
    reply_json(call, shape->style, answer);
}

static void refuse_missing(struct tool_call *call, const struct python_shape *shape)
{
    CLEANUP_FREE char *message =
        alloc_printf("%s%s", shape->missing, json_get_str(call->args, shape->key));
    python_refuse(call, shape, message);
}

bool python_find(struct tool_call *call, const struct python_shape *shape)
{
    struct tool_session *s = call->session;
    const char *id;
    if (fleet_find(s->fleet, s->owner, json_get_str(call->args, shape->key), &id, NULL) < 0) {
        refuse_missing(call, shape);
        return false;
    }
    snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", id);
    return true;
}

static bool is_gone(int rc)
{
    return rc == -ERR_GONE || rc == -ERR_SANDBOX_NOT_FOUND;
}

/* ---- creation -------------------------------------------------------------------------------- */

/*   open ──▶ link /app/results to the workspace ──▶ answer
 *
 * The link lets code use that directory. If it cannot be made, because the image has no program for
 * that, paths in arguments and answers are translated all the same. */
struct creation {
    const struct python_shape *shape;
    python_opened_fn opened;
    char *name;
};

static void creation_free(void *own)
{
    struct creation *creation = own;
    free(creation->name);
    free(creation);
}

static void on_unwanted_env_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    const struct creation *creation = call->own;
    (void)rc, (void)err, (void)hint;
    python_refuse(call, creation->shape, "cancelled");
}

static void on_linked(void *arg, int rc, const struct fleet_outcome *outcome, const struct err *err,
                      const char *hint)
{
    struct tool_call *call = arg;
    const struct creation *creation = call->own;
    (void)hint;
    call->running = NULL;
    if (rc < 0 || outcome->end->status != OP_STATUS_OK || outcome->end->exit_code != 0) {
        log_debug("sandbox %s has no %s: %s", call->sandbox_id, PYTHON_RESULTS,
                  rc < 0 ? err->text : "the link could not be made");
    }
    creation->opened(call, creation->name);
}

static void on_profile_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                            const char *hint)
{
    struct tool_call *call = arg;
    struct creation *creation = call->own;
    (void)hint;
    if (rc < 0) {
        python_refuse(call, creation->shape, err->text);
    } else if (call->cancelled) { /* nobody learns the sandbox's id */
        fleet_close(call->session->fleet, info->id, on_unwanted_env_closed, call);
    } else {
        const struct view argv[] = {view_of("ln"), view_of("-s"), view_of(info->workspace),
                                    view_of(PYTHON_RESULTS)};
        const struct fleet_op op = {.kind = OP_RUN, .path = "", .args = {argv, 4}};
        snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", info->id);
        creation->name = alloc_strdup(info->name);
        tool_run_op(call, &op, on_linked);
    }
}

void python_create(struct tool_call *call, const struct python_shape *shape, const char *name,
                   python_opened_fn opened)
{
    struct creation *creation = alloc_one(struct creation);
    *creation = (struct creation){.shape = shape, .opened = opened};
    call->own = creation;
    call->own_free = creation_free;
    const struct fleet_spec spec = {.name = name, .app_dir = true, .progress = tool_tell};
    tool_open(call->session, &spec, on_profile_open, call);
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct run {
    const struct python_shape *shape;
    bool code; /* true: code; false: a command */
};

static int64_t exit_code_of(const struct fleet_outcome *o)
{
    switch (o->end->status) {
    case OP_STATUS_OK:
    case OP_STATUS_ERROR:
        return o->end->exit_code;
    case OP_STATUS_TIMEOUT:
        return 124;
    case OP_STATUS_CANCELLED:
        return 130;
    case OP_STATUS_MEMORY:
        return 137;
    default:
        return o->end->exit_code != 0 ? o->end->exit_code : 1;
    }
}

/* Returns why the run did not end by itself; NULL: it did. The caller frees it. */
static char *problem_of(const struct fleet_outcome *o)
{
    struct view said = o->end->error_message;
    switch (o->end->status) {
    case OP_STATUS_OK:
    case OP_STATUS_ERROR:
        return NULL;
    case OP_STATUS_TIMEOUT:
        return alloc_printf("stopped after %.0f seconds, its time limit",
                            (double)o->duration_us / 1e6);
    case OP_STATUS_MEMORY:
        return alloc_strdup("killed: it used more memory than the sandbox has");
    default:
        return said.len > 0 ? alloc_viewdup(said) : alloc_strdup(op_status_name(o->end->status));
    }
}

/* The link to a file: over HTTP one that a browser can follow, else its resource. */
static char *link_of(struct tool_call *call, const struct python_shape *shape, const char *shown)
{
    struct tool_session *s = call->session;
    char *url = links_make_foreign(s->services->links, shape->key, call->sandbox_id, shown);
    return url != NULL ? url
                       : uri_of_file(call->sandbox_id, fleet_workspace(s->fleet, call->sandbox_id),
                                     view_of(python_path_inside(shown)));
}

static void put_files(struct tool_call *call, const struct python_shape *shape,
                      const struct fleet_outcome *o, cJSON *answer)
{
    cJSON *files = result_put_array(answer, "files");
    cJSON *links = result_put_array(answer, "file_links");
    size_t left = FILES_COST;
    size_t i = 0;
    for (; i < o->file_count && i < FILES_MAX; i++) {
        CLEANUP_BUF struct buf path;
        buf_init(&path, TEXT_MAX_BYTES);
        text_printf(&path, "%s/", PYTHON_RESULTS);
        text_add(&path, o->files[i].path, LIMIT_PATH, false);
        const char *shown = text_cstr(&path);
        CLEANUP_FREE char *link = link_of(call, shape, shown);
        size_t cost = COST_EACH * strlen(shown) + (link != NULL ? strlen(link) : 0);
        if (cost > left) {
            break;
        }
        left -= cost;
        cJSON_AddItemToArray(files, cJSON_CreateString(shown));
        if (link != NULL) {
            cJSON_AddItemToArray(links, cJSON_CreateString(link));
        }
    }
    if (i < o->file_count || o->files_more) { /* a partial list must say so */
        result_put_bool(answer, "files_truncated", true);
    }
}

static void answer_trouble(struct tool_call *call, const struct run *run, const char *message)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "stdout", "");
    result_put_text(answer, "stderr", run->code ? "" : message);
    result_put_int(answer, "exit_code", run->code ? 1 : -1);
    if (run->code) {
        result_put_array(answer, "files");
        result_put_array(answer, "file_links");
        result_put_text(answer, "error", message);
    }
    reply_json(call, run->shape->style, answer);
}

static void on_profile_outcome(void *arg, int rc, const struct fleet_outcome *o,
                               const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    const struct run *run = call->own;
    const struct python_shape *shape = run->shape;
    (void)hint;
    call->await = NULL;
    if (is_gone(rc)) {
        refuse_missing(call, shape);
        return;
    }
    CLEANUP_FREE char *problem = rc < 0 ? alloc_strdup(err->text) : problem_of(o);
    if (rc < 0 || o->end->status == OP_STATUS_FAILED) {
        answer_trouble(call, run, problem);
        return;
    }
    cJSON *answer = cJSON_CreateObject();
    result_put(answer, "stdout", runs_stream(shape->style, o, false));
    result_put(answer, "stderr", runs_stream(shape->style, o, true));
    result_put_int(answer, "exit_code", exit_code_of(o));
    if (run->code) {
        put_files(call, shape, o, answer);
    }
    if (problem != NULL) {
        result_put(answer, "error", reply_bytes(shape->style, view_of(problem), LIMIT_TEXT));
    }
    reply_json(call, shape->style, answer);
}

/* Starts the code and answers when it has ended, as those servers do; only its own deadline bounds
 * that. */
static void begin_run(struct tool_call *call, const struct python_shape *shape, bool code,
                      struct fleet_op *op)
{
    struct tool_session *s = call->session;
    struct run *run = alloc_one(struct run);
    *run = (struct run){shape, code};
    call->own = run;
    call->own_free = free;
    op->kind = OP_RUN;
    op->path = "";
    op->keep_bytes = RESULT_KEEP_BYTES;
    fleet_execute(s->fleet, s->owner, call->sandbox_id, op, call->execution_id);
    call->stops = true;
    tool_await(call, FLEET_WAIT_FOR_EVER, on_profile_outcome);
}

void python_execute(struct tool_call *call, const struct python_shape *shape)
{
    const struct view argv[] = {view_of("sh"), view_of("-c"), view_of(run_code)};
    struct fleet_op op = {
        .args = {argv, 3},
        .has_stdin = true,
        .stdin_data = view_of(json_get_str(call->args, "code")),
    };
    if (python_find(call, shape)) {
        begin_run(call, shape, true, &op);
    }
}

void python_terminal(struct tool_call *call, const struct python_shape *shape)
{
    struct shlex *words = NULL;
    struct err err = ERR_INIT;
    if (!python_find(call, shape)) {
        return;
    }
    words = alloc_one(struct shlex);
    int rc = shlex_split(json_get_str(call->args, "command"), words, &err);
    if (rc == 0 && words->count == 0) {
        rc = err_set(&err, ERR_INVALID, "the command is empty");
    }
    if (rc < 0) {
        const struct run run = {shape, false};
        answer_trouble(call, &run, err.text);
    } else {
        struct fleet_op op = {.args = {words->items, words->count}};
        begin_run(call, shape, false, &op);
    }
    shlex_finish(words);
    free(words);
}

/* ---- lists ----------------------------------------------------------------------------------- */

struct listing {
    const struct python_shape *shape;
    cJSON *(*describe)(const struct fleet_info *info);
    cJSON *items;
    char (*ids)[FLEET_ID_SIZE];
    size_t count, at;
};

static void listing_free(void *own)
{
    struct listing *l = own;
    cJSON_Delete(l->items);
    free(l->ids);
    free(l);
}

static void each_sandbox(void *arg, const struct fleet_info *info)
{
    struct listing *l = arg;
    if (runs_has_ended(info)) {
        return; /* calls with its id are refused, too */
    }
    l->ids = alloc_check(realloc(l->ids, (l->count + 1) * sizeof(l->ids[0])));
    snprintf(l->ids[l->count++], sizeof(l->ids[0]), "%s", info->id);
    cJSON_AddItemToArray(l->items, l->describe(info));
}

static void list_next(struct tool_call *call);

static void on_profile_packages(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    struct listing *l = call->own;
    package_waited(call);
    cJSON *item = cJSON_GetArrayItem(l->items, (int)l->at++);
    cJSON *list = result_put_array(item, "installed_packages");
    for (size_t i = 0; i < report->count; i++) {
        cJSON *package = cJSON_CreateObject();
        result_put_text(package, "name", report->packages[i].name);
        result_put_text(package, "version", report->packages[i].version);
        cJSON_AddItemToArray(list, package);
    }
    list_next(call);
}

static void list_next(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct listing *l = call->own;
    if (l->at < l->count && !call->cancelled) {
        call->package_wait = packages_list(s->services->packages, s->owner, l->ids[l->at],
                                           on_profile_packages, call);
    } else if (l->count == 0) {
        struct result r;
        reply_set_text(&r, "");
        /* those servers answer with no content at all */
        cJSON_Delete(cJSON_DetachItemFromArray(r.content, 0));
        tool_finish(call, &r);
    } else {
        reply_json(call, l->shape->style, STEAL_PTR(l->items));
    }
}

void python_list(struct tool_call *call, const struct python_shape *shape,
                 cJSON *(*describe)(const struct fleet_info *info))
{
    struct listing *l = alloc_one(struct listing);
    l->shape = shape;
    l->describe = describe;
    l->items = cJSON_CreateArray();
    call->own = l;
    call->own_free = listing_free;
    fleet_list(call->session->fleet, call->session->owner, each_sandbox, l);
    list_next(call);
}
