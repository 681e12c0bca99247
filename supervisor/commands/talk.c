/*
 * A talk with something that runs: its output comes as a stream of lines, our stdin goes to it in
 * requests, one at a time, both on one loop. The next piece of stdin is read when the one before
 * was taken, so that nothing is gathered here: a program that does not read holds up whoever writes
 * to us.
 *
 * A terminal from which we read is made raw for the time of the talk, since the one inside has its
 * own line discipline: Ctrl-C is a byte like any other and interrupts what runs there. One from
 * which we do not read stays as it is, so Ctrl-C is a signal for us. Its size is told at the
 * beginning and when it changes; a change while a request is under way is told behind it. While we
 * are suspended the terminal is as it was, and raw again when we go on in the foreground.
 *
 * A signal that would end us (interrupts.c) stops what runs; its output goes on till it has ended,
 * which the server sees to, or till the next signal.
 *
 * Pipes and terminals are polled; files cannot be, and need not, as reading one never waits for
 * long.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define PIECE_BYTES       32768
#define STATUS_TIMEOUT    124 /* as timeout(1) */
#define STATUS_NO_PROGRAM 127 /* as shells have it */
#define STATUS_MEMORY     137
#define STOP_PATIENCE_MS  10000 /* the server kills what does not end by itself after 2 s */

struct talking {
    const struct talk *talk;
    const char *execution;
    uv_loop_t loop;
    struct http_client *client;
    char *stdin_path;
    struct buf rest; /* the beginning of a line of output */
    cJSON *end;      /* how it ended; NULL: not yet */
    uv_poll_t input;
    uv_signal_t resized, suspended, continued;
    uv_poll_t interrupt;
    uv_timer_t patience; /* with what is being stopped */
    bool polls, watches_size, watches_state, watches_interrupt, closing;
    bool stopping;
    bool sending;  /* a piece of stdin is on its way */
    bool size_due; /* the terminal's size has changed since it was told */
    bool finished; /* nothing more is read */
    struct buf body;
    int flags; /* of our stdin, before the loop changed them */
    struct termios terminal;
    bool has_terminal; /* which is raw while we are not suspended */
    int rc;
    struct err err;
};

/* ---- the end -------------------------------------------------------------------------------- */

static void on_talk_closed(void *arg)
{
    (void)arg; /* the loop ends when nothing is on it */
}

static void close_talk(struct talking *t)
{
    if (t->closing) {
        return;
    }
    t->closing = true;
    interrupts_take(); /* they were for this talk: what is closed behind it is waited for */
    if (t->polls) {
        uv_close((uv_handle_t *)&t->input, NULL);
    }
    if (t->watches_size) {
        uv_close((uv_handle_t *)&t->resized, NULL);
    }
    if (t->watches_state) {
        uv_close((uv_handle_t *)&t->suspended, NULL);
        uv_close((uv_handle_t *)&t->continued, NULL);
    }
    if (t->watches_interrupt) {
        uv_close((uv_handle_t *)&t->interrupt, NULL);
        uv_close((uv_handle_t *)&t->patience, NULL);
    }
    http_client_close(t->client, on_talk_closed, NULL);
}

static void fail_talk(struct talking *t, int rc, const struct err *err)
{
    if (t->rc == 0 && t->end == NULL) {
        t->rc = rc;
        t->err = *err;
    }
    close_talk(t);
}

/* ---- stdin ---------------------------------------------------------------------------------- */

static void send_next(struct talking *t);

/* What is refused has ended, or reads no stdin: its output says the rest. */
static void on_input_taken(void *arg, int rc, const struct http_response *response,
                           const struct err *err)
{
    struct talking *t = arg;
    (void)err;
    t->sending = false;
    if (rc < 0 || response->status >= 300) {
        t->finished = true;
    }
    send_next(t);
}

static void send_input(struct talking *t, cJSON *owned)
{
    CLEANUP_FREE char *text = alloc_check(cJSON_PrintUnformatted(owned));
    cJSON_Delete(owned);
    buf_reset(&t->body, SERVER_LINE_BYTES);
    if (buf_add_str(&t->body, text, NULL) < 0) {
        return;
    }
    const struct http_request request = {
        .method = "POST",
        .path = t->stdin_path,
        .content_type = "application/json",
        .body = view_bytes(t->body.data, t->body.len),
        .total_ms = SERVER_ANSWER_MS,
    };
    t->sending = true;
    (void)http_send(t->client, &request, on_input_taken, t);
}

static void send_bytes_in(struct talking *t, const char *bytes, size_t len)
{
    cJSON *body = cJSON_CreateObject();
    CLEANUP_BUF struct buf text;
    buf_init(&text, 2 * PIECE_BYTES);
    if (len == 0) {
        cJSON_AddTrueToObject(body, "eof");
        t->finished = true;
    } else if (base64_encode(&text, view_bytes(bytes, len), NULL) == 0) {
        cJSON_AddStringToObject(body, "base64", buf_cstr(&text));
    }
    send_input(t, body);
}

static void on_input_ready(uv_poll_t *poll, int status, int events);
static void send_size(struct talking *t);

static void read_input_piece(struct talking *t)
{
    char bytes[PIECE_BYTES];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n < 0 && (errno == EAGAIN || errno == EINTR) && t->polls) {
        uv_poll_start(&t->input, UV_READABLE, on_input_ready);
        return;
    }
    send_bytes_in(t, bytes, n > 0 ? (size_t)n : 0);
}

static void on_input_ready(uv_poll_t *poll, int status, int events)
{
    struct talking *t = poll->data;
    (void)status, (void)events;
    uv_poll_stop(poll);
    if (!t->sending && !t->finished) {
        read_input_piece(t);
    }
}

/* Nothing is on its way. */
static void send_next(struct talking *t)
{
    if (t->size_due) {
        send_size(t);
    } else if (t->talk->ends_stdin && !t->finished && !t->closing) {
        send_bytes_in(t, "", 0);
    } else if (t->talk->sends_stdin && !t->finished && !t->closing) {
        read_input_piece(t);
    }
}

static void begin_input(struct talking *t)
{
    t->flags = fcntl(STDIN_FILENO, F_GETFL);
    t->polls = uv_poll_init(&t->loop, &t->input, STDIN_FILENO) == 0;
    t->input.data = t;
    if (t->polls) {
        uv_poll_start(&t->input, UV_READABLE, on_input_ready);
    } else if (!t->sending) {
        read_input_piece(t);
    }
}

/* ---- the terminal --------------------------------------------------------------------------- */

static void send_size(struct talking *t)
{
    struct winsize size;
    t->size_due = t->sending;
    if (t->sending || t->closing || ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0) {
        return;
    }
    cJSON *body = cJSON_CreateObject();
    cJSON_AddNumberToObject(body, "rows", size.ws_row);
    cJSON_AddNumberToObject(body, "cols", size.ws_col);
    send_input(t, body);
}

static void on_resized(uv_signal_t *handle, int number)
{
    (void)number;
    send_size(handle->data);
}

static void enter_raw(struct talking *t)
{
    struct termios raw = t->terminal;
    cfmakeraw(&raw);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    if (t->flags >= 0) { /* they are the loop's again */
        (void)fcntl(STDIN_FILENO, F_SETFL, t->flags | O_NONBLOCK);
    }
}

/* In the background it is somebody else's, and a change of it would stop us. One that steers no
 * jobs, since it is not that of our session, has no background. */
static bool is_terminal_ours(void)
{
    pid_t front = tcgetpgrp(STDIN_FILENO);
    return front < 0 || front == getpgrp();
}

/* As it was; it is shared with our caller's shell. What is on its way to it is waited for till a
 * signal comes, which must not leave it raw. */
static void leave_raw(struct talking *t)
{
    if (t->has_terminal && is_terminal_ours() &&
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t->terminal) != 0 && errno == EINTR) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &t->terminal);
    }
    if (t->flags >= 0) {
        (void)fcntl(STDIN_FILENO, F_SETFL, t->flags);
    }
}

/* We are told again when the terminal is ours. */
static void on_continued(uv_signal_t *handle, int number)
{
    struct talking *t = handle->data;
    (void)number;
    if (is_terminal_ours()) {
        enter_raw(t);
        send_size(t);
    }
}

static void on_suspended(uv_signal_t *handle, int number)
{
    struct talking *t = handle->data;
    leave_raw(t);
    uv_signal_stop(&t->suspended); /* so that it suspends us */
    (void)raise(number);
    uv_signal_start(&t->suspended, on_suspended, number);
    on_continued(&t->continued, SIGCONT);
}

static void begin_terminal(struct talking *t)
{
    uv_signal_init(&t->loop, &t->resized);
    t->resized.data = t;
    t->watches_size = true;
    uv_signal_start(&t->resized, on_resized, SIGWINCH);
    if (t->talk->sends_stdin && tcgetattr(STDIN_FILENO, &t->terminal) == 0) {
        t->has_terminal = true;
        t->watches_state = true;
        uv_signal_init(&t->loop, &t->suspended);
        uv_signal_init(&t->loop, &t->continued);
        t->suspended.data = t->continued.data = t;
        uv_signal_start(&t->suspended, on_suspended, SIGTSTP);
        uv_signal_start(&t->continued, on_continued, SIGCONT);
        enter_raw(t);
    }
    send_size(t);
}

/* ---- interrupts ----------------------------------------------------------------------------- */

static void on_patience_over(uv_timer_t *timer)
{
    close_talk(timer->data);
}

static void on_stop_asked(void *arg, int rc, const struct http_response *response,
                          const struct err *err)
{
    (void)response, (void)err;
    if (rc < 0) { /* there is no server that could stop it */
        close_talk(arg);
    }
}

static void stop_talk(struct talking *t)
{
    CLEANUP_FREE char *path = alloc_printf("/v1/executions/%s/stop", t->execution);
    const struct http_request request = {
        .method = "POST", .path = path, .total_ms = STOP_PATIENCE_MS};
    t->stopping = true;
    (void)http_send(t->client, &request, on_stop_asked, t);
    uv_timer_start(&t->patience, on_patience_over, STOP_PATIENCE_MS, 0);
}

static void on_interrupt(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct talking *t = poll->data;
    interrupts_take();
    if (!t->stopping) {
        stop_talk(t);
    } else if (interrupts_insist()) {
        close_talk(t);
    }
}

static void begin_interrupts(struct talking *t)
{
    t->watches_interrupt =
        interrupts_fd() >= 0 && uv_poll_init(&t->loop, &t->interrupt, interrupts_fd()) == 0;
    if (t->watches_interrupt) {
        uv_timer_init(&t->loop, &t->patience);
        t->interrupt.data = t->patience.data = t;
        uv_poll_start(&t->interrupt, UV_READABLE, on_interrupt);
    }
    if (t->watches_interrupt && interrupts_came()) { /* while it began */
        stop_talk(t);
    }
}

/* ---- output --------------------------------------------------------------------------------- */

static bool take_output_line(void *arg, const cJSON *line)
{
    struct talking *t = arg;
    const cJSON *end = json_get(line, "end");
    if (end != NULL && t->end == NULL) {
        t->end = cJSON_Duplicate(end, true);
    } else if (!print_output(line) && !t->stopping) { /* nobody reads it any more */
        interrupts_note(SIGPIPE);
    }
    return true;
}

static bool on_output_piece(void *arg, struct view piece)
{
    struct talking *t = arg;
    return server_cut_lines(&t->rest, piece, take_output_line, t);
}

static void on_output_over(void *arg, int rc, const struct http_response *response,
                           const struct err *err)
{
    struct talking *t = arg;
    struct err refusal = ERR_INIT;
    if (rc == 0 && response->status >= 300) {
        cJSON *answer = NULL;
        err_ignore(json_parse(response->body.data, response->body.len, SERVER_LINE_BYTES,
                              SERVER_DEPTH, &answer, NULL, NULL));
        rc = server_refusal(answer, response->status, &refusal);
        cJSON_Delete(answer);
    } else if (rc == 0 && t->end == NULL) {
        rc = err_set(&refusal, ERR_ENGINE, "the server has ended; what runs may go on");
    }
    if (rc < 0) {
        fail_talk(t, rc, refusal.code != 0 ? &refusal : err);
    } else {
        close_talk(t);
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int status_of_end(const cJSON *end)
{
    if (interrupts_came()) { /* how it ended is our doing */
        return STATUS_STOPPED;
    }
    static const struct {
        const char *status;
        int exit;
    } others[] = {{"timeout", STATUS_TIMEOUT},
                  {"memory_exceeded", STATUS_MEMORY},
                  {"cancelled", STATUS_STOPPED}};
    const char *status = member_text(end, "status");
    const cJSON *error = json_get(end, "error");
    if (status[0] == '\0') { /* it could not begin */
        fprintf(stderr, "cloister: %s\n", member_text(error, "message"));
        return STATUS_NO_PROGRAM;
    }
    const char *traceback = json_get_str(error, "traceback");
    int exit_code = (int)member_number(end, "exit_code");
    if (traceback != NULL) {
        bool is_line = traceback[0] != '\0' && traceback[strlen(traceback) - 1] == '\n';
        (void)print_bytes(STDERR_FILENO, view_of(traceback));
        (void)print_bytes(STDERR_FILENO, view_of(is_line ? "" : "\n"));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(status, others[i].status) == 0) {
            fprintf(stderr, "cloister: it ended with \"%s\"\n", status);
            return others[i].exit;
        }
    }
    return exit_code > 0 && exit_code < 256 ? exit_code : strcmp(status, "ok") == 0 ? 0 : 1;
}

static void begin_talk(struct talking *t)
{
    CLEANUP_FREE char *path = alloc_printf("/v1/executions/%s/logs?follow=1", t->execution);
    const struct http_request request = {
        .method = "GET", .path = path, .total_ms = SERVER_STREAM_MS, .on_data = on_output_piece};
    (void)http_send(t->client, &request, on_output_over, t);
    begin_interrupts(t);
    if (t->talk->is_terminal) {
        begin_terminal(t);
    }
    if (t->talk->sends_stdin) {
        begin_input(t);
    } else if (!t->sending) {
        send_next(t);
    }
}

static int talk_with(const struct talk *talk, const char *execution, struct err *err)
{
    struct talking t = {.talk = talk, .execution = execution, .flags = -1};
    const struct http_endpoint endpoint = server_endpoint(talk->server);
    if (uv_loop_init(&t.loop) < 0) {
        return err_set(err, ERR_INTERNAL, "no event loop: out of descriptors?");
    }
    buf_init(&t.rest, SERVER_LINE_BYTES);
    buf_init(&t.body, SERVER_LINE_BYTES);
    t.stdin_path = alloc_printf("/v1/executions/%s/stdin", execution);
    int rc = http_client_create(&t.loop, &endpoint, &t.client, err);
    if (rc == 0) {
        begin_talk(&t);
        uv_run(&t.loop, UV_RUN_DEFAULT);
        rc = t.rc;
    }
    leave_raw(&t);
    if (rc < 0 && t.rc < 0) {
        *err = t.err;
    } else if (rc == 0) {
        rc = check_output_end(t.end, err);
        rc = rc < 0 ? rc : status_of_end(t.end);
    }
    cJSON_Delete(t.end);
    free(t.stdin_path);
    buf_finish(&t.rest);
    buf_finish(&t.body);
    (void)uv_loop_close(&t.loop);
    return rc;
}

void talk_add_args(const struct steer *s, cJSON *body)
{
    cJSON *args = cJSON_AddArrayToObject(body, "args");
    for (size_t i = 1; i < s->word_count; i++) {
        cJSON_AddItemToArray(args, cJSON_CreateString(s->words[i]));
    }
}

int talk_run(const struct talk *talk, const char *sandbox, cJSON *owned_body, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/exec", sandbox);
    cJSON *started = NULL;
    int rc = server_post(talk->server, path, owned_body, &started, err);
    rc = rc == 0 ? talk_with(talk, member_text(started, "execution_id"), err) : rc;
    cJSON_Delete(started);
    return rc;
}
