/*
 * A client that starts its server.
 *
 * A client program may block, and blocking code is shortest: requests are written at once, and each
 * read waits in poll() with a deadline. The end of the server's stdout shows that the server is
 * gone, since no other process has that pipe, so the process need not be polled.
 *
 * posix_spawn starts the server as any MCP host would: its stdin and stdout are our pipes, its
 * stderr is ours.
 */
#include "supervisor/cli/pipe_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "supervisor/base/result_form.h"

enum {
    ANSWER_MAX_BYTES = 32 << 20, /* far above what a server may send in one line */
    ANSWER_DEPTH = 64,
    HELLO_TIMEOUT_MS = 10000,
    STOP_TIMEOUT_MS = 6000, /* a server promises to end within 5 s */
};

extern char **environ;

/* ---- starting and ending the server ---- */

static void close_pipe(int *fd)
{
    if (*fd >= 0) {
        close(steal_fd(fd));
    }
}

static int make_pipe(int *ret_read, int *ret_write, struct err *err)
{
    int ends[2];
    if (pipe(ends) != 0) {
        return err_sys(err, ERR_IO, errno, "pipe");
    }
    *ret_read = ends[0];
    *ret_write = ends[1];
    int rc = fd_set_cloexec(ends[0], true, err);
    return rc < 0 ? rc : fd_set_cloexec(ends[1], true, err);
}

static int spawn(struct pipe_client *c, char **argv, bool own_group, struct err *err)
{
    CLEANUP_FD int server_in = -1;
    CLEANUP_FD int server_out = -1;
    int rc = make_pipe(&server_in, &c->to, err);
    if (rc == 0) {
        rc = make_pipe(&c->from, &server_out, err);
    }
    if (rc < 0) {
        return rc;
    }
    /* we ignore SIGPIPE to get EPIPE; the server must not inherit that */
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(
        &attr, (short)(POSIX_SPAWN_SETSIGDEF | (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, server_in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, server_out, STDOUT_FILENO);
    int failed = posix_spawn(&c->pid, argv[0], &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (failed != 0) {
        c->pid = 0;
        return err_sys(err, ERR_IO, failed, "cannot start %s", argv[0]);
    }
    return 0;
}

/* ---- lines ---- */

static int send_message(struct pipe_client *c, const cJSON *message, struct err *err)
{
    CLEANUP_FREE char *text = cJSON_PrintUnformatted(message);
    if (text == NULL) {
        return err_set(err, ERR_NO_MEMORY, "no memory for a request");
    }
    size_t len = strlen(text);
    text[len] = '\n'; /* replaces the NUL, which is not sent */
    if (fd_write_all(c->to, text, len + 1, err) < 0) {
        return err_wrap(err, "the server does not listen any more");
    }
    return 0;
}

static cJSON *new_message(const char *method)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "jsonrpc", "2.0");
    cJSON_AddStringToObject(message, "method", method);
    return message;
}

/* Takes ownership of `params`. */
static int send_demo_request(struct pipe_client *c, const char *method, cJSON *params,
                             int64_t *ret_id, struct err *err)
{
    int64_t id = c->next_id++;
    cJSON *message = new_message(method);
    cJSON_AddNumberToObject(message, "id", (double)id);
    cJSON_AddItemToObject(message, "params", params);
    int rc = send_message(c, message, err);
    cJSON_Delete(message);
    if (rc == 0) {
        *ret_id = id;
    }
    return rc;
}

/* Moves whole lines from rx to the list of answers; drops notifications. */
static int sort_lines(struct pipe_client *c, struct err *err)
{
    const uint8_t *end;
    while (c->rx.len > 0 && (end = memchr(c->rx.data, '\n', c->rx.len)) != NULL) {
        size_t len = (size_t)(end - c->rx.data);
        cJSON *message = NULL;
        int rc = json_parse((const char *)c->rx.data, len, ANSWER_MAX_BYTES, ANSWER_DEPTH, &message,
                            NULL, err);
        buf_consume(&c->rx, len + 1);
        if (rc < 0) {
            return err_wrap(err, "the server wrote something else than JSON");
        }
        if (json_get(message, "method") != NULL) {
            cJSON_Delete(message);
        } else {
            cJSON_AddItemToArray(c->answers, message);
        }
    }
    return 0;
}

/* Reads more bytes and sorts them. -ERR_GONE at the end of the stream. */
static int read_more(struct pipe_client *c, uint64_t deadline_ms, struct err *err)
{
    uint64_t now = clock_ms();
    if (now >= deadline_ms) {
        return err_set(err, ERR_TIMEOUT, "the server did not answer in time");
    }
    struct pollfd readable[] = {{.fd = c->from, .events = POLLIN},
                                {.fd = c->watch, .events = POLLIN}};
    int ready = poll(readable, 2, (int)(deadline_ms - now));
    if (ready <= 0) {
        return ready == 0 || errno == EINTR ? 0 : err_sys(err, ERR_IO, errno, "poll");
    }
    if (readable[1].revents != 0) {
        return err_set(err, ERR_GONE, "interrupted");
    }
    char bytes[16384];
    ssize_t n = read(c->from, bytes, sizeof(bytes));
    if (n < 0) {
        return errno == EINTR ? 0 : err_sys(err, ERR_IO, errno, "read");
    }
    if (n == 0) {
        return err_set(err, ERR_GONE, "the server ended");
    }
    int rc = buf_add(&c->rx, bytes, (size_t)n, err);
    return rc < 0 ? rc : sort_lines(c, err);
}

/* Takes the answer to `id` from the list; NULL if it has not come. */
static cJSON *take_server_answer(struct pipe_client *c, int64_t id)
{
    int count = cJSON_GetArraySize(c->answers);
    for (int i = 0; i < count; i++) {
        const cJSON *found = json_get(cJSON_GetArrayItem(c->answers, i), "id");
        if (json_is_int(found) && (int64_t)found->valuedouble == id) {
            return cJSON_DetachItemFromArray(c->answers, i);
        }
    }
    return NULL;
}

/* ---- requests ---- */

int pipe_client_wait(struct pipe_client *c, int64_t id, uint64_t timeout_ms, cJSON **ret_result,
                     struct err *err)
{
    uint64_t deadline_ms = clock_ms() + timeout_ms;
    cJSON *answer;
    while ((answer = take_server_answer(c, id)) == NULL) {
        int rc = read_more(c, deadline_ms, err);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = 0;
    cJSON *result = cJSON_DetachItemFromObjectCaseSensitive(answer, "result");
    if (result != NULL) {
        *ret_result = result;
    } else {
        const char *text = json_get_str(json_get(answer, "error"), "message");
        rc = err_set(err, ERR_INVALID, "%s", text != NULL ? text : "an error without a message");
    }
    cJSON_Delete(answer);
    return rc;
}

int pipe_client_send_call(struct pipe_client *c, const char *tool, cJSON *arguments,
                          int64_t *ret_id, struct err *err)
{
    cJSON *params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "name", tool);
    cJSON_AddItemToObject(params, "arguments", arguments);
    cJSON *meta = cJSON_AddObjectToObject(params, "_meta");
    cJSON_AddStringToObject(meta, RESULT_FORM_META, "structured"); /* this client is a program */
    return send_demo_request(c, "tools/call", params, ret_id, err);
}

int pipe_client_call(struct pipe_client *c, const char *tool, cJSON *arguments, uint64_t timeout_ms,
                     cJSON **ret_result, struct err *err)
{
    int64_t id;
    int rc = pipe_client_send_call(c, tool, arguments, &id, err);
    if (rc == 0) {
        rc = pipe_client_wait(c, id, timeout_ms, ret_result, err);
    }
    return rc < 0 ? err_wrap(err, "%s", tool) : 0;
}

/* ---- start and stop -------------------------------------------------------------------------- */

static int shake_hands(struct pipe_client *c, const char *name, cJSON **ret_info, struct err *err)
{
    cJSON *params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "protocolVersion", "2025-11-25");
    cJSON_AddObjectToObject(params, "capabilities");
    cJSON *info = cJSON_AddObjectToObject(params, "clientInfo");
    cJSON_AddStringToObject(info, "name", name);
    cJSON_AddStringToObject(info, "version", "1");
    int64_t id;
    cJSON *result = NULL;
    int rc = send_demo_request(c, "initialize", params, &id, err);
    if (rc == 0) {
        rc = pipe_client_wait(c, id, HELLO_TIMEOUT_MS, &result, err);
    }
    if (rc == 0) {
        cJSON *done = new_message("notifications/initialized");
        rc = send_message(c, done, err);
        cJSON_Delete(done);
    }
    if (rc < 0) {
        cJSON_Delete(result);
        return err_wrap(err, "initialize");
    }
    *ret_info = result;
    return 0;
}

int pipe_client_start(struct pipe_client *c, const struct pipe_client_how *how, cJSON **ret_info,
                      struct err *err)
{
    *c = (struct pipe_client){.to = -1, .from = -1, .next_id = 1, .watch = how->watch};
    buf_init(&c->rx, ANSWER_MAX_BYTES);
    c->answers = cJSON_CreateArray();

    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);

    char **argv = alloc_array((size_t)how->option_count + 2, sizeof(*argv));
    CLEANUP_FREE char *program = alloc_strdup(how->self);
    argv[0] = program;
    for (int i = 0; i < how->option_count; i++) {
        argv[i + 1] = how->options[i];
    }
    int rc = spawn(c, argv, how->own_group, err);
    free(argv);
    if (rc == 0) {
        rc = shake_hands(c, how->name, ret_info, err);
    }
    if (rc < 0) {
        err_ignore(pipe_client_stop(c, NULL)); /* the first error is the one to report */
    }
    return rc;
}

int pipe_client_stop(struct pipe_client *c, struct err *err)
{
    int rc = 0;
    c->watch = -1; /* what ends us ends the server, too */
    if (c->pid != 0) {
        uint64_t deadline_ms = clock_ms() + STOP_TIMEOUT_MS;
        int status = 0;
        close_pipe(&c->to);
        while (rc == 0) {
            rc = read_more(c, deadline_ms, NULL);
        }
        if (rc != -ERR_GONE) {
            kill(c->pid, SIGKILL);
        }
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
        }
        c->pid = 0;
        if (rc != -ERR_GONE) {
            rc = err_set(err, ERR_TIMEOUT, "the server did not end within %d ms", STOP_TIMEOUT_MS);
        } else {
            rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    }
    close_pipe(&c->to);
    close_pipe(&c->from);
    buf_finish(&c->rx);
    cJSON_Delete(c->answers);
    c->answers = NULL;
    return rc;
}
