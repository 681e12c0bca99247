/*
 * check_package_status: whether a sandbox has a package, either installed or from its image.
 */
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/packages/names.h"
#include "supervisor/tools/package.h"
#include "supervisor/tools/tool.h"

#define TEXT_MAX_BYTES 8192

static void on_package_status(void *arg, const struct package_report *report)
{
    struct tool_call *call = arg;
    struct result r;
    CLEANUP_BUF struct buf text;
    package_waited(call);
    result_init(&r);
    buf_init(&text, TEXT_MAX_BYTES);
    if (report->rc < 0 && report->state != PACKAGE_FAILED) { /* the state is unknown */
        package_failure(report, &r);
        tool_finish(call, &r);
        return;
    }
    const struct package *p = &report->packages[0];
    result_put_text(r.structured, "package_name", p->name);
    result_put_text(r.structured, "status", package_state_name(report->state));
    result_put_text(r.structured, "version", p->version);
    result_put_text(r.structured, "manager", package_manager_name(report->manager));
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    text_printf(&text, "%s%s%s: %s", p->name, p->version[0] != '\0' ? " " : "", p->version,
                package_state_name(report->state));
    if (report->id[0] != '\0') {
        result_put_text(r.structured, "execution_id", report->id);
    }
    if (report->state == PACKAGE_FAILED) {
        CLEANUP_BUF struct buf why;
        buf_init(&why, TEXT_MAX_BYTES);
        text_add(&why, view_of(report->message), TEXT_MAX_BYTES / 4, false);
        result_put_text(r.structured, "reason", text_cstr(&why));
        text_printf(&text, ", %s", text_cstr(&why));
    }
    result_add_text(&r, text_cstr(&text));
    tool_finish(call, &r);
}

static void start_check_package_status(struct tool_call *call)
{
    struct tool_session *s = call->session;
    const struct package_choice *choice = call->own;
    /* The name may have a version, as for an installation; the answer is about any version. */
    struct view name = package_requirement_name(choice->manager, choice->requirements[0]);
    char plain[PACKAGE_NAME_SIZE];
    snprintf(plain, sizeof(plain), "%.*s", VIEW_ARG(name));
    call->package_wait = packages_status(s->services->packages, s->owner, call->sandbox_id,
                                         choice->manager, plain, on_package_status, call);
}

static void run_check_package_status(struct tool_call *call)
{
    struct package_choice *choice;
    struct err err = ERR_INIT;
    int rc = package_choice_keep(call, &choice, &err);
    if (rc < 0) {
        tool_fail_fleet(call, rc, &err, NULL);
    } else {
        tool_with_sandbox_there(call, start_check_package_status);
    }
}

/* clang-format off */
const struct tool tool_check_package_status = {
    .name = "check_package_status",
    .title = "Check a package",
    .description =
        "Tells whether a sandbox has a package and which version, whether it was installed or is part of the image, "
        "or how its installation stands. Changes nothing.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "package_name": {
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "Name by which it is installed: scikit-learn, not sklearn."
            },
            @manager@,
            @sandbox_there@
        },
        "required": ["package_name"],
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "package_name": {"type": "string"},
            "status": {"type": "string", "enum": ["installed", "installing", "failed", "not_installed"]},
            "version": {"type": "string", "description": "Empty unless it is installed."},
            "manager": {"type": "string", "enum": ["pip", "npm"]},
            "sandbox_id": {"type": "string"},
            "execution_id": {"type": "string", "description": "Of its latest installation, if there was one."},
            "reason": {"type": "string", "description": "Why its installation failed."}
        },
        "required": ["package_name", "status", "version", "sandbox_id"]
    }),
    .read_only = true,
    .idempotent = true,
    .run = run_check_package_status,
};
/* clang-format on */
