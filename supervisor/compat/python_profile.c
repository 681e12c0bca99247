/*
 * Code is written to a file in a directory of its own and run from there by python3. So calls share
 * nothing but files, as users of these servers expect; a traceback shows its lines; and nothing in
 * the code can break the script that runs it. The sandbox's workspace is /app/results itself, so
 * code finds there what it finds with them.
 *
 * A run that lasts longer than a call may wait goes on, and the answer says so in their shape.
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
#include "supervisor/base/config.h"
#include "supervisor/base/entries.h"
#include "supervisor/compat/runs.h"
#include "supervisor/compat/shlex.h"
#include "supervisor/tools/package.h"

/* Incomplete code must not run. The interrupt at a deadline must end the code, but not the cleanup
 * after it. With an argument, the first characters of the sandbox's id, files in the working
 * directory get names with it and the time, as the first generation names them. */
static const char run_code[] =
    "d=$(mktemp -d) || exit 1\n"
    "trap : INT\n"
    "if cat >\"$d/code.py\"; then\n"
    "  python3 \"$d/code.py\" </dev/null\n"
    "  r=$?\n"
    "else\n"
    "  r=1\n"
    "fi\n"
    "rm -rf \"$d\"\n"
    "if [ $# -gt 0 ]; then\n"
    "  t=$(date +%Y%m%d_%H%M%S)\n"
    "  for f in * .[!.]*; do\n"
    "    [ -f \"$f\" ] || continue\n"
    "    case $f in\n"
    "      *\"$1\"*) ;;\n"
    "      *.*) mv -n -- \"$f\" \"${f%.*}_$1_$t.${f##*.}\" 2>/dev/null ;;\n"
    "      *) mv -n -- \"$f\" \"${f}_$1_$t\" 2>/dev/null ;;\n"
    "    esac\n"
    "  done\n"
    "fi\n"
    "exit $r\n";

/* ---- sandboxes ------------------------------------------------------------------------------- */

void python_refuse(struct tool_call *call, const struct python_shape *shape, const char *message)
{
    cJSON *answer = cJSON_CreateObject();
    if (shape->first) {
        result_put_text(answer, "error", message);
    } else {
        result_put_bool(answer, "error", true);
        result_put_text(answer, "message", message);
    }
    reply_json(call, shape->style, answer);
}

static void refuse_missing(struct tool_call *call, const struct python_shape *shape)
{
    CLEANUP_FREE char *message = alloc_printf(
        "%s%s%s", shape->missing, json_get_str(call->args, shape->key), shape->missing_end);
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

struct creation {
    const struct python_shape *shape;
    python_opened_fn opened;
};

static void on_unwanted_env_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    const struct creation *creation = call->own;
    (void)rc, (void)err, (void)hint;
    python_refuse(call, creation->shape, "cancelled");
}

static void on_profile_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                            const char *hint)
{
    struct tool_call *call = arg;
    const struct creation *creation = call->own;
    (void)hint;
    if (rc < 0) {
        python_refuse(call, creation->shape, err->text);
    } else if (call->cancelled) { /* nobody learns the sandbox's id */
        fleet_close(call->session->fleet, info->id, on_unwanted_env_closed, call);
    } else {
        snprintf(call->sandbox_id, sizeof(call->sandbox_id), "%s", info->id);
        creation->opened(call, info->name);
    }
}

void python_create(struct tool_call *call, const struct python_shape *shape, const char *name,
                   python_opened_fn opened)
{
    struct creation *creation = alloc_one(struct creation);
    *creation = (struct creation){.shape = shape, .opened = opened};
    call->own = creation;
    call->own_free = free;
    const struct fleet_spec spec = {
        .name = name,
        .app_dir = true,
        .network = call->session->config->allow_network, /* theirs always have it */
        .progress = tool_tell,
    };
    tool_open(call->session, &spec, on_profile_open, call);
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct run {
    const struct python_shape *shape;
    bool code;     /* true: code; false: a command */
    cJSON *answer; /* waits for the list of files; else NULL */
    char *problem;
};

static void run_free(void *own)
{
    struct run *run = own;
    cJSON_Delete(run->answer);
    free(run->problem);
    free(run);
}

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

/* Ends the call, whose answer has its files or is not to have any. */
static void answer_run(struct tool_call *call)
{
    struct run *run = call->own;
    enum reply_style style = run->shape->style;
    if (run->problem != NULL) {
        result_put(run->answer, "error",
                   reply_bytes(style, view_of(run->problem), RESULT_MESSAGE_BYTES));
    }
    reply_json(call, style, STEAL_PTR(run->answer));
}

static void on_files_listed(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                            const char *hint)
{
    struct tool_call *call = arg;
    struct run *run = call->own;
    (void)err, (void)hint;
    call->running = NULL;
    bool listed = rc == 0 && o->end->status == OP_STATUS_OK;
    python_put_named(call, run->shape, listed ? o : NULL, run->answer);
    answer_run(call);
}

static void list_results(struct tool_call *call)
{
    const struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = ".",
        .length = LIMIT_ENTRIES,
        .keep_bytes = ENTRIES_KEEP_BYTES,
    };
    tool_run_op(call, &op, on_files_listed);
}

static void on_profile_outcome(void *arg, int rc, const struct fleet_outcome *o,
                               const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    struct run *run = call->own;
    const struct python_shape *shape = run->shape;
    (void)hint;
    runs_done(call);
    if (is_gone(rc)) {
        refuse_missing(call, shape);
        return;
    }
    run->problem = runs_trouble(rc, o, err);
    if (rc < 0 || o->end->status == OP_STATUS_FAILED) {
        answer_trouble(call, run, run->problem);
        return;
    }
    bool runs = o->state != OP_DONE;
    run->answer = cJSON_CreateObject();
    result_put(run->answer, "stdout", runs_stream(shape->style, o, false));
    result_put(run->answer, "stderr", runs_stream(shape->style, o, true));
    result_put(run->answer, "exit_code",
               runs ? cJSON_CreateNull() : cJSON_CreateNumber((double)exit_code_of(o)));
    if (run->code && shape->first && !runs && !call->cancelled) {
        list_results(call);
        return;
    }
    if (run->code) {
        python_put_changed(call, shape, o, run->answer);
    }
    answer_run(call);
}

/* Starts the code and answers when it has ended, as those servers do, or when a call may wait no
 * longer. */
static void begin_run(struct tool_call *call, const struct python_shape *shape, bool code,
                      struct fleet_op *op)
{
    struct run *run = alloc_one(struct run);
    *run = (struct run){.shape = shape, .code = code};
    call->own = run;
    call->own_free = run_free;
    op->kind = OP_RUN;
    op->path = "";
    op->keep_bytes = RESULT_KEEP_BYTES;
    runs_op(call, op, on_profile_outcome);
}

void python_execute(struct tool_call *call, const struct python_shape *shape)
{
    if (!python_find(call, shape)) {
        return;
    }
    char id[PYTHON_ID_CHARS + 1];
    snprintf(id, sizeof(id), "%.*s", PYTHON_ID_CHARS, call->sandbox_id);
    const struct view argv[] = {view_of("sh"), view_of("-c"), view_of(run_code), view_of("sh"),
                                view_of(id)};
    struct fleet_op op = {
        .args = {argv, shape->first ? 5 : 3},
        .has_stdin = true,
        .stdin_data = view_of(json_get_str(call->args, "code")),
    };
    begin_run(call, shape, true, &op);
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
        const struct run run = {.shape = shape};
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
