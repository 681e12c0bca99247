/*
 * A call that installs waits like one that runs code: within the call's budget, or as a task. But
 * the end of the wait does not stop the installation: packages belong to the sandbox, and half a
 * download helps nobody.
 */
#include "supervisor/tools/package.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/base/config.h"
#include "supervisor/tools/args.h"

#define TEXT_MAX_BYTES (1u << 20)
#define OUTPUT_COST    (32u << 10) /* budget of the installer's output in a result */

/* ---- arguments ---- */

static int add_requirement(struct package_choice *choice, const char *requirement, struct err *err)
{
    int rc = packages_check(choice->manager, requirement, err);
    if (rc == 0) {
        choice->requirements[choice->count++] = requirement;
    }
    return rc;
}

int package_choice_read(const cJSON *args, struct package_choice *ret, struct err *err)
{
    struct package_choice choice = {.count = 0};
    const char *manager = json_get_str(args, "manager");
    const char *one = json_get_str(args, "package_name");
    const cJSON *many = json_get(args, "packages");
    const cJSON *item;
    choice.manager = manager != NULL && strcmp(manager, "npm") == 0 ? PACKAGE_NPM : PACKAGE_PIP;
    int rc = one != NULL ? add_requirement(&choice, one, err) : 0;
    cJSON_ArrayForEach(item, many)
    {
        if (rc == 0 && choice.count == PACKAGES_PER_CALL) {
            rc = err_set(err, ERR_INVALID, "packages: at most %d at a time", PACKAGES_PER_CALL);
        }
        if (rc == 0) {
            rc = add_requirement(&choice, item->valuestring, err);
        }
    }
    if (rc == 0) {
        *ret = choice;
    }
    return rc;
}

int package_choice_keep(struct tool_call *call, struct package_choice **ret, struct err *err)
{
    *ret = alloc_one(struct package_choice);
    call->own = *ret;
    call->own_free = free;
    return package_choice_read(call->args, *ret, err);
}

void package_begin(struct tool_call *call, const struct package_choice *choice)
{
    struct tool_session *s = call->session;
    packages_install(s->services->packages, s->owner, call->sandbox_id, choice->manager,
                     choice->requirements, choice->count, call->execution_id);
}

/* ---- waiting ---- */

void package_await(struct tool_call *call, uint64_t wait_ms, package_report_fn done)
{
    struct tool_session *s = call->session;
    call->package_wait =
        packages_await(s->services->packages, s->owner, call->execution_id, wait_ms, done, call);
    packages_await_progress(call->package_wait, tool_tell);
}

void package_waited(struct tool_call *call)
{
    call->package_wait = NULL;
}

static bool tell_package(struct tool_call *call)
{
    CLEANUP_FREE char *status =
        alloc_printf("installation %s in sandbox %s", call->execution_id, call->sandbox_id);
    return tool_is_task(call, status);
}

/* The moment at which the call may become a task. */
static void on_still_installing(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    const struct config *config = call->session->config;
    package_waited(call);
    if (report->state != PACKAGE_INSTALLING || call->cancelled) {
        call->package_done(call, report);
        return;
    }
    /* the loop's time lags behind */
    if (clock_ms() - call->begun_ms < config->task_after_s * 1000) {
        package_await_in_budget(call, call->package_done);
        return;
    }
    bool is_task = tell_package(call);
    package_await(call, is_task ? UINT64_MAX : tool_budget_left_ms(call), call->package_done);
}

void package_await_in_budget(struct tool_call *call, package_report_fn done)
{
    const struct config *config = call->session->config;
    uint64_t budget_ms = config->sync_budget_s * 1000;
    uint64_t after_ms = config->task_after_s * 1000;
    uint64_t passed_ms = clock_ms() - call->begun_ms;
    enum tool_task task = call->task != NULL ? call->task(call) : TOOL_TASK_NO;
    call->package_done = done;
    if (task == TOOL_TASK_IS) {
        (void)tell_package(call);
        package_await(call, UINT64_MAX, done);
    } else if (task == TOOL_TASK_MAY && after_ms < budget_ms) {
        package_await(call, passed_ms < after_ms ? after_ms - passed_ms : 0, on_still_installing);
    } else {
        package_await(call, tool_budget_left_ms(call), done);
    }
}

/* ---- results ---- */

const char *package_manager_name(enum package_manager manager)
{
    return manager == PACKAGE_NPM ? "npm" : "pip";
}

const char *package_state_name(enum package_state state)
{
    static const char *const names[] = {
        [PACKAGE_NOT_INSTALLED] = "not_installed",
        [PACKAGE_INSTALLING] = "installing",
        [PACKAGE_INSTALLED] = "installed",
        [PACKAGE_FAILED] = "failed",
    };
    return names[state];
}

void package_put_list(cJSON *object, const struct package_report *report)
{
    cJSON *rows = result_put_array(object, "packages");
    for (size_t i = 0; i < report->count; i++) {
        cJSON *row = cJSON_CreateObject();
        result_put_text(row, "name", report->packages[i].name);
        result_put_text(row, "version", report->packages[i].version);
        result_put_text(row, "status", package_state_name(report->packages[i].state));
        cJSON_AddItemToArray(rows, row);
    }
}

static void put_report(cJSON *object, const struct package_report *report, const char *output)
{
    result_put_text(object, "status", package_state_name(report->state));
    result_put_text(object, "manager", package_manager_name(report->manager));
    result_put_text(object, "sandbox_id", report->sandbox);
    result_put_text(object, "execution_id", report->id);
    package_put_list(object, report);
    result_put_text(object, "output", output);
}

void package_put_text(struct buf *text, const struct package_report *report)
{
    text_printf(text, "%s in sandbox %s:",
                report->state == PACKAGE_INSTALLED ? "Installed" : "Still installing",
                report->sandbox);
    for (size_t i = 0; i < report->count; i++) {
        const struct package *p = &report->packages[i];
        text_printf(text, "%s %s%s%s", i > 0 ? "," : "", p->name, p->version[0] != '\0' ? " " : "",
                    p->version);
    }
    if (report->state == PACKAGE_INSTALLING) {
        text_printf(text,
                    "\nIt goes on by itself: check_package_status tells when it is done, "
                    "get_execution waits for it (execution_id %s).",
                    report->id);
    }
}

void package_failure(const struct package_report *report, struct result *ret)
{
    result_set_failure(ret, report->rc, report->message, report->hint);
}

void package_result(const struct package_report *report, struct result *ret)
{
    CLEANUP_BUF struct buf output;
    CLEANUP_BUF struct buf text;
    buf_init(&output, TEXT_MAX_BYTES);
    buf_init(&text, TEXT_MAX_BYTES);
    text_add(&output, report->output, OUTPUT_COST, false);
    if (report->state == PACKAGE_FAILED) {
        package_failure(report, ret);
        if (output.len > 0) {
            result_add_text(ret, text_cstr(&output));
        }
    } else {
        package_put_text(&text, report);
        result_add_text(ret, text_cstr(&text));
    }
    put_report(ret->structured, report, text_cstr(&output));
}

/* ---- by id ---- */

/* Presents the installation as an execution. `ret` and `ret_end` borrow from the report, and
 * ret->end points to ret_end. */
static void make_outcome(const struct package_report *report, struct fleet_outcome *ret,
                         struct msg_output *ret_end)
{
    bool over = report->state != PACKAGE_INSTALLING;
    bool good = report->state == PACKAGE_INSTALLED;
    uint64_t until_ms = over ? report->ended_wall_ms : clock_wall_ms();
    uint64_t took_ms = until_ms > report->begun_wall_ms ? until_ms - report->begun_wall_ms : 0;
    *ret_end = (struct msg_output){.state = OP_RUNNING};
    if (over) {
        ret_end->state = OP_DONE;
        ret_end->status = good                ? OP_STATUS_OK
                          : report->cancelled ? OP_STATUS_CANCELLED
                                              : OP_STATUS_ERROR;
        ret_end->exit_code = good ? 0 : 1;
        ret_end->duration_us = took_ms * 1000;
        ret_end->error_name = view_of(good || report->cancelled ? "" : "InstallationFailed");
        ret_end->error_message = view_of(good ? "" : report->message);
    }
    struct view out = report->output;
    size_t whole = report->output_whole;
    bool all = report->said == whole;
    *ret = (struct fleet_outcome){
        .op = report->id,
        .sandbox = report->sandbox,
        .language = package_manager_name(report->manager),
        .state = over ? OP_DONE : OP_RUNNING,
        .out = all ? out : view_bytes(NULL, 0),
        .out_tail = all ? view_bytes(NULL, 0) : view_bytes(out.data + out.len - whole, whole),
        .out_bytes = report->said,
        .end = ret_end,
        .duration_us = took_ms * 1000,
        .started_wall_ms = report->begun_wall_ms,
    };
}

static void on_package_report(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    struct fleet_outcome outcome;
    struct msg_output end;
    package_waited(call);
    make_outcome(report, &outcome, &end);
    call->outcome(call, 0, &outcome, NULL, "");
}

void package_await_outcome(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done)
{
    call->outcome = done;
    package_await(call, wait_ms, on_package_report);
}
