/*
 * get_sandbox_status: one sandbox with its usage, or all sandboxes of the caller. It does not
 * create the default sandbox.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/base/config.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/tools/tool.h"

#define TEXT_MAX_BYTES (2u << 20)
#define LISTED_MAX     200 /* keeps the result below 1 MiB; nobody reads more */
#define RECENT_MAX     20

struct recent {
    cJSON *list;
    struct buf *text;
    int count;
};

static void on_recent(void *arg, const struct fleet_outcome *outcome)
{
    struct recent *recent = arg;
    if (++recent->count > RECENT_MAX) {
        return;
    }
    cJSON *row = sandbox_json_execution(outcome);
    text_printf(recent->text, "%s%s %s", recent->count == 1 ? "\nLatest executions: " : ", ",
                json_get_str(row, "execution_id"), json_get_str(row, "status"));
    cJSON_AddItemToArray(recent->list, row);
}

static void on_sandbox_status(void *arg, int rc, const struct fleet_info *info,
                              const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint);
        return;
    }
    struct result r;
    CLEANUP_BUF struct buf text;
    buf_init(&text, TEXT_MAX_BYTES);
    result_init(&r);
    sandbox_json_put_status(r.structured, info);
    sandbox_json_text(&text, r.structured);
    if (info->has_usage) {
        text_printf(&text,
                    "\nIn use: memory %.1f MiB, CPU time %.1f s, %.0f processes, disk %.1f MiB",
                    (double)info->memory_bytes / 1048576.0, (double)info->cpu_us / 1e6,
                    (double)info->processes, (double)info->disk_bytes / 1048576.0);
    }
    struct recent recent = {result_put_array(r.structured, "executions_recent"), &text, 0};
    const struct tool_session *s = call->session;
    fleet_executions(s->fleet, s->owner, call->sandbox_id, on_recent, &recent);
    result_add_text(&r, text_cstr(&text));
    tool_finish(call, &r);
}

static void status_of_one(struct tool_call *call)
{
    fleet_status(call->session->fleet, call->sandbox_id, on_sandbox_status, call);
}

struct listing {
    cJSON *sandboxes;
    struct buf text;
    int count;
};

static void on_listed_info(void *arg, const struct fleet_info *info)
{
    struct listing *l = arg;
    if (strcmp(info->state, "closing") == 0 || strcmp(info->state, "closed") == 0) {
        return; /* closed for the client; only our cleanup is left */
    }
    if (++l->count > LISTED_MAX) {
        return;
    }
    cJSON *one = cJSON_CreateObject();
    sandbox_json_put_status(one, info);
    text_printf(&l->text, "\n%s%s%s: %s", info->id, info->name[0] != '\0' ? " " : "", info->name,
                info->state);
    cJSON_AddItemToArray(l->sandboxes, one);
}

/* How often it was used tells of all principals together, and so is shown only where there are no
 * others. */
static void put_pool(struct result *r, struct fleet *fleet)
{
    const struct fleet_pool pool = fleet_pool(fleet);
    if (pool.size == 0) {
        return;
    }
    cJSON *object = result_put_object(r->structured, "pool");
    result_put_uint(object, "size", pool.size);
    result_put_uint(object, "ready", pool.ready);
    if (!fleet_is_shared(fleet)) {
        result_put_uint(object, "hits", pool.hits);
        result_put_uint(object, "misses", pool.misses);
    }
}

static void status_of_all(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct result r;
    result_init(&r);
    struct listing l = {.sandboxes = result_put_array(r.structured, "sandboxes"), .count = 0};
    buf_init(&l.text, TEXT_MAX_BYTES);
    fleet_list(s->fleet, s->owner, on_listed_info, &l);
    result_put_int(r.structured, "count", l.count);
    const char *backend = json_get_str(l.sandboxes->child, "backend");
    result_put_text(r.structured, "backend", backend != NULL ? backend : s->config->backend);
    put_pool(&r, s->fleet);
    CLEANUP_FREE char *text = alloc_printf("%d sandbox%s%s%s", l.count, l.count == 1 ? "" : "es",
                                           l.count > 0 ? ":" : "", text_cstr(&l.text));
    result_add_text(&r, text);
    buf_finish(&l.text);
    tool_finish(call, &r);
}

static void run_get_sandbox_status(struct tool_call *call)
{
    if (json_get(call->args, "sandbox_id") == NULL) {
        status_of_all(call);
    } else {
        tool_with_sandbox(call, status_of_one);
    }
}

/* clang-format off */
const struct tool tool_get_sandbox_status = {
    .name = "get_sandbox_status",
    .title = "Get sandbox status",
    .description =
        "With sandbox_id: state, limits, resource usage, worker and latest executions of that sandbox. Without: "
        "a list of all your sandboxes.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {
                "type": "string", "minLength": 1, "maxLength": 64,
                "description": "A sandbox_id or a name. Default: all your sandboxes."
            }
        },
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @status_properties@,
            "executions_recent": {
                "type": "array",
                "description": "The latest executions of the sandbox (at most 20), latest first, for get_execution.",
                "items": {
                    "type": "object",
                    "properties": {
                        "execution_id": {"type": "string"},
                        "status": {"type": "string", "description": "queued, running, or how it ended."},
                        "language": {"type": "string"},
                        "started_at": {"type": "string", "format": "date-time"},
                        "duration_ms": {"type": "number"}
                    }
                }
            },
            "sandboxes": {"type": "array", "items": {"type": "object", "properties": {@status_properties@}}},
            "count": {"type": "integer"},
            "pool": {
                "type": "object",
                "description": "Sandboxes made in advance, so that a new one is there at once.",
                "properties": {
                    "size": {"type": "integer"},
                    "ready": {"type": "integer"},
                    "hits": {"type": "integer", "description": "New sandboxes that came out of the pool."},
                    "misses": {"type": "integer"}
                },
                "required": ["size", "ready"]
            }
        },
        "required": ["backend"]
    }),
    .read_only = true,
    .idempotent = true,
    .run = run_get_sandbox_status,
};
/* clang-format on */
