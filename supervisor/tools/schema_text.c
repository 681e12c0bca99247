/*
 * Clients see the texts of the tool tables, with two transformations. A name between two @ is
 * replaced by a figure of this server's configuration, so that the limits in a description are the
 * enforced ones, or by a piece that several tools share. And adjacent strings are joined, as in C,
 * so that descriptions can be wrapped; JSON itself never has two strings side by side.
 */
#include "supervisor/tools/schema_text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/backends.h"
#include "common/str.h"
#include "proto/limits.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/base/local/file.h"
#include "supervisor/base/share.h"
#include "supervisor/languages/languages.h"
#include "supervisor/results/result.h"
#include "supervisor/tools/tool.h"

#define NAME_MAX_BYTES 32

/* clang-format off */
static const struct {
    const char *name;
    const char *text;
} pieces[] = {
    {"sandbox_id", JSON_TEXT(
        "sandbox_id": {
            "type": "string", "minLength": 1, "maxLength": 64,
            "description": "Its id or name. Without it @default_sandbox@."
        })},
    {"sandbox_there", JSON_TEXT(
        "sandbox_id": {
            "type": "string", "minLength": 1, "maxLength": 64,
            "description": "Its id or name. @default_sandbox_there@"
        })},
    {"execution_id", JSON_TEXT(
        "execution_id": {
            "type": "string", "minLength": 1, "maxLength": 64,
            "description": "Of a result, or of get_sandbox_status."
        })},
    {"timeout", JSON_TEXT(
        "timeout_seconds": {
            "type": "number", "minimum": 0.1, "maximum": @max_timeout_seconds@,
            "description": "Stop the code after this time. Default: the sandbox's, normally @timeout_seconds@."
        })},
    {"run", JSON_TEXT(
        "code": {
            "type": "string", "minLength": 1,
            "description": "Source code."
        },
        "language": {
            "type": "string", "enum": [@language_words@], "default": "python",
            "description": "One of the sandbox's languages."
        },
        "stdin": {
            "type": "string",
            "description": "Standard input. Default: none."
        },
        "args": {
            "type": "array", "items": {"type": "string"}, "maxItems": 256,
            "description": "Arguments: sys.argv[1:] in python, $1... in bash."
        })},
    {"stdin_open", JSON_TEXT(
        "stdin_open": {
            "type": "boolean",
            "description": "More input comes by write_stdin. Default timeout: @max_timeout_seconds@."
        },
        "tty": {
            "type": "boolean",
            "description": "The same, as a program in a terminal."
        })},
    {"max_output", JSON_TEXT(
        "max_output_bytes": {
            "type": "integer", "minimum": 256, "maximum": @stdout_bytes@,
            "description": "How much of stdout to show. Default: @output_bytes@."
        })},
    {"env", JSON_TEXT(
        "env": {
            "type": "array", "items": {"type": "string"}, "maxItems": 256,
            "description": "NAME=value each."
        })},
    {"limits", JSON_TEXT(
        "image": {
            "type": "string", "minLength": 1, "maxLength": @image_length@,
            "description": "@image_about@"
        },
        "memory_mb": {
            "type": "integer", "minimum": 16, "maximum": @max_memory_mb@,
            "description": "Memory in MiB, no swap. Default: @memory_mb@."
        },
        "cpus": {
            "type": "number", "minimum": 0.01, "maximum": @max_cpus@,
            "description": "CPU cores, may be a fraction. Default: @cpus@."
        },
        "pids": {
            "type": "integer", "minimum": 8, "maximum": @max_pids@,
            "description": "Most processes and threads. Default: @pids@."
        },
        "disk_mb": {
            "type": "integer", "minimum": 1, "maximum": @max_disk_mb@,
            "description": "Space for files in MiB, part of memory_mb. Default: @disk_mb@, or what fits memory_mb."
        },
        "network": {
            "type": "string", "enum": ["none", "full"], "default": "none",
            "description": "full: its code reaches what the server's host reaches, but not that host itself. Packages "
                           "need none."
        },
        "packages": {
            "type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 256}, "maxItems": 32,
            "description": "Packages to install first: pandas, requests==2.32.3. If that fails, the sandbox is closed again."
        },
        @manager@,
        @env@)},
    {"manager", JSON_TEXT(
        "manager": {
            "type": "string", "enum": ["pip", "npm"], "default": "pip",
            "description": "npm for javascript."
        })},
    {"shares", JSON_TEXT(
        "shares": {
            "type": "array", "items": {"type": "string"},
            "description": "Directories to show at /shared@shares_asked@."
        })},
    {"packages_property", JSON_TEXT(
        "packages": {
            "type": "array",
            "description": "The requested packages.",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "version": {"type": "string", "description": "Empty as long as it is not installed."},
                    "status": {"type": "string", "enum": ["installed", "installing", "failed"]}
                },
                "required": ["name", "version", "status"]
            }
        })},
    {"file_path", JSON_TEXT(
        "path": {
            "type": "string", "minLength": 1, "maxLength": 4095,
            "description": "Absolute, or relative to the workspace."
        })},
    {"content", JSON_TEXT(
        "content": {
            "type": "string",
            "description": "Text, or base64 if encoding says so."
        },
        "encoding": {
            "type": "string", "enum": ["utf-8", "base64"], "default": "utf-8",
            "description": "base64 for anything that is not text."
        })},
    {"digest", JSON_TEXT(
        "size": {"type": "integer", "description": "Bytes in the file."},
        "sha256": {"type": "string", "description": "Of its content, in hexadecimal digits."})},
    {"file_url", JSON_TEXT(
        "url": {
            "type": "string",
            "description": "HTTP link to the file, valid for a while."
        })},
    {"error", JSON_TEXT(
        "error": {
            "type": "object",
            "description": "Why the call failed.",
            "properties": {
                "code": {"type": "string", "description": "Kind of failure, of a closed list."},
                "message": {"type": "string", "description": "What happened."},
                "hint": {"type": "string", "description": "What to do next."}
            },
            "required": ["code", "message"]
        })},
    {"sandbox_properties", JSON_TEXT(
        "shares": {
            "type": "array", "items": {"type": "string"},
            "description": "Directories of the host that it sees; absent if there is none."
        },
        "sandbox_id": {"type": "string"},
        "name": {"type": "string"},
        "backend": {"type": "string", "description": "What isolates the sandbox."},
        "runtime": {"type": "string"},
        "image": {"type": "string"},
        "state": {"type": "string", "enum": ["creating", "ready", "recovering", "closing", "closed", "failed"]},
        "reason": {"type": "string", "description": "Why the state is failed."},
        "languages": {"type": "array", "items": {"type": "string"}},
        "limits": {
            "type": "object",
            "properties": {
                "memory_mb": {"type": "integer"},
                "cpus": {"type": "number"},
                "pids": {"type": "integer"},
                "disk_mb": {"type": "integer"},
                "files": {"type": "integer", "description": "Open files per process."},
                "timeout_seconds": {"type": "number", "description": "Default deadline of executions."},
                "ttl_seconds": {"type": "number", "description": "The sandbox closes after this long without a call."},
                "lifetime_seconds": {"type": "number", "description": "It closes this long after its creation in any case."},
                "unapplied": {
                    "type": "array", "items": {"type": "string"},
                    "description": "Limits that this host could not enforce, with the reason."
                }
            }
        },
        "network": {"type": "string"},
        "workspace": {"type": "string", "description": "Working directory of code; relative paths start here."},
        "created_at": {"type": "string", "format": "date-time"},
        "expires_at": {"type": "string", "format": "date-time", "description": "When it closes unless it is used."},
        "ends_at": {"type": "string", "format": "date-time", "description": "When it closes in any case."})},
    {"status_properties", JSON_TEXT(
        @sandbox_properties@,
        "executions": {"type": "integer", "description": "Code executions started so far."},
        "worker": {
            "type": "object",
            "properties": {
                "pid": {"type": "integer", "description": "Process that serves the sandbox, 0 if none now."},
                "restarts": {"type": "integer"}
            }
        },
        "usage": {
            "type": "object",
            "properties": {
                "memory_bytes": {"type": "integer"},
                "cpu_ms": {"type": "number"},
                "processes": {"type": "integer"},
                "disk_bytes": {"type": "integer"}
            }
        })},
    {"execution_properties", JSON_TEXT(
        "execution_id": {"type": "string"},
        "sandbox_id": {"type": "string"},
        "language": {"type": "string"},
        "status": {
            "type": "string",
            "enum": ["ok", "error", "timeout", "memory_exceeded", "cancelled", "crashed", "running"],
            "description": "How it ended, or running: get_execution has the end later. The call is an error unless the "
                           "status is ok or running (or cancelled by cancel_execution)."
        },
        "unconfirmed": {"type": "boolean", "description": "True while the sandbox has not confirmed that it received the code."},
        "exit_code": {"type": "integer", "description": "Absent while it runs. 0 if the code ended well, 1 after an uncaught error, 128+n after signal n."},
        "stdout": {"type": "string", "description": "Absent if empty, as are stderr, their byte counts, displays and files; truncated and "
                   "files_truncated are absent if false. Long output is shown as head and tail, with a line between "
                   "that says how much is left out."},
        "stderr": {"type": "string"},
        "stdout_bytes": {"type": "integer", "description": "Bytes written in all, shown or not."},
        "stderr_bytes": {"type": "integer"},
        "truncated": {"type": "boolean", "description": "True if there is more of stdout or stderr than is shown here."},
        "next_offset": {
            "type": "integer",
            "description": "offset for get_execution to show what follows this stdout, or is left out in it. "
                           "Present if there may be more."
        },
        "next_stderr_offset": {"type": "integer", "description": "The same for stderr."},
        "result": {"type": "string", "description": "Text of the last expression's value; absent if there is none."},
        "error": {
            "type": "object",
            "description": "The error that the code did not catch (name, message, traceback), or why the call failed "
                           "(code, message, hint).",
            "properties": {
                "name": {"type": "string"},
                "message": {"type": "string"},
                "traceback": {"type": "string"},
                "code": {"type": "string"},
                "hint": {"type": "string"}
            },
            "required": ["message"]
        },
        "displays": {
            "type": "array",
            "description": "Displays of the code, in order: plots, rich forms of values. Pictures are in the "
                           "content as images.",
            "items": {
                "type": "object",
                "description": "Media type to content: a short text itself, anything else as the resource that has it.",
                "additionalProperties": {
                    "anyOf": [
                        {"type": "string"},
                        {
                            "type": "object",
                            "properties": {
                                "uri": {"type": "string", "description": "Absent if the sandbox is closed."},
                                "url": {"type": "string", "description": "For a browser, for a while."},
                                "size": {"type": "integer"}
                            },
                            "required": ["size"]
                        }
                    ]
                }
            }
        },
        "displays_truncated": {"type": "boolean", "description": "True if there were more displays than are listed."},
        "files": {
            "type": "array",
            "description": "Files in the workspace that the code created or changed, latest first.",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Below the workspace."},
                    "size": {"type": "integer"},
                    "mime": {"type": "string"},
                    "uri": {"type": "string", "description": "Resource with its content; absent if the sandbox is closed."},
                    "url": {"type": "string", "description": "The same for a browser, for a while, where there is HTTP."}
                },
                "required": ["path", "size"]
            }
        },
        "files_truncated": {"type": "boolean", "description": "True if there were more files than are listed."},
        "interpreter": {
            "type": "string", "enum": ["fresh", "kept", "restarted"],
            "description": "fresh: first use; kept: variables of earlier calls were there; restarted: they were lost."
        },
        "duration_ms": {"type": "number", "description": "Time the code ran, so far."},
        "cpu_ms": {"type": "number", "description": "CPU time it used."},
        "max_rss_kb": {"type": "integer", "description": "Peak memory of the interpreter in KiB."})},
    {"page", JSON_TEXT(
        "offset": {"type": "integer", "description": "Where this part begins in the whole stdout."},
        "stderr_offset": {"type": "integer", "description": "The same for stderr."})},
    {"execution_required", JSON_TEXT(
        "required": ["execution_id", "sandbox_id", "language", "status", "duration_ms"])},
};
/* clang-format on */

/* Values for `image`, which depend on the backend. */
static const char *image_about(const struct config *c)
{
    const struct backend_row *row = config_backend(c);
    if (row != NULL && row->images == BACKEND_IMAGES_REFERENCES) {
        return c->allow_images[0] != '\0' ? "Image reference; allowed are, with * for any "
                                            "characters: @allow_images@. Default: @image@."
                                          : "Image reference, such as python:3.13-slim. "
                                            "Default: @image@.";
    }
    if (row == NULL) {
        return c->allow_images[0] != '\0'
                   ? "Image reference, if sandboxes run in a container "
                     "engine; allowed are, with * for any characters: @allow_images@. Default: "
                     "the server's."
                   : "Image reference, such as python:3.13-slim, if "
                     "sandboxes run in a container engine. Default: the server's.";
    }
    return "Name of the root file system, one of those this server offers. Default: the server's.";
}

/* The sandbox of a call that names none: continues "without it". */
static const char *default_sandbox_about(const struct config *c)
{
    static const struct {
        const char *word, *about;
    } rows[] = {
        {"call", "each call gets a new one, whose id is in the result"},
        {"session", "this session's own is used, or a new one if there is no session"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(c->default_sandbox, rows[i].word) == 0) {
            return rows[i].about;
        }
    }
    return "your default sandbox is used, made on first use";
}

/* The same for tools that only read. */
static const char *default_sandbox_there_about(const struct config *c)
{
    static const struct {
        const char *word, *about;
    } rows[] = {
        {"call", "Needed: calls share none here."},
        {"session", "Without it this session's own is used, if there is one."},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(c->default_sandbox, rows[i].word) == 0) {
            return rows[i].about;
        }
    }
    return "Without it your default sandbox, if there is one: this makes none.";
}

/* Returns the figure or piece called `name`; NULL if unknown. Figures are formatted into
 * `figure`. */
static const char *look_up_figure(const char *name, const struct config *c, char *figure,
                                  size_t size)
{
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        if (strcmp(pieces[i].name, name) == 0) {
            return pieces[i].text;
        }
    }
    const struct {
        const char *name;
        uint64_t value;
    } figures[] = {
        {"memory_mb", c->memory_mb},
        {"pids", c->pids},
        {"disk_mb", config_disk_mb(c, c->memory_mb)},
        {"timeout_seconds", c->timeout_s},
        {"max_timeout_seconds", c->max_timeout_s},
        {"sync_budget_seconds", c->sync_budget_s},
        {"ttl_seconds", c->ttl_s},
        {"max_lifetime_seconds", c->max_lifetime_s},
        {"max_sandboxes", c->max_sandboxes},
        {"max_memory_mb", c->max_memory_mb},
        {"max_pids", c->max_pids},
        {"max_disk_mb", c->max_disk_mb},
        {"stdout_bytes", RESULT_STDOUT_BYTES},
        {"output_bytes", RESULT_OUTPUT_BYTES},
        {"image_length", config_names_references(c) ? IMAGE_REFERENCE_MAX : LIMIT_NAME},
    };
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (strcmp(figures[i].name, name) == 0) {
            snprintf(figure, size, "%" PRIu64, figures[i].value);
            return figure;
        }
    }
    if (strcmp(name, "cpus") == 0 || strcmp(name, "max_cpus") == 0) {
        uint64_t milli = name[0] == 'm' ? c->max_cpu_milli : c->cpu_milli;
        snprintf(figure, size, "%.15g", (double)milli / 1000.0);
        return figure;
    }
    if (strcmp(name, "local_files_about") == 0) {
        return c->local_files[0] != '\0' ? "" : "; this server takes none of its host";
    }
    if (strcmp(name, "env_network_about") ==
        0) { /* of profiles whose sandboxes have it if they may */
        return c->allow_network ? "" : " and without network";
    }
    if (strcmp(name, "default_sandbox") == 0) {
        return default_sandbox_about(c);
    }
    if (strcmp(name, "default_sandbox_there") == 0) {
        return default_sandbox_there_about(c);
    }
    return strcmp(name, "image_about") == 0 ? image_about(c) : NULL;
}

/* Returns a text of the configuration that is inserted as it is, since it has no quotes. NULL if
 * unknown. */
static const char *configured(const char *name, const struct config *c)
{
    if (strcmp(name, "at") == 0) {
        return "@";
    }
    if (strcmp(name, "allow_images") == 0) {
        return c->allow_images;
    }
    if (strcmp(name, "image") == 0 && config_backend(c) != NULL && config_names_references(c)) {
        return c->image[0] != '\0' ? c->image : config_backend(c)->default_image;
    }
    return NULL;
}

static int add_quoted_list(struct buf *out, const char *const *items, size_t count,
                           const char *quote, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = buf_printf(out, err, "%s%s%s%s", i > 0 ? ", " : "", quote, items[i], quote);
    }
    return rc;
}

/* Inserts a list of languages if `name` means one; names of languages have no quotes. */
static int add_languages(struct buf *out, const char *name, const struct languages *l,
                         bool *ret_added, struct err *err)
{
    size_t count = 0;
    *ret_added = true;
    if (strcmp(name, "languages") == 0) {
        const char *const *names = languages_names(l, &count);
        return add_quoted_list(out, names, count, "", err);
    }
    if (strcmp(name, "language_words") == 0) {
        const char *const *words = languages_words(l, &count);
        return add_quoted_list(out, words, count, "\"", err);
    }
    *ret_added = false;
    return 0;
}

#define SHARES_SHOWN_BYTES 80 /* of a list in a description; get_sandbox_status has them all */

/* " /shared/data (read-only), /shared/out (writable)": those that all sandboxes see, or the names
 * of those that one may ask for. */
static int list_shares(struct buf *out, const struct shares *shares, bool on_request,
                       struct err *err)
{
    size_t start = out->len;
    int rc = 0;
    const char *between = on_request ? ": " : " at ";
    for (size_t i = 0; rc == 0 && i < shares->count; i++) {
        const struct share *s = &shares->of[i];
        if (s->on_request != on_request) {
            continue;
        }
        if (out->len - start + s->name.len > SHARES_SHOWN_BYTES) {
            return buf_add_str(out, ", ...", err);
        }
        rc = buf_printf(out, err, "%s%s%.*s (%s)", between, on_request ? "" : "/shared/",
                        VIEW_ARG(s->name), s->writable ? "writable" : "read-only");
        between = ", ";
    }
    return rc;
}

/* ": /srv/out, /home/ann/charts": where files may be saved. */
static int list_writable(struct buf *out, const struct config *c, struct err *err)
{
    size_t start = out->len;
    const char *dirs = c->local_files, *between = ": ";
    struct view dir;
    bool writable = false;
    int rc = 0;
    while (rc == 0 && local_dirs_next(&dirs, &dir, &writable)) {
        /* a path may have characters that the text of a schema cannot; it is left out then */
        bool plain = utf8_valid(dir.data, dir.len);
        for (size_t i = 0; i < dir.len; i++) {
            unsigned char ch = (unsigned char)dir.data[i];
            plain = plain && ch >= ' ' && ch != 0x7f && ch != '"' && ch != '\\';
        }
        if (writable && plain && out->len - start + dir.len <= SHARES_SHOWN_BYTES) {
            rc = buf_printf(out, err, "%s%.*s", between, VIEW_ARG(dir));
            between = ", ";
        }
    }
    return rc < 0 || out->len > start ? rc : buf_add_str(out, " the directories for that", err);
}

/* Inserts what there is to say about directories of the host if `name` means that. */
static int add_shares_about(struct buf *out, const char *name, const struct config *c,
                            bool *ret_added, struct err *err)
{
    bool asked = strcmp(name, "shares_asked") == 0;
    bool for_all = false;
    *ret_added = true;
    if (strcmp(name, "local_writable") == 0) {
        return list_writable(out, c, err);
    }
    if (!asked && strcmp(name, "shares_about") != 0) {
        *ret_added = false;
        return 0;
    }
    struct shares shares = shares_of(c->share);
    if (asked) {
        return list_shares(out, &shares, true, err);
    }
    for (size_t i = 0; i < shares.count; i++) {
        for_all = for_all || !shares.of[i].on_request;
    }
    int rc = for_all ? buf_add_str(out, " Sandboxes see directories of the user's host", err) : 0;
    rc = rc == 0 && for_all ? list_shares(out, &shares, false, err) : rc;
    return rc == 0 && for_all ? buf_add_str(out, ".", err) : rc;
}

static int fill_in(struct buf *out, const char *text, const struct config *config,
                   const struct languages *languages, struct err *err)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "@");
        int rc = buf_add(out, text, plain, err);
        text += plain;
        if (rc < 0 || *text == '\0') {
            return rc;
        }
        char name[NAME_MAX_BYTES + 1];
        char figure[32];
        size_t n = strcspn(text + 1, "@");
        if (n > NAME_MAX_BYTES || text[n + 1] != '@') {
            return err_set(err, ERR_INTERNAL, "unbalanced @ in a schema at \"%.20s\"", text);
        }
        memcpy(name, text + 1, n);
        name[n] = '\0';
        const char *literal = configured(name, config);
        bool added = false;
        text += n + 2;
        rc = add_languages(out, name, languages, &added, err);
        if (rc == 0 && !added) {
            rc = add_shares_about(out, name, config, &added, err);
        }
        if (rc < 0) {
            return rc;
        }
        if (added) {
            continue;
        }
        if (literal != NULL) {
            rc = buf_add_str(out, literal, err);
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        const char *found = look_up_figure(name, config, figure, sizeof(figure));
        if (found == NULL) {
            return err_set(err, ERR_INTERNAL, "schema names unknown @%s@", name);
        }
        rc = fill_in(out, found, config, languages, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Removes the quotes (and blanks) between adjacent strings, in place. */
static void join_strings(struct buf *b, size_t from)
{
    bool in_string = false;
    size_t to = from;
    for (size_t i = from; i < b->len; i++) {
        char c = (char)b->data[i];
        if (in_string && c == '\\') {
            b->data[to++] = b->data[i++];
        } else if (c == '"') {
            size_t next = i + 1;
            while (in_string && next < b->len && b->data[next] == ' ') {
                next++;
            }
            if (in_string && next < b->len && b->data[next] == '"') {
                i = next;
                continue;
            }
            in_string = !in_string;
        }
        b->data[to++] = b->data[i];
    }
    b->len = to;
}

int schema_text_expand(struct buf *out, const char *text, const struct config *config,
                       const struct languages *languages, struct err *err)
{
    size_t from = out->len;
    int rc = fill_in(out, text, config, languages, err);
    if (rc == 0) {
        join_strings(out, from);
    }
    return rc;
}
