/*
 * list_files: the entries of a directory in the sandbox.
 *
 * File names may be any bytes; the names in the answer are UTF-8. If the agent's output is
 * malformed, the call fails.
 */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/text.h"
#include "proto/limits.h"
#include "supervisor/base/entries.h"
#include "supervisor/tools/args.h"
#include "supervisor/tools/tool.h"

#define TEXT_MAX_BYTES (4u << 20)

/* Largest size of the JSON around one entry, both in fields and as a line. */
#define ENTRY_OVERHEAD 320

struct listing {
    const char *base; /* the directory as the caller named it, "" for the workspace */
    cJSON *entries;
    struct buf text;
    size_t budget;
    bool full;
};

/* The path by which read_file finds the entry. */
static void full_path(struct buf *out, const char *base, struct view relative)
{
    if (base[0] != '\0') {
        text_printf(out, "%s%s", base, base[strlen(base) - 1] == '/' ? "" : "/");
    }
    text_add(out, relative, LIMIT_PATH * 3, false);
}

static void add_entry(struct listing *l, const struct msg_entry *e)
{
    CLEANUP_BUF struct buf path;
    buf_init(&path, TEXT_MAX_BYTES);
    full_path(&path, l->base, e->path);
    /* An escaped byte takes up to six; a path appears three times, including once as a name. */
    size_t worst = ENTRY_OVERHEAD + path.len * 3;
    for (size_t i = 0; i < path.len; i++) {
        worst += path.data[i] < 0x20 || path.data[i] == '"' || path.data[i] == '\\' ? 15 : 0;
    }
    if (worst > l->budget) {
        l->full = true;
        return;
    }
    l->budget -= worst;

    const char *whole = text_cstr(&path);
    const char *slash = strrchr(whole, '/');
    char mode[8];
    char iso[CLOCK_ISO_SIZE];
    snprintf(mode, sizeof(mode), "%04o", (unsigned)e->mode);
    clock_iso(e->mtime_ms, iso, sizeof(iso));
    cJSON *entry = cJSON_CreateObject();
    result_put_text(entry, "name", slash != NULL ? slash + 1 : whole);
    result_put_text(entry, "path", whole);
    result_put_text(entry, "type", file_type_name(e->type));
    result_put_uint(entry, "size", e->size);
    result_put_text(entry, "mode", mode);
    result_put_text(entry, "modified_at", iso);
    cJSON_AddItemToArray(l->entries, entry);
    text_printf(&l->text, "%-9s %s %10llu  %.19s  %s\n", file_type_name(e->type), mode,
                (unsigned long long)e->size, iso, whole);
}

static bool on_listed_entry(void *arg, const struct msg_entry *entry)
{
    struct listing *l = arg;
    add_entry(l, entry);
    return !l->full;
}

static void succeed_list_files(struct tool_call *call, const struct fleet_outcome *outcome)
{
    struct err err = ERR_INIT;
    struct result r;
    result_init(&r);
    const char *path = json_get_str(call->args, "path");
    struct listing l = {.base = path != NULL ? path : "", .budget = 2 * RESULT_TEXT_BYTES};
    buf_init(&l.text, TEXT_MAX_BYTES);
    result_put_text(r.structured, "sandbox_id", call->sandbox_id);
    result_put_text(r.structured, "path", path != NULL ? path : ".");
    l.entries = result_put_array(r.structured, "entries");
    int rc = entries_read(outcome->out, on_listed_entry, &l, &err);
    if (rc < 0) {
        result_set_failure(&r, rc, err.text, NULL);
    } else {
        bool cut = l.full || outcome->end->truncated || outcome->out_bytes > outcome->out.len;
        result_put_bool(r.structured, "truncated", cut);
        if (cut) {
            text_printf(&l.text, "[there are more entries; list a sub-directory]\n");
        }
        result_add_text(&r, l.text.len > 0 ? text_cstr(&l.text) : "[no files]");
    }
    buf_finish(&l.text);
    tool_finish(call, &r);
}

static void start_list_files(struct tool_call *call)
{
    const char *path = json_get_str(call->args, "path");
    struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = path != NULL ? path : ".",
        .length = LIMIT_ENTRIES,
        .flags = cJSON_IsTrue(json_get(call->args, "recursive")) ? OP_FLAG_RECURSIVE : 0,
        .keep_bytes = ENTRIES_KEEP_BYTES,
    };
    tool_run_file_op(call, &op, succeed_list_files);
}

static void run_list_files(struct tool_call *call)
{
    struct err err = ERR_INIT;
    const char *path = json_get_str(call->args, "path");
    int rc = path != NULL ? args_check_path(path, &err) : 0;
    if (rc < 0) {
        tool_fail(call, rc, err.text, NULL);
        return;
    }
    tool_with_sandbox_there(call, start_list_files);
}

/* clang-format off */
const struct tool tool_list_files = {
    .name = "list_files",
    .title = "List files",
    .description =
        "Lists a directory of the sandbox, by default the workspace, where code runs and relative paths start. "
        "Symbolic links are listed, not followed.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            @sandbox_there@,
            "path": {
                "type": "string", "minLength": 1, "maxLength": 4095,
                "description": "Directory: absolute, or relative to the workspace. Default: the workspace."
            },
            "recursive": {
                "type": "boolean", "default": false,
                "description": "List sub-directories too, down to the last."
            }
        },
        "additionalProperties": false
    }),
    .output_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "sandbox_id": {"type": "string"},
            "path": {"type": "string"},
            "entries": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "path": {"type": "string", "description": "To use with read_file."},
                        "type": {"type": "string", "enum": ["file", "directory", "symlink", "other"]},
                        "size": {"type": "integer", "description": "Bytes."},
                        "mode": {"type": "string", "description": "Permissions in octal."},
                        "modified_at": {"type": "string", "format": "date-time"}
                    },
                    "required": ["name", "path", "type", "size", "mode", "modified_at"]
                }
            },
            "truncated": {"type": "boolean", "description": "True if there are more entries than shown."}
        },
        "required": ["path", "entries", "truncated"]
    }),
    .read_only = true,
    .idempotent = true,
    .run = run_list_files,
};
/* clang-format on */
