/*
 * Completion of what a person types into a template: ids and names of sandboxes, ids of executions,
 * the two streams, and paths, one directory at a time.
 *
 * All values are the caller's own. An unknown sandbox, or one that cannot answer, has no
 * completions. That is no error here, since reading the resource will report it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/str.h"
#include "supervisor/base/entries.h"
#include "supervisor/links/uri.h"
#include "supervisor/mcp/app.h"
#include "supervisor/mcp/wire/jsonrpc.h"
#include "supervisor/resources/job.h"
#include "supervisor/resources/resources.h"
#include "supervisor/resources/templates.h"

#define VALUES_MAX 100 /* the protocol allows no more; the rest is counted */

struct completing {
    struct job job;
    cJSON *values;
    int64_t total;
    char *typed;
    size_t directory; /* bytes of it that name the directory, including the slash */
};

static void add_completion(struct completing *c, const char *value)
{
    if (strncmp(value, c->typed, strlen(c->typed)) != 0) {
        return;
    }
    if (c->total++ < VALUES_MAX) {
        cJSON_AddItemToArray(c->values, cJSON_CreateString(value));
    }
}

static void finish_completing(struct completing *c)
{
    mcp_answer_completion(c->job.request, c->values, c->total);
    free(c->typed);
    free(c);
}

/* ---- ids ---- */

static void on_completed_sandbox(void *arg, const struct fleet_info *info)
{
    struct completing *c = arg;
    if (strcmp(info->state, "closing") == 0 || strcmp(info->state, "failed") == 0) {
        return;
    }
    if (info->name[0] != '\0') {
        add_completion(c, info->name);
    }
    add_completion(c, info->id);
}

static void on_completed_execution(void *arg, const struct fleet_outcome *outcome)
{
    add_completion(arg, outcome->op);
}

static void on_executions_of(void *arg, const struct fleet_info *info)
{
    struct completing *c = arg;
    fleet_executions(c->job.fleet, c->job.owner, info->id, on_completed_execution, c);
}

/* ---- paths ---- */

static bool on_completed_entry(void *arg, const struct msg_entry *e)
{
    struct completing *c = arg;
    if (utf8_valid(e->path.data, e->path.len)) {
        CLEANUP_FREE char *value =
            alloc_printf("%.*s%.*s%s", (int)c->directory, c->typed, VIEW_ARG(e->path),
                         e->type == FILE_TYPE_DIRECTORY ? "/" : "");
        add_completion(c, value);
    }
    return true;
}

static void on_completed_listing(void *arg, int rc, const struct fleet_outcome *outcome,
                                 const struct err *err, const char *hint)
{
    struct completing *c = arg;
    struct err bad = ERR_INIT;
    (void)err, (void)hint;
    c->job.call = NULL;
    if (job_is_well(rc, outcome) && entries_read(outcome->out, on_completed_entry, c, &bad) < 0) {
        log_warn("completion: %s sandbox=%s", bad.text, c->job.sandbox);
    }
    finish_completing(c);
}

static void complete_path(struct completing *c, const char *sandbox)
{
    const char *slash = strrchr(c->typed, '/');
    c->directory = slash != NULL ? (size_t)(slash - c->typed) + 1 : 0;
    CLEANUP_FREE char *uri = uri_of_file("x", "/", view_bytes(c->typed, c->directory));
    struct uri named;
    if (sandbox == NULL || uri == NULL || !uri_parse(uri, &named) || !job_find(&c->job, sandbox)) {
        finish_completing(c);
        return;
    }
    const struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = named.path,
        .length = LIMIT_ENTRIES,
        .keep_bytes = ENTRIES_KEEP_BYTES,
        .is_look = true,
    };
    job_run(&c->job, &op, on_completed_listing, c);
}

/* ---- routing --------------------------------------------------------------------------------- */

void resources_complete(struct fleet *f, struct mcp_request *r, const struct mcp_completion *what)
{
    const char *uri = what->uri != NULL ? what->uri : "";
    bool of_file = strcmp(uri, TEMPLATE_FILE) == 0;
    bool of_stream = strcmp(uri, TEMPLATE_STREAM) == 0;
    if (!of_file && !of_stream) {
        mcp_answer_error(r, JSONRPC_INVALID_PARAMS,
                         "ref: only the templates of resources/templates/list have arguments that "
                         "can be completed",
                         NULL);
        return;
    }
    struct completing *c = alloc_one(struct completing);
    job_init(&c->job, f, r);
    c->values = cJSON_CreateArray();
    c->typed = alloc_strdup(what->value);
    if (of_file && strcmp(what->argument, "path") == 0) {
        complete_path(c, json_get_str(what->arguments, "sandbox_id"));
        return;
    }
    if (of_file && strcmp(what->argument, "sandbox_id") == 0) {
        fleet_list(f, c->job.owner, on_completed_sandbox, c);
    } else if (of_stream && strcmp(what->argument, "execution_id") == 0) {
        fleet_list(f, c->job.owner, on_executions_of, c);
    } else if (of_stream && strcmp(what->argument, "stream") == 0) {
        add_completion(c, "stdout");
        add_completion(c, "stderr");
    }
    finish_completing(c);
}
