/*
 * What comes: `logs` and `events`.
 *
 * The output of an execution goes to our stdout and stderr as its own did, in pieces that a pipe
 * with any room takes whole: a reader who does not read is waited for in front of a write, where a
 * signal is seen. Behind one, what cannot be written at once is dropped.
 *
 * `logs` of a sandbox has the executions that are kept, oldest first; with -f it goes on with each
 * that begins, one after the other, till the sandbox is closed. It learns of them by events, from
 * the number on that was the latest before it listed the others, so that none is missed between.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define PIECE_MAX_BYTES (64u << 10)
#define LOGS_FOLLOW     1
#define EVENTS_SINCE    1
#define EVENTS_ONCE     2

/* ---- output --------------------------------------------------------------------------------- */

struct printing {
    const struct server *server;
    bool json;
    struct err cut; /* why the output of an execution ended before it; code 0: it did not */
};

/* Waits till something can be written; false: it is not waited for any more. */
static bool wait_for_reader(int fd)
{
    struct pollfd either[] = {{.fd = fd, .events = POLLOUT},
                              {.fd = interrupts_fd(), .events = POLLIN}};
    int ready;
    do {
        ready = poll(either, 2, interrupts_came() ? 0 : -1);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 && either[0].revents != 0;
}

bool print_bytes(int fd, struct view bytes)
{
    while (bytes.len > 0 && wait_for_reader(fd)) {
        ssize_t n = write(fd, bytes.data, bytes.len < PIPE_BUF ? bytes.len : PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return errno != EPIPE;
        }
        size_t written = n > 0 ? (size_t)n : 0;
        bytes = view_bytes(bytes.data + written, bytes.len - written);
    }
    return true;
}

bool print_output(const cJSON *line)
{
    int fd = strcmp(member_text(line, "stream"), "stderr") == 0 ? STDERR_FILENO : STDOUT_FILENO;
    const char *text = json_get_str(line, "text"), *base64 = json_get_str(line, "base64");
    CLEANUP_BUF struct buf bytes;
    buf_init(&bytes, PIECE_MAX_BYTES);
    if (text != NULL) {
        return print_bytes(fd, view_of(text));
    }
    if (base64 != NULL && base64_decode(&bytes, view_of(base64), NULL) == 0) {
        return print_bytes(fd, view_bytes(bytes.data, bytes.len));
    }
    if (json_get(line, "missed") != NULL) {
        CLEANUP_FREE char *missed =
            alloc_printf("[%.0f bytes are not kept]\n", member_number(line, "missed"));
        (void)print_bytes(STDERR_FILENO, view_of(missed));
    }
    return true;
}

int check_output_end(const cJSON *end, struct err *err)
{
    static const char *const unfinished[] = {"queued", "running", "unknown"};
    const char *status = member_text(end, "status");
    for (size_t i = 0; i < sizeof(unfinished) / sizeof(unfinished[0]); i++) {
        if (strcmp(status, unfinished[i]) == 0 && json_get(end, "error") != NULL) {
            return server_refusal(end, 0, err);
        }
    }
    return 0;
}

static bool print_log_line(void *arg, const cJSON *line)
{
    struct printing *p = arg;
    const cJSON *end = json_get(line, "end");
    if (p->json) {
        print_object(p->server, line);
        fflush(stdout);
    } else if (end == NULL) {
        (void)print_output(line);
    }
    err_ignore(end != NULL ? check_output_end(end, &p->cut) : 0); /* print_logs() looks */
    return true;
}

static int print_logs(struct printing *p, const char *execution, bool follows, struct err *err)
{
    CLEANUP_FREE char *path =
        alloc_printf("/v1/executions/%s/logs%s", execution, follows ? "?follow=1" : "");
    int rc = server_lines(p->server, path, print_log_line, p, err);
    if (rc == 0 && p->cut.code != 0) {
        *err = p->cut;
        rc = -err->code;
    }
    return rc;
}

/* ---- logs of a sandbox ---------------------------------------------------------------------- */

/* Waits for what begins in a sandbox. */
struct next_run {
    const char *sandbox;
    double number;   /* of the latest event that was seen */
    char *execution; /* that has begun; owned */
    bool closed;
};

static bool take_event(void *arg, const cJSON *line)
{
    struct next_run *n = arg;
    const char *event = member_text(line, "event");
    n->number = json_get(line, "number") != NULL ? member_number(line, "number") : n->number;
    if (strcmp(member_text(line, "sandbox_id"), n->sandbox) != 0) {
        return true;
    }
    if (strcmp(event, "execution.started") == 0) {
        n->execution = alloc_strdup(member_text(line, "execution_id"));
    }
    n->closed = strcmp(event, "sandbox.closing") == 0 || strcmp(event, "sandbox.closed") == 0;
    return n->execution == NULL && !n->closed;
}

static int follow_sandbox(struct printing *p, const char *sandbox, double since, struct err *err)
{
    struct next_run next = {.sandbox = sandbox, .number = since};
    int rc = 0;
    while (rc == 0 && !next.closed) {
        CLEANUP_FREE char *path = alloc_printf("/v1/events?follow=1&since=%.0f", next.number);
        rc = server_lines(p->server, path, take_event, &next, err);
        CLEANUP_FREE char *execution = STEAL_PTR(next.execution);
        if (rc == 0 && execution != NULL) {
            rc = print_logs(p, execution, true, err);
        } else if (rc == 0 && !next.closed) {
            return err_set(err, ERR_ENGINE, "the server has ended");
        }
    }
    return rc;
}

static int print_sandbox_logs(struct printing *p, const char *path, bool follows, struct err *err)
{
    cJSON *status = NULL, *sandbox = NULL, *list = NULL;
    int rc = server_ask(p->server, "GET", "/v1/status", &status, err);
    rc = rc == 0 ? server_ask(p->server, "GET", path, &sandbox, err) : rc;
    CLEANUP_FREE char *query =
        alloc_printf("/v1/executions?limit=10000&sandbox=%s", member_text(sandbox, "sandbox_id"));
    rc = rc == 0 ? server_ask(p->server, "GET", query, &list, err) : rc;
    const cJSON *rows = json_get(list, "executions");
    const cJSON *first = rows != NULL ? rows->child : NULL;
    const cJSON *row = first != NULL ? first->prev : NULL; /* the last one, as cJSON has it */
    for (bool more = row != NULL; more && rc == 0; row = row->prev) {
        rc = print_logs(p, member_text(row, "execution_id"), follows, err);
        more = row != first;
    }
    if (rc == 0 && follows) {
        rc = follow_sandbox(p, member_text(sandbox, "sandbox_id"),
                            member_number(status, "last_event"), err);
    }
    cJSON_Delete(status);
    cJSON_Delete(sandbox);
    cJSON_Delete(list);
    return rc;
}

int command_logs(const struct steer *s)
{
    struct servers servers;
    struct err err = ERR_INIT;
    struct printing p = {.json = s->json};
    CLEANUP_FREE char *path = NULL;
    bool follows = s->values[LOGS_FOLLOW] != NULL;
    servers_find(s->config, &servers);
    int rc = servers_with(&servers, s->words[0], &p.server, &path, &err);
    if (rc == 0 && strstr(path, "/sandboxes/") != NULL) {
        rc = print_sandbox_logs(&p, path, follows, &err);
    } else if (rc == 0) {
        rc = print_logs(&p, strrchr(path, '/') + 1, follows, &err);
    }
    servers_finish(&servers);
    return rc < 0 ? command_fail(&err) : 0;
}

/* ---- events --------------------------------------------------------------------------------- */

static bool print_event(void *arg, const cJSON *line)
{
    const struct printing *p = arg;
    if (p->json) {
        print_object(p->server, line);
    } else if (json_get(line, "number") == NULL) {
        printf("(%.0f events were missed)\n", member_number(line, "count"));
    } else {
        const char *execution = member_text(line, "execution_id");
        printf("%.0f %s %s %s%s%s (%s) %s\n", member_number(line, "number"),
               member_text(line, "at"), member_text(line, "event"), member_text(line, "sandbox_id"),
               execution[0] != '\0' ? "/" : "", execution, member_text(line, "owner"),
               member_text(line, "text"));
    }
    return fflush(stdout) == 0;
}

int command_events(const struct steer *s)
{
    struct servers servers;
    struct err err = ERR_INIT;
    struct printing p = {.json = s->json};
    bool once = s->values[EVENTS_ONCE] != NULL;
    const char *since = s->values[EVENTS_SINCE];
    CLEANUP_FREE char *path =
        alloc_printf("/v1/events?follow=%d%s%s", once ? 0 : 1, since != NULL ? "&since=" : "",
                     since != NULL ? since : "");
    servers_find(s->config, &servers);
    int rc = servers_only(&servers, &p.server, &err);
    if (rc == 0) {
        rc = server_lines(p.server, path, print_event, &p, &err);
    }
    servers_finish(&servers);
    return rc < 0 ? command_fail(&err) : 0;
}
