/*
 * The answer to Start is a stream of envelopes: first the pid, then what the process says, at last
 * how it ended, and an envelope that marks the end of the stream. One without that mark was cut.
 *
 * Refusals that come from the proxy in front, or because of the token, are ordinary answers of
 * HTTP; those of the daemon itself have the status 200 and are in the last envelope.
 *
 * A keepalive is asked for every PING_S. Without a byte for SILENCE_MS the link is dead, and nobody
 * else would tell. What is not taken is not read: at most one message and one piece are here.
 */
#include "worker/backend/e2b/exec.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/e2b/envelope.h"
#include "worker/backend/e2b/event.h"
#include "worker/backend/json_build.h"

#define PING        "Keepalive-Ping-Interval: 20"
#define SILENCE_MS  70000 /* three keepalives are missing */
#define PIECE_MAX   (16u << 10)
#define START_PATH  "/process.Process/Start"
#define REFUSAL_MAX (64u << 10)

struct e2b_exec {
    struct e2b_host *envd;
    const struct e2b_exec_events *events;
    void *arg;
    struct http_call *call;
    struct buf body; /* the request */
    struct buf in;   /* what has come and is not read yet */
    struct buf data; /* of one event */
    bool held;
    bool reading;       /* a callback of ours is under way */
    bool closed;        /* meanwhile */
    struct err end;     /* why it is over, as far as it said so; code 0: it has not */
    struct err outcome; /* how the request ended */
    int status;
};

static void free_exec(struct e2b_exec *x)
{
    buf_finish(&x->body);
    buf_finish(&x->in);
    buf_finish(&x->data);
    free(x);
}

void e2b_exec_close(struct e2b_exec *x)
{
    if (x == NULL) {
        return;
    }
    x->closed = true;
    if (x->call != NULL) {
        http_cancel(x->call);
        x->call = NULL;
    }
    if (!x->reading) {
        free_exec(x);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* One event. Negative: the stream makes no sense. */
static int take_event(struct e2b_exec *x, struct view message, struct err *err)
{
    struct e2b_event event;
    x->data.len = 0;
    int rc = e2b_event_read(message, e2b_host_secrets(x->envd), &x->data, &event, err);
    if (rc < 0) {
        return rc;
    }
    switch (event.kind) {
    case E2B_EVENT_STARTED:
        x->events->started(x->arg, event.pid);
        break;
    case E2B_EVENT_STDOUT:
    case E2B_EVENT_STDERR:
        x->events->output(x->arg, event.kind == E2B_EVENT_STDERR,
                          view_bytes(x->data.data, x->data.len));
        break;
    case E2B_EVENT_ENDED:
        err_ignore(err_set(&x->end, ERR_GONE, "the process has ended: %s", event.words));
        break;
    case E2B_EVENT_OTHER:
        break;
    }
    return 0;
}

/* Reads what is here until it is held or closed. False if the stream makes no sense: then x->end
 * says why. */
static bool read_envelopes(struct e2b_exec *x)
{
    struct err err = ERR_INIT;
    int rc = 0;
    x->reading = true;
    while (!x->held && !x->closed) {
        struct view message;
        size_t used;
        bool last;
        rc = envelope_next(view_bytes(x->in.data, x->in.len), &message, &used, &last, &err);
        if (rc <= 0) {
            break;
        }
        if (last) {
            struct err said = ERR_INIT;
            err_ignore(e2b_event_last(message, e2b_host_secrets(x->envd), &said));
            x->end = x->end.code == 0 ? said : x->end;
        } else {
            rc = take_event(x, message, &err);
        }
        if (rc < 0) {
            break;
        }
        buf_consume(&x->in, used);
    }
    x->reading = false;
    if (rc < 0) {
        x->end = err;
    }
    return rc >= 0;
}

static bool on_exec_data(void *arg, struct view piece)
{
    struct e2b_exec *x = arg;
    if (buf_add(&x->in, piece.data, piece.len, &x->end) < 0) {
        return false;
    }
    bool good = read_envelopes(x);
    if (x->closed) {
        free_exec(x);
        return false;
    }
    if (x->held) {
        http_hold(x->call, true);
    }
    return good;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Tells why it is over, and frees it. */
static void tell_end(struct e2b_exec *x)
{
    const struct e2b_exec_events *events = x->events;
    void *arg = x->arg;
    int status = x->status;
    struct err err = x->end.code != 0 ? x->end : x->outcome;
    if (x->call != NULL) {
        http_cancel(x->call);
    }
    free_exec(x);
    events->ended(arg, -err.code, status, &err);
}

static void judge_response(struct e2b_exec *x, const struct http_response *response)
{
    cJSON *json = NULL;
    const char *body = response->body.data != NULL ? response->body.data : "";
    if (response->status / 100 == 2) {
        err_ignore(err_set(&x->outcome, ERR_ENGINE, "%s: the stream of the process was cut",
                           e2b_host_url(x->envd)));
        return;
    }
    err_ignore(json_parse(body, response->body.len, REFUSAL_MAX, 16, &json, NULL, NULL));
    err_ignore(e2b_host_refused(x->envd, response->status, json, response->body, "POST " START_PATH,
                                &x->outcome));
    if (x->outcome.code == ERR_GONE) {
        x->outcome.code = ERR_ENGINE; /* that is the word of a proxy, not of the daemon */
    }
    cJSON_Delete(json);
}

static void on_exec_over(void *arg, int rc, const struct http_response *response,
                         const struct err *failure)
{
    struct e2b_exec *x = arg;
    x->call = NULL;
    x->status = rc == 0 ? response->status : 0;
    if (rc < 0) {
        x->outcome = *failure;
    } else {
        judge_response(x, response);
    }
    if (!x->held) {
        tell_end(x);
    } /* else some of what it said is not taken yet */
}

void e2b_exec_hold(struct e2b_exec *x, bool hold)
{
    x->held = hold;
    if (hold || x->reading) {
        return;
    }
    bool good = read_envelopes(x);
    if (x->closed) {
        free_exec(x);
    } else if (!good || (x->call == NULL && !x->held)) {
        tell_end(x);
    } else if (!x->held) {
        http_hold(x->call, false);
    }
}

/* ---- the request ---------------------------------------------------------------------------- */

static void put_command(cJSON *process, const struct e2b_command *command)
{
    const cJSON *item;
    cJSON *args = NULL;
    cJSON_ArrayForEach(item, command->words)
    {
        if (args == NULL) {
            json_build_string(process, "cmd", item->valuestring);
            args = json_build_array(process, "args");
        } else {
            json_build_append_string(args, item->valuestring);
        }
    }
    cJSON *env = json_build_object(process, "envs");
    cJSON_ArrayForEach(item, command->env)
    {
        const char *pair = item->valuestring;
        size_t len = strcspn(pair, "=");
        CLEANUP_FREE char *name = alloc_viewdup(view_bytes(pair, len));
        json_build_string(env, name, pair[len] == '=' ? pair + len + 1 : "");
    }
}

static void add_request(struct buf *out, const struct e2b_command *command)
{
    cJSON *body = json_build_new();
    cJSON *process = json_build_object(body, "process");
    put_command(process, command);
    json_build_string(process, "cwd", "/");
    json_build_bool(body, "stdin", command->stdin_open);
    CLEANUP_FREE char *text = json_build_print(body);
    cJSON_Delete(body);
    uint8_t head[ENVELOPE_HEAD_BYTES];
    size_t len = strlen(text);
    envelope_head(len, head);
    buf_init(out, ENVELOPE_HEAD_BYTES + len);
    err_ignore(buf_add(out, head, sizeof(head), NULL)); /* its room is just right */
    err_ignore(buf_add(out, text, len, NULL));
    alloc_check(out->data);
}

struct e2b_exec *e2b_exec_start(struct e2b_host *envd, const struct e2b_command *command,
                                const struct e2b_exec_events *events, void *arg)
{
    static const char *const more[] = {"Connect-Protocol-Version: 1", PING, NULL};
    struct e2b_exec *x = alloc_one(struct e2b_exec);
    x->envd = envd;
    x->events = events;
    x->arg = arg;
    add_request(&x->body, command);
    buf_init(&x->in, ENVELOPE_HEAD_BYTES + ENVELOPE_MESSAGE_MAX + PIECE_MAX);
    buf_init(&x->data, ENVELOPE_MESSAGE_MAX);
    struct http_request request = {
        .method = "POST",
        .path = START_PATH,
        .content_type = "application/connect+json",
        .body = view_bytes(x->body.data, x->body.len),
        .silence_ms = SILENCE_MS,
        .max_bytes = REFUSAL_MAX,
        .on_data = on_exec_data,
        .once = true,
    };
    x->call = e2b_host_stream(envd, &request, more, on_exec_over, x);
    return x;
}
