/*
 * The demonstration.
 *
 * It is a client like any other: it uses the server through MCP only, so it shows what the host of
 * a language model would get. Each step checks what it shows and fails loudly otherwise, so the
 * demonstration also tests the installation.
 *
 * It does one thing without the server's knowledge: it kills a worker process during a call. It
 * first waits for a file that the running code writes, so the call is surely in progress.
 */
#include "supervisor/cli/demo.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/cli/pipe_client.h"

enum {
    CALL_TIMEOUT_MS = 30000,
    CREATE_TIMEOUT_MS = 90000,
    COUNT_TO = 20, /* lines that the code of the killed worker prints */
};

struct demo {
    const struct demo_how *how;
    struct pipe_client client;
    char *url; /* where it answers over HTTP; owned; NULL: on stdio */
    bool wants_token;
    cJSON *hello;    /* the result of initialize */
    char *sandbox;   /* id; owned */
    const char *dim; /* escape sequences; empty unless stdout is a terminal */
    const char *bold;
    const char *plain;
};

/* ---- output ---------------------------------------------------------------------------------- */

static void say_line(const struct demo *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say_line(const struct demo *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("    ", stdout);
    vprintf(fmt, args);
    printf("%s\n", d->plain);
    va_end(args);
}

/* Prints a text of several lines, indented; `mark` precedes the first line, `more` the others. */
static void say_lines(const struct demo *d, const char *colour, const char *mark, const char *more,
                      const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        printf("    %s%s%.*s%s\n", colour, mark, (int)len, text, d->plain);
        text += len + (text[len] == '\n');
        mark = more;
    }
}

static void say_code(const struct demo *d, const char *code)
{
    say_lines(d, d->dim, ">>> ", "... ", code);
}

static void say_text(const struct demo *d, const char *text)
{
    say_lines(d, "", "", "", text != NULL ? text : "");
}

/* ---- calls ----------------------------------------------------------------------------------- */

static cJSON *arguments(const struct demo *d)
{
    cJSON *args = cJSON_CreateObject();
    if (d->sandbox != NULL) {
        cJSON_AddStringToObject(args, "sandbox_id", d->sandbox);
    }
    return args;
}

/* Converts a failed tool call to an error with the tool's message and hint. */
static int tool_error(const cJSON *result, const char *tool, struct err *err)
{
    const cJSON *error = json_get(json_get(result, "structuredContent"), "error");
    const char *message = json_get_str(error, "message");
    const char *hint = json_get_str(error, "hint");
    if (message == NULL) {
        message = json_get_str(cJSON_GetArrayItem(json_get(result, "content"), 0), "text");
    }
    return err_set(err, ERR_ENGINE, "%s: %s%s%s", tool, message != NULL ? message : "it failed",
                   hint != NULL ? ". " : "", hint != NULL ? hint : "");
}

/* Makes a call that must succeed. *ret is its structured result (owned by the caller). Takes
 * ownership of `args`. */
static int ask_tool(struct demo *d, const char *tool, cJSON *args, uint64_t timeout_ms, cJSON **ret,
                    struct err *err)
{
    cJSON *result = NULL;
    int rc = pipe_client_call(&d->client, tool, args, timeout_ms, &result, err);
    if (rc < 0) {
        return rc;
    }
    cJSON *structured = NULL;
    if (cJSON_IsTrue(json_get(result, "isError"))) {
        rc = tool_error(result, tool, err);
    } else {
        structured = cJSON_DetachItemFromObjectCaseSensitive(result, "structuredContent");
        if (structured == NULL) {
            rc = err_set(err, ERR_PROTOCOL, "%s: no structured result", tool);
        }
    }
    cJSON_Delete(result);
    if (rc == 0) {
        *ret = structured;
    }
    return rc;
}

static cJSON *code_arguments(const struct demo *d, const char *code, double timeout_s)
{
    cJSON *args = arguments(d);
    cJSON_AddStringToObject(args, "code", code);
    if (timeout_s > 0) {
        cJSON_AddNumberToObject(args, "timeout_seconds", timeout_s);
    }
    return args;
}

/* Checks that an execution has the status `wanted`. *ret is its structured result. */
static int check_execution(cJSON *result, const char *wanted, cJSON **ret, struct err *err)
{
    cJSON *execution = cJSON_DetachItemFromObjectCaseSensitive(result, "structuredContent");
    const char *status = json_get_str(execution, "status");
    if (status == NULL) {
        int rc = tool_error(result, "execute_code", err);
        cJSON_Delete(execution);
        return rc;
    }
    if (strcmp(status, wanted) != 0) {
        const char *text = json_get_str(json_get(execution, "error"), "message");
        int rc = err_set(err, ERR_INTERNAL, "execute_code ended with \"%s\" instead of \"%s\" %s",
                         status, wanted, text != NULL ? text : "");
        cJSON_Delete(execution);
        return rc;
    }
    *ret = execution;
    return 0;
}

/* Prints the code, runs it, prints the outcome. *ret is the execution (owned by the caller). */
static int run_code(struct demo *d, const char *code, double timeout_s, const char *wanted,
                    cJSON **ret, struct err *err)
{
    say_code(d, code);
    cJSON *result = NULL;
    int rc = pipe_client_call(&d->client, "execute_code", code_arguments(d, code, timeout_s),
                              CALL_TIMEOUT_MS, &result, err);
    if (rc < 0) {
        return rc;
    }
    cJSON *execution = NULL;
    rc = check_execution(result, wanted, &execution, err);
    cJSON_Delete(result);
    if (rc < 0) {
        return rc;
    }
    say_text(d, json_get_str(execution, "stdout"));
    say_text(d, json_get_str(execution, "result"));
    *ret = execution;
    return 0;
}

/* Runs code whose last expression must have this value. */
static int run_for(struct demo *d, const char *code, const char *wanted, struct err *err)
{
    cJSON *execution = NULL;
    int rc = run_code(d, code, 0, "ok", &execution, err);
    if (rc == 0 && wanted != NULL) {
        const char *value = json_get_str(execution, "result");
        if (value == NULL || strcmp(value, wanted) != 0) {
            rc = err_set(err, ERR_INTERNAL, "the result is \"%s\" instead of \"%s\"",
                         value != NULL ? value : "", wanted);
        }
    }
    cJSON_Delete(execution);
    return rc;
}

/* ---- the steps ---- */

static int step_hello(struct demo *d, struct err *err)
{
    const cJSON *server = json_get(d->hello, "serverInfo");
    const char *name = json_get_str(server, "name");
    const char *version = json_get_str(server, "version");
    const char *revision = json_get_str(d->hello, "protocolVersion");
    if (name == NULL || version == NULL || revision == NULL) {
        return err_set(err, ERR_PROTOCOL, "initialize gave no name, version or revision");
    }
    say_line(d, "%s %s speaks MCP %s", name, version, revision);
    return 0;
}

/* All steps run Python. */
static int check_python(const cJSON *languages, struct err *err)
{
    const cJSON *each;
    cJSON_ArrayForEach(each, languages)
    {
        if (cJSON_IsString(each) && strcmp(each->valuestring, "python") == 0) {
            return 0;
        }
    }
    return err_set(err, ERR_LANGUAGE,
                   "sandboxes have no python here, which this demonstration runs: install it below "
                   "/usr (apt install python3; one of pyenv or conda does not count), or name an "
                   "image that has it with --image");
}

static int step_create(struct demo *d, struct err *err)
{
    cJSON *sandbox = NULL;
    int rc = ask_tool(d, "create_sandbox", cJSON_CreateObject(), CREATE_TIMEOUT_MS, &sandbox, err);
    if (rc < 0) {
        return rc;
    }
    const char *id = json_get_str(sandbox, "sandbox_id");
    if (id == NULL) {
        cJSON_Delete(sandbox);
        return err_set(err, ERR_PROTOCOL, "create_sandbox gave no sandbox_id");
    }
    d->sandbox = alloc_strdup(id);
    const char *backend = json_get_str(sandbox, "backend");
    const char *image = json_get_str(sandbox, "image");
    const char *network = json_get_str(sandbox, "network");
    CLEANUP_FREE char *limits = cJSON_PrintUnformatted(json_get(sandbox, "limits"));
    CLEANUP_FREE char *languages = cJSON_PrintUnformatted(json_get(sandbox, "languages"));
    say_line(d, "sandbox %s on backend %s, root from %s, network %s", id,
             backend != NULL ? backend : "?", image != NULL ? image : "?",
             network != NULL ? network : "?");
    say_line(d, "languages %s", languages != NULL ? languages : "?");
    say_line(d, "limits %s", limits != NULL ? limits : "?");
    rc = check_python(json_get(sandbox, "languages"), err);
    cJSON_Delete(sandbox);
    return rc;
}

static int step_state(struct demo *d, struct err *err)
{
    int rc = run_for(d, "answer = 21", NULL, err);
    return rc < 0 ? rc : run_for(d, "answer * 2", "42", err);
}

static int step_error(struct demo *d, struct err *err)
{
    cJSON *execution = NULL;
    int rc = run_code(d, "def share(cake, guests):\n    return cake / guests\n\nshare(1, 0)", 0,
                      "error", &execution, err);
    if (rc < 0) {
        return rc;
    }
    const char *traceback = json_get_str(json_get(execution, "error"), "traceback");
    if (traceback == NULL || strstr(traceback, "return cake / guests") == NULL) {
        rc = err_set(err, ERR_INTERNAL, "the traceback does not show the line that failed");
    } else {
        say_text(d, traceback);
    }
    cJSON_Delete(execution);
    return rc;
}

static int step_files(struct demo *d, struct err *err)
{
    cJSON *args = arguments(d);
    cJSON_AddStringToObject(args, "path", "notes/shopping.txt");
    cJSON_AddStringToObject(args, "content", "flour\nsugar\nbutter\n");
    cJSON *result = NULL;
    int rc = ask_tool(d, "write_file", args, CALL_TIMEOUT_MS, &result, err);
    if (rc < 0) {
        return rc;
    }
    const cJSON *size = json_get(result, "size");
    say_line(d, "wrote notes/shopping.txt, %.0f bytes", size != NULL ? size->valuedouble : 0.0);
    cJSON_Delete(result);

    rc = run_for(d, "open('notes/shopping.txt', 'a').write('eggs\\n')", "5", err);
    if (rc < 0) {
        return rc;
    }
    args = arguments(d);
    cJSON_AddStringToObject(args, "path", "notes/shopping.txt");
    rc = ask_tool(d, "read_file", args, CALL_TIMEOUT_MS, &result, err);
    if (rc < 0) {
        return rc;
    }
    const char *content = json_get_str(result, "content");
    if (content == NULL || strcmp(content, "flour\nsugar\nbutter\neggs\n") != 0) {
        rc = err_set(err, ERR_INTERNAL, "the file came back changed");
    } else {
        say_line(d, "read it back:");
        say_lines(d, "", "| ", "| ", content);
    }
    cJSON_Delete(result);
    return rc;
}

static int step_deadline(struct demo *d, struct err *err)
{
    cJSON *execution = NULL;
    int rc = run_code(d, "while True:\n    answer += 1", 1, "timeout", &execution, err);
    if (rc < 0) {
        return rc;
    }
    cJSON_Delete(execution);
    say_line(d, "stopped after its 1 s; the interpreter and its variables are still there:");
    return run_for(d, "answer > 21", "True", err);
}

/* Reads the worker's pid, and how often it was restarted. */
static int worker_status(struct demo *d, pid_t *ret_pid, int *ret_restarts, struct err *err)
{
    cJSON *status = NULL;
    int rc = ask_tool(d, "get_sandbox_status", arguments(d), CALL_TIMEOUT_MS, &status, err);
    if (rc < 0) {
        return rc;
    }
    const cJSON *pid = json_get(json_get(status, "worker"), "pid");
    const cJSON *restarts = json_get(json_get(status, "worker"), "restarts");
    if (!json_is_int(pid) || pid->valuedouble <= 1 || !json_is_int(restarts)) {
        rc = err_set(err, ERR_PROTOCOL, "get_sandbox_status does not tell the worker's pid");
    } else {
        *ret_pid = (pid_t)pid->valuedouble;
        *ret_restarts = (int)restarts->valuedouble;
    }
    cJSON_Delete(status);
    return rc;
}

/* Waits until the file exists in the sandbox. */
static int await_file(struct demo *d, const char *path, struct err *err)
{
    uint64_t deadline_ms = clock_ms() + CALL_TIMEOUT_MS;
    while (clock_ms() < deadline_ms) {
        cJSON *args = arguments(d);
        cJSON_AddStringToObject(args, "path", path);
        cJSON *result = NULL;
        int rc = pipe_client_call(&d->client, "read_file", args, CALL_TIMEOUT_MS, &result, err);
        if (rc < 0) {
            return rc;
        }
        bool there = !cJSON_IsTrue(json_get(result, "isError"));
        cJSON_Delete(result);
        if (there) {
            return 0;
        }
    }
    return err_set(err, ERR_TIMEOUT, "the code did not begin to run");
}

static int check_count(const char *out, struct err *err)
{
    for (int i = 1; i <= COUNT_TO; i++) {
        char line[32];
        int len = snprintf(line, sizeof(line), "line %d\n", i);
        if (out == NULL || strncmp(out, line, (size_t)len) != 0) {
            return err_set(err, ERR_INTERNAL, "line %d of the output is lost or doubled", i);
        }
        out += len;
    }
    return *out == '\0' ? 0 : err_set(err, ERR_INTERNAL, "there is more output than was written");
}

static int step_kill(struct demo *d, struct err *err)
{
    static const char code[] = "import time\n"
                               "for i in range(1, 21):\n"
                               "    print('line', i, flush=True)\n"
                               "    open('progress', 'w').close()\n"
                               "    time.sleep(0.05)";
    pid_t before = 0, after = 0;
    int restarts_before = 0, restarts_after = 0;
    int rc = worker_status(d, &before, &restarts_before, err);
    if (rc < 0) {
        return rc;
    }
    say_code(d, code);
    int64_t id;
    rc = pipe_client_send_call(&d->client, "execute_code", code_arguments(d, code, 0), &id, err);
    if (rc == 0) {
        rc = await_file(d, "progress", err);
    }
    if (rc < 0) {
        return rc;
    }
    if (kill(before, SIGKILL) != 0) {
        return err_sys(err, ERR_INTERNAL, errno, "cannot kill worker %d", (int)before);
    }
    say_line(d, "the code has begun to print; worker %d is killed with SIGKILL", (int)before);

    cJSON *result = NULL;
    rc = pipe_client_wait(&d->client, id, CALL_TIMEOUT_MS, &result, err);
    if (rc < 0) {
        return rc;
    }
    cJSON *execution = NULL;
    rc = check_execution(result, "ok", &execution, err);
    cJSON_Delete(result);
    if (rc == 0) {
        rc = check_count(json_get_str(execution, "stdout"), err);
        cJSON_Delete(execution);
    }
    if (rc == 0) {
        rc = worker_status(d, &after, &restarts_after, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (after == before || restarts_after != restarts_before + 1) {
        return err_set(err, ERR_INTERNAL, "the worker was not replaced");
    }
    say_line(d, "the call's result has all %d lines, each once; worker %d took over", COUNT_TO,
             (int)after);
    return 0;
}

static int step_reach(struct demo *d, struct err *err)
{
    int rc = d->how->reach(d->how->arg, d->client.pid, &d->url, &d->wants_token, err);
    if (rc == 0) {
        say_line(d, "%s %s", d->url,
                 d->wants_token ? "asks for a token" : "answers an MCP client's first message");
    }
    return rc;
}

static int step_close(struct demo *d, struct err *err)
{
    cJSON *result = NULL;
    int rc = ask_tool(d, "close_sandbox", arguments(d), CALL_TIMEOUT_MS, &result, err);
    if (rc < 0) {
        return rc;
    }
    cJSON_Delete(result);
    rc = pipe_client_stop(&d->client, err);
    if (rc > 0) {
        rc = err_set(err, ERR_INTERNAL, "the server ended with exit status %d", rc);
    }
    if (rc == 0) {
        say_line(d, "the sandbox is removed, the server has ended");
    }
    return rc;
}

static const struct {
    const char *title;
    int (*run)(struct demo *d, struct err *err);
    bool http; /* only there */
} steps[] = {
    {"create a sandbox", step_create, false},
    {"keep a variable over two calls", step_state, false},
    {"show an error with its traceback", step_error, false},
    {"write and read a file", step_files, false},
    {"run into a deadline and keep the state", step_deadline, false},
    {"kill the worker in the middle of a call", step_kill, false},
    {"reach it over HTTP", step_reach, true},
    {"close", step_close, false},
};

/* ---- run ------------------------------------------------------------------------------------- */

static void print_took(const struct demo *d, uint64_t begun_us)
{
    double ms = (double)(clock_us() - begun_us) / 1000.0;
    printf("    %stook %.1f ms%s\n\n", d->dim, ms, d->plain);
    fflush(stdout);
}

static int start_server(struct demo *d, const char *self, struct err *err)
{
    /* Messages below a warning would disturb the output here; options after this can change
     * that. */
    char quiet[] = "--log-level=warn", stdio[] = "--stdio";
    int count = 0;
    CLEANUP_FREE char **options = alloc_array((size_t)d->how->argc + 2, sizeof(*options));
    options[count++] = quiet;
    for (int i = 0; i < d->how->argc; i++) {
        options[count++] = d->how->argv[i];
    }
    if (d->how->reach != NULL) { /* beside HTTP, for us */
        options[count++] = stdio;
    }
    const struct pipe_client_how how = {.self = self,
                                        .name = "cloister-demo",
                                        .option_count = count,
                                        .options = options,
                                        .watch = -1};
    return pipe_client_start(&d->client, &how, &d->hello, err);
}

static int run_steps(struct demo *d, const char *self, struct err *err)
{
    size_t count = sizeof(steps) / sizeof(steps[0]), number = 1;
    uint64_t begun_us = clock_us();
    printf("%s1. start the server and say hello%s\n", d->bold, d->plain);
    fflush(stdout);
    int rc = start_server(d, self, err);
    if (rc == 0) {
        rc = step_hello(d, err);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (steps[i].http && d->how->reach == NULL) {
            continue;
        }
        print_took(d, begun_us);
        printf("%s%zu. %s%s\n", d->bold, ++number, steps[i].title, d->plain);
        fflush(stdout);
        begun_us = clock_us();
        rc = steps[i].run(d, err);
    }
    if (rc == 0) {
        print_took(d, begun_us);
    }
    return rc;
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* What of the environment says how the server is to be: clients do not start it from this shell.
 * Secrets are none of it. */
static cJSON *needed_environment(char *const *environment)
{
    static const char *const names[] = {
        "CLOISTER_",          "INTERPRETER_TYPE=", "DOCKER_HOST=",    "DOCKER_CONTEXT=",
        "DOCKER_TLS_VERIFY=", "DOCKER_CERT_PATH=", "KUBECONFIG=",     "E2B_DOMAIN=",
        "E2B_API_URL=",       "E2B_SANDBOX_URL=",  "XDG_CONFIG_HOME="};
    cJSON *needed = cJSON_CreateObject();
    for (; *environment != NULL; environment++) {
        const char *equals = strchr(*environment, '=');
        for (size_t i = 0; equals != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
            if (strncmp(*environment, names[i], strlen(names[i])) == 0) {
                CLEANUP_FREE char *name =
                    alloc_viewdup(view_bytes(*environment, (size_t)(equals - *environment)));
                cJSON_AddStringToObject(needed, name, equals + 1);
            }
        }
    }
    return needed;
}

/* The entry with which a client starts this server as it was started here. */
static cJSON *entry_of_command(const struct demo *d, const char *self)
{
    cJSON *entry = cJSON_CreateObject();
    cJSON *needed = needed_environment(d->how->environment);
    cJSON_AddStringToObject(entry, "command", self);
    cJSON_AddItemToObject(entry, "args",
                          cJSON_CreateStringArray((const char *const *)d->how->argv, d->how->argc));
    if (needed->child != NULL) {
        cJSON_AddItemToObject(entry, "env", needed);
    } else {
        cJSON_Delete(needed);
    }
    return entry;
}

static cJSON *entry_of_url(const struct demo *d)
{
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "type", "http");
    cJSON_AddStringToObject(entry, "url", d->url);
    if (d->wants_token) {
        cJSON *headers = cJSON_AddObjectToObject(entry, "headers");
        cJSON_AddStringToObject(headers, "Authorization", "Bearer TOKEN");
    }
    return entry;
}

/* Prints the members of an entry, a line each. */
static void print_entry_lines(const cJSON *entry)
{
    const cJSON *member;
    cJSON_ArrayForEach(member, entry)
    {
        CLEANUP_FREE char *value = alloc_check(cJSON_PrintUnformatted(member));
        printf("      \"%s\": %s%s\n", member->string, value, member->next != NULL ? "," : "");
    }
}

/* Prints the configuration for what was shown to work. */
static void print_config(const struct demo *d, const char *self)
{
    cJSON *entry = d->url != NULL ? entry_of_url(d) : entry_of_command(d, self);
    printf("%sTo use it, paste this into your MCP client's configuration:%s\n\n", d->bold,
           d->plain);
    printf("{\n"
           "  \"mcpServers\": {\n"
           "    \"cloister\": {\n");
    print_entry_lines(entry);
    printf("    }\n"
           "  }\n"
           "}\n");
    cJSON_Delete(entry);
    if (d->url != NULL) {
        printf("\nIt is for a server that runs: %s", self);
        for (int i = 0; i < d->how->argc; i++) {
            printf(" %s", d->how->argv[i]);
        }
        printf("\n%s", d->wants_token ? "TOKEN is what `cloister token add NAME` prints.\n" : "");
    }
}

int demo_run(const struct demo_how *how)
{
    bool colour = isatty(STDOUT_FILENO) != 0;
    struct demo d = {
        .how = how,
        .client = {.to = -1, .from = -1},
        .dim = colour ? "\033[2m" : "",
        .bold = colour ? "\033[1m" : "",
        .plain = colour ? "\033[0m" : "",
    };
    char path[PATH_MAX];
    if (realpath(how->self, path) == NULL) {
        fprintf(stderr, "cloister demo: cannot find %s: %s\n", how->self, strerror(errno));
        return EXIT_FAILURE;
    }
    struct err err = ERR_INIT;
    int rc = run_steps(&d, path, &err);
    if (rc < 0) {
        fflush(stdout);
        err_ignore(pipe_client_stop(&d.client, NULL)); /* the step's error is the one to report */
        fprintf(stderr, "\ncloister demo: %s\nRun `%s doctor` to see what works on this machine.\n",
                err.text, path);
    } else {
        print_config(&d, path);
    }
    cJSON_Delete(d.hello);
    free(d.sandbox);
    free(d.url);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
