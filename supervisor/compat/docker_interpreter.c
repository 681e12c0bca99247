/*
 * The profile docker-interpreter: one sandbox for each client, made by initialize_sandbox.
 *
 * That server has one container for all clients. Here each owner has one sandbox, under a reserved
 * name, so clients of one server do not share it. Container ids there have 64 hexadecimal digits.
 * Ours are shorter, and only the worker knows an engine's id, so we show a digest of the sandbox's
 * id.
 *
 * If the operator does not allow the image, or this backend cannot use it (there, an image without
 * apk failed), the sandbox gets the configured image. It has Python in any case, which is why these
 * clients ask for an image.
 */
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "common/text.h"
#include "proto/variables.h"
#include "supervisor/base/config.h"
#include "supervisor/compat/profile.h"
#include "supervisor/compat/runs.h"
#include "supervisor/languages/languages.h"
#include "supervisor/tools/sandbox_json.h"
#include "supervisor/web/http/digest.h"

#define SAID_MAX_BYTES 4096
#define SANDBOX_NAME   "docker-interpreter"
#define THEIR_IMAGE    "alpine:latest" /* their default: the client has not chosen an image */

static void answer_error(struct tool_call *call, const char *type, const char *message)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "status", "error");
    result_put_text(answer, "error_type", type);
    result_put(answer, "message", reply_bytes(REPLY_DUMPS, view_of(message), RESULT_MESSAGE_BYTES));
    reply_json(call, REPLY_DUMPS, answer);
}

/* Log messages, as that server sends them. */
static void say(struct tool_call *call, const char *level, const char *before, const char *what,
                const char *behind)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, SAID_MAX_BYTES);
    text_printf(&text, "%s", before);
    text_add(&text, view_of(what), SAID_MAX_BYTES / 2, false);
    text_printf(&text, "%s", behind);
    tool_log(call, level, text_cstr(&text));
}

/* ---- initialize ---- */

static void answer_id(struct tool_call *call, const char *id, const char *note)
{
    struct err err = ERR_INIT;
    unsigned char digest[WEB_DIGEST_BYTES];
    char hex[WEB_DIGEST_HEX_SIZE];
    if (web_digest_sha256(view_of(id), digest, &err) < 0) {
        answer_error(call, "UnexpectedError", err.text);
        return;
    }
    web_digest_hex(digest, hex);
    say(call, "info", "Sandbox initialized successfully. Container ID: ", hex, "");
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "status", "success");
    result_put_text(answer, "container_id", hex);
    if (note != NULL) {
        result_put_text(answer, "note", note);
    }
    reply_json(call, REPLY_DUMPS, answer);
}

static bool wants_image(const struct tool_call *call)
{
    const char *image = json_get_str(call->args, "image");
    return image != NULL && strcmp(image, THEIR_IMAGE) != 0;
}

static void open_default(struct tool_call *call);

static void on_container_open(void *arg, int rc, const struct fleet_info *info,
                              const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0 && wants_image(call) && call->notice == NULL &&
        (rc == -ERR_IMAGE || rc == -ERR_INVALID)) {
        log_info("%s: the configured image is used instead", err->text);
        call->notice = "the image that was asked for is not available here; this is the "
                       "configured one";
        open_default(call);
    } else if (rc < 0) {
        say(call, "error", "Docker error during sandbox initialization: ", err->text, "");
        answer_error(call, "DockerException", err->text);
    } else {
        answer_id(call, info->id, call->notice);
    }
}

static void open_with(struct tool_call *call, struct fleet_spec *spec)
{
    /* that server runs code in /tmp, and its output is one stream */
    const struct view env[] = {view_of(VARIABLE_CWD "=/tmp"), view_of(VARIABLE_ONE_STREAM "=1")};
    spec->env = (struct view_list){env, 2};
    spec->name = SANDBOX_NAME;
    spec->network = false;
    spec->progress = tool_tell;
    tool_open(call->session, spec, on_container_open, call);
}

static void open_default(struct tool_call *call)
{
    struct fleet_spec spec = {.name = SANDBOX_NAME};
    open_with(call, &spec);
}

static void run_initialize(struct tool_call *call)
{
    const char *asked = json_get_str(call->args, "image");
    say(call, "info",
        "Attempting to initialize sandbox with image: ", asked != NULL ? asked : THEIR_IMAGE, "");
    if (runs_find(call, SANDBOX_NAME)) {
        answer_id(call, call->sandbox_id, NULL);
        return;
    }
    if (!wants_image(call)) {
        open_default(call);
        return;
    }
    /* checks the image only, since the schema allows unknown arguments */
    cJSON *image = cJSON_CreateObject();
    cJSON_AddStringToObject(image, "image", json_get_str(call->args, "image"));
    struct sandbox_choice choice;
    struct err err = ERR_INIT;
    if (sandbox_choice_read(&choice, image, call->session->config, &err) < 0) {
        cJSON_Delete(image);
        call->notice = "this server does not let clients choose images like that; this is the "
                       "configured one";
        open_default(call);
        return;
    }
    open_with(call, &choice.spec);
    sandbox_choice_finish(&choice);
    cJSON_Delete(image);
}

/* ---- execute ---- */

static void answer_failed(struct tool_call *call, const char *message, cJSON *output,
                          cJSON *exit_code)
{
    cJSON *answer = cJSON_CreateObject();
    say(call, "error", "Code execution failed: ", message, "");
    result_put_text(answer, "status", "error");
    result_put_text(answer, "error_type", "ExecutionError");
    result_put(answer, "message", reply_bytes(REPLY_DUMPS, view_of(message), RESULT_MESSAGE_BYTES));
    result_put(answer, "output", output);
    result_put(answer, "exit_code", exit_code);
    reply_json(call, REPLY_DUMPS, answer);
}

static void unsupported(struct tool_call *call, const char *language)
{
    CLEANUP_FREE char *message =
        strcmp(language, "javascript") == 0
            ? alloc_strdup("JavaScript execution not supported in minimal container")
            : alloc_printf("Unsupported language: %s", language);
    answer_failed(call, message, cJSON_CreateNull(), cJSON_CreateNull());
}

static const char *asked_language(const struct tool_call *call)
{
    const char *language = json_get_str(call->args, "language");
    return language != NULL ? language : "python";
}

/* All that was written, which is one stream in this sandbox; the traceback follows. */
static cJSON *merged(const struct fleet_outcome *o)
{
    cJSON *out = runs_stream(REPLY_DUMPS, o, false);
    cJSON *err = runs_stream(REPLY_DUMPS, o, true);
    cJSON *trace = reply_bytes(REPLY_DUMPS, o->end->traceback, RESULT_TRACEBACK_BYTES);
    CLEANUP_FREE char *text =
        alloc_printf("%s%s%s", out->valuestring, err->valuestring, trace->valuestring);
    cJSON_Delete(out);
    cJSON_Delete(err);
    cJSON_Delete(trace);
    return cJSON_CreateString(text);
}

static void on_container_outcome(void *arg, int rc, const struct fleet_outcome *o,
                                 const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    runs_done(call);
    bool failed = rc == 0 && o->state == OP_DONE && o->end->status == OP_STATUS_FAILED;
    if (failed && o->end->fail_code == ERR_LANGUAGE) {
        unsupported(call, asked_language(call));
        return;
    }
    CLEANUP_FREE char *trouble = runs_trouble(rc, o, err);
    if (rc < 0 || failed || o->state != OP_DONE) {
        cJSON *output = rc < 0 || failed ? cJSON_CreateNull() : merged(o);
        answer_failed(call, trouble, output, cJSON_CreateNull());
        return;
    }
    if (o->end->status == OP_STATUS_OK) {
        cJSON *answer = cJSON_CreateObject();
        say(call, "info", "Execution completed. Exit code: 0", "", "");
        result_put_text(answer, "status", "success");
        result_put_int(answer, "exit_code", 0);
        result_put(answer, "output", merged(o));
        reply_json(call, REPLY_DUMPS, answer);
        return;
    }
    int64_t code = o->end->exit_code != 0 ? o->end->exit_code : 1;
    CLEANUP_FREE char *message =
        alloc_printf("Execution failed with exit code %lld%s%s", (long long)code,
                     trouble != NULL ? ": " : "", trouble != NULL ? trouble : "");
    answer_failed(call, message, merged(o), cJSON_CreateNumber((double)code));
}

static void execute_in_container(struct tool_call *call)
{
    const char *language = languages_find(call->session->services->languages, asked_language(call));
    if (!runs_find(call, SANDBOX_NAME)) {
        say(call, "warning", "Sandbox not initialized. Cannot execute code.", "", "");
        answer_error(call, "StateError",
                     "Sandbox not initialized. Call 'initialize_sandbox' first.");
    } else if (language == NULL) {
        unsupported(call, asked_language(call));
    } else {
        say(call, "info", "Executing ", asked_language(call), " code in the container...");
        runs_code(call, language, json_get_str(call->args, "code"), view_bytes(NULL, 0),
                  on_container_outcome);
    }
}

/* ---- stop ---- */

static void on_container_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (rc < 0 && rc != -ERR_SANDBOX_NOT_FOUND) {
        CLEANUP_FREE char *message =
            alloc_printf("An error occurred during cleanup: %s", err->text);
        say(call, "error", "Error stopping sandbox: ", err->text, "");
        answer_error(call, "CleanupError", message);
        return;
    }
    say(call, "info", "Sandbox stopped and removed successfully.", "", "");
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "status", "success");
    result_put_text(answer, "message", "Sandbox stopped and removed.");
    reply_json(call, REPLY_DUMPS, answer);
}

static void run_stop(struct tool_call *call)
{
    say(call, "info", "Attempting to stop and remove sandbox...", "", "");
    if (runs_find_any(call, SANDBOX_NAME)) {
        fleet_close(call->session->fleet, call->sandbox_id, on_container_closed, call);
    } else {
        on_container_closed(call, 0, NULL, NULL);
    }
}

/* clang-format off */
static const struct tool tool_initialize = {
    .name = "initialize_sandbox",
    .title = "Start the sandbox",
    .description = "Starts the sandbox in which execute_code runs code, if it does not run yet.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "image": {
                "type": "string", "minLength": 1, "default": "alpine:latest",
                "description": "Image of the sandbox, if this server lets clients choose; otherwise, and by default, the configured one."
            }
        }
    }),
    .idempotent = true,
    .run = run_initialize,
};

static const struct tool tool_execute = {
    .name = "execute_code",
    .title = "Execute code",
    .description =
        "Runs code in the sandbox that initialize_sandbox has started: python, javascript and what else it has. Variables of "
        "python and javascript are kept. At the deadline (@timeout_seconds@ s) the code is interrupted.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "language": {"type": "string", "minLength": 1, "default": "python"}
        },
        "required": ["code"]
    }),
    .destructive = true,
    .run = execute_in_container,
};

static const struct tool tool_stop = {
    .name = "stop_sandbox",
    .title = "Stop the sandbox",
    .description = "Stops the sandbox and removes it with all that is in it.",
    .input_schema = JSON_TEXT({"type": "object", "properties": {}}),
    .destructive = true,
    .idempotent = true,
    .run = run_stop,
};
/* clang-format on */

static const struct tool *const tools[] = {&tool_initialize, &tool_execute, &tool_stop};

const struct profile profile_docker_interpreter = {
    .name = "docker-interpreter",
    .server_name = "Docker Code Sandbox",
    .instructions = "Start with initialize_sandbox; then execute_code runs code in that sandbox, "
                    "in /tmp, and stop_sandbox removes it.",
    .tools = tools,
    .tool_count = sizeof(tools) / sizeof(tools[0]),
};
