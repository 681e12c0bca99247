/*
 * Installations with the texts of the other servers: a call waits for five seconds and reports the
 * state; later calls report the end. Their users' prompts match these texts, so they are the same
 * to the letter.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/compat/python_profile.h"
#include "supervisor/packages/names.h"
#include "supervisor/packages/specifiers.h"
#include "supervisor/tools/package.h"

#define WAIT_MS      5000
#define STDERR_BYTES (64u << 10)

struct asking {
    const struct python_shape *shape;
};

static const char *package_of(const struct tool_call *call)
{
    return json_get_str(call->args, "package_name");
}

static void put_message(cJSON *answer, const char *before, const char *package, const char *behind)
{
    CLEANUP_FREE char *message = alloc_printf("%s%s%s", before, package, behind);
    result_put_text(answer, "message", message);
}

/* pip's own words say why, or ours if it said nothing. */
static void put_failure(struct tool_call *call, const struct python_shape *shape, cJSON *answer,
                        const char *message, struct view output)
{
    struct view words = output.len > 0 ? output : view_of(message);
    cJSON *text = reply_bytes(shape->style, words, STDERR_BYTES);
    if (shape->first) {
        CLEANUP_FREE char *said = alloc_printf(": %s", text->valuestring);
        put_message(answer, "Failed to install ", package_of(call), said);
    } else {
        put_message(answer, "Failed to install ", package_of(call), "");
    }
    result_put_bool(answer, "complete", true);
    result_put_bool(answer, "success", false);
    result_put(answer, "stderr", text);
}

/* The answer for an installation that has ended. */
static cJSON *ended(struct tool_call *call, const struct python_shape *shape,
                    const struct package_report *report)
{
    cJSON *answer = cJSON_CreateObject();
    if (report->state == PACKAGE_INSTALLED) {
        result_put_text(answer, "status", "success");
        put_message(answer, "Successfully installed ", package_of(call), "");
        result_put_bool(answer, "complete", true);
        result_put_bool(answer, "success", true);
    } else {
        result_put_text(answer, "status", "failed");
        put_failure(call, shape, answer, report->message != NULL ? report->message : "",
                    report->output);
    }
    result_put_time(answer, "end_time",
                    report->ended_wall_ms != 0 ? report->ended_wall_ms : clock_wall_ms());
    return answer;
}

static cJSON *in_progress(const char *before, const char *package, const char *behind)
{
    cJSON *answer = cJSON_CreateObject();
    result_put(answer, "success", cJSON_CreateNull());
    result_put_text(answer, "status", "installing");
    put_message(answer, before, package, behind);
    return answer;
}

/* ---- install --------------------------------------------------------------------------------- */

static void on_profile_installed(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    const struct asking *a = call->own;
    package_waited(call);
    if (report->state == PACKAGE_INSTALLING) {
        reply_json(call, a->shape->style,
                   in_progress("Installation of ", package_of(call),
                               " in progress. Use check_package_status to monitor progress."));
    } else {
        reply_json(call, a->shape->style, ended(call, a->shape, report));
    }
}

static void on_profile_looked(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    const struct asking *a = call->own;
    package_waited(call);
    if (report->state == PACKAGE_INSTALLING) {
        reply_json(call, a->shape->style,
                   in_progress("Package ", package_of(call), " installation already in progress"));
        return;
    }
    const struct package_choice choice = {
        .manager = PACKAGE_PIP, .requirements = {package_of(call)}, .count = 1};
    package_begin(call, &choice);
    package_await(call, WAIT_MS, on_profile_installed);
}

/* Looks up the package of the arguments. */
static void look(struct tool_call *call, const struct python_shape *shape, package_report_fn done)
{
    struct tool_session *s = call->session;
    struct asking *a = alloc_one(struct asking);
    a->shape = shape;
    call->own = a;
    call->own_free = free;
    CLEANUP_FREE char *name =
        alloc_viewdup(package_requirement_name(PACKAGE_PIP, package_of(call)));
    call->package_wait = packages_status(s->services->packages, s->owner, call->sandbox_id,
                                         PACKAGE_PIP, name, done, call);
}

void python_install(struct tool_call *call, const struct python_shape *shape)
{
    struct err err = ERR_INIT;
    if (!python_find(call, shape)) {
        return;
    }
    if (packages_check(PACKAGE_PIP, package_of(call), &err) < 0) {
        cJSON *answer = cJSON_CreateObject();
        result_put_text(answer, "status", "failed");
        put_failure(call, shape, answer, err.text, view_of(""));
        result_put_time(answer, "end_time", clock_wall_ms());
        reply_json(call, shape->style, answer);
        return;
    }
    look(call, shape, on_profile_looked);
}

/* ---- check ----------------------------------------------------------------------------------- */

static cJSON *still_installing(struct tool_call *call, const struct package_report *report)
{
    cJSON *answer = cJSON_CreateObject();
    uint64_t now_ms = clock_wall_ms();
    uint64_t begun_ms = report->begun_wall_ms != 0 ? report->begun_wall_ms : now_ms;
    result_put_text(answer, "status", "installing");
    result_put_time(answer, "start_time", begun_ms);
    put_message(answer, "Installation of ", package_of(call), " in progress");
    result_put_bool(answer, "complete", false);
    result_put(answer, "elapsed_seconds",
               reply_float((double)(now_ms > begun_ms ? now_ms - begun_ms : 0) / 1000.0));
    return answer;
}

static void on_waited(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    const struct asking *a = call->own;
    package_waited(call);
    reply_json(call, a->shape->style,
               report->state == PACKAGE_INSTALLING ? still_installing(call, report)
                                                   : ended(call, a->shape, report));
}

static void cannot_tell(struct tool_call *call, const struct python_shape *shape, const char *why)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "status", "error");
    put_message(answer, "Cannot tell: ", why, "");
    result_put_bool(answer, "complete", true);
    result_put_bool(answer, "success", false);
    reply_json(call, shape->style, answer);
}

static void not_found(struct tool_call *call, const struct python_shape *shape)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "status", "not_found");
    put_message(answer, "No installation record found for ", package_of(call), "");
    result_put_bool(answer, "complete", true);
    result_put_bool(answer, "success", false);
    reply_json(call, shape->style, answer);
}

/* The latest installation of the package, of which another version is there. */
static void on_record(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    const struct asking *a = call->own;
    bool same = false;
    package_waited(call);
    for (size_t i = 0; i < report->count; i++) {
        same |= strcmp(report->requirements[i], package_of(call)) == 0;
    }
    if (same && report->state == PACKAGE_FAILED) {
        reply_json(call, a->shape->style, ended(call, a->shape, report));
    } else {
        not_found(call, a->shape);
    }
}

static void on_known(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    const struct asking *a = call->own;
    package_waited(call);
    if (report->state == PACKAGE_INSTALLING) {
        strncpy(call->execution_id, report->id, sizeof(call->execution_id) - 1);
        package_await(call, WAIT_MS, on_waited);
        return;
    }
    bool recorded = report->id != NULL && report->id[0] != '\0';
    if (report->state == PACKAGE_INSTALLED &&
        !package_version_fits(package_of(call), view_of(report->packages[0].version))) {
        if (recorded) { /* if that failed, the older version stayed */
            strncpy(call->execution_id, report->id, sizeof(call->execution_id) - 1);
            package_await(call, 0, on_record);
        } else {
            not_found(call, a->shape);
        }
        return;
    }
    if (recorded && report->state != PACKAGE_NOT_INSTALLED) {
        reply_json(call, a->shape->style, ended(call, a->shape, report));
        return;
    }
    if (report->state == PACKAGE_FAILED) {
        cannot_tell(call, a->shape, report->message);
        return;
    }
    if (report->state != PACKAGE_INSTALLED) {
        not_found(call, a->shape);
        return;
    }
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "status", "success");
    put_message(answer, "Package ", package_of(call), " is already installed");
    result_put_bool(answer, "complete", true);
    result_put_bool(answer, "success", true);
    reply_json(call, a->shape->style, answer);
}

void python_check(struct tool_call *call, const struct python_shape *shape)
{
    struct err err = ERR_INIT;
    if (!python_find(call, shape)) {
        return;
    }
    if (packages_check(PACKAGE_PIP, package_of(call), &err) < 0) {
        cannot_tell(call, shape, err.text);
    } else {
        look(call, shape, on_known);
    }
}
