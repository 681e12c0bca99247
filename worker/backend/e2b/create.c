/*
 *     MAKE --> ASK for the agent --> [UPLOAD] --> START it --> STREAM --> done
 *      | ^                                          |           |
 *      v |                                          v           v
 *     FIND                   error <--- REMOVE <----+-----------+      also if it is cancelled
 *
 * If the answer to MAKE is lost, or a proxy stumbled over it, the sandbox may have been made. It is
 * looked for by its metadata before it is made once more, and a removal removes all that there are.
 * A 503 may be the word of a proxy as well; it is waited for first, and more often.
 *
 * The daemon is up some moments after the sandbox is; till then the proxy in front says that there
 * is no such sandbox, so it is asked again for a while.
 *
 * A worker that dies between MAKE and its answer leaves a sandbox that nobody knows. So one is made
 * for MAKING_S only, and gets its full time as soon as it is known.
 *
 * The stream of the agent's start stays open until the creation is done: if the agent cannot start,
 * its last words are there.
 */
#include "worker/backend/e2b/create.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/e2b/api.h"
#include "worker/backend/e2b/end.h"
#include "worker/backend/e2b/envd.h"
#include "worker/backend/e2b/exec.h"
#include "worker/backend/e2b/stream.h"
#include "worker/backend/relayed.h"

#define MAKES_MAX       2
#define MAKES_BUSY_MAX  5     /* while the service says that it is busy */
#define BUSY_AGAIN_MS   300   /* doubled each time */
#define MAKING_S        60    /* life of a sandbox whose worker does not know it yet */
#define READY_MS        30000 /* from the sandbox to its daemon's first answer */
#define READY_AGAIN_MS  200
#define STREAMS_MAX     5
#define STREAM_AGAIN_MS 300

#define HINT_SERVICE                                                                               \
    "see that E2B_API_KEY is a key of this service and that it can be reached; `cloister doctor "  \
    "--backend e2b` shows what was tried"

struct e2b_create {
    struct e2b_create_in in;
    const struct e2b_agent *agent;
    struct e2b_box box;
    struct e2b_host *envd;
    struct e2b_call *call;
    struct e2b_exec *exec; /* of the agent's start */
    struct e2b_stream *stream;
    struct e2b_end *end;
    bool sent; /* a sandbox may exist, by any of the requests */
    bool cancelled, ending;
    bool waiting; /* for a timer, which goes on */
    bool busy;    /* that was the answer to the last MAKE */
    unsigned makes, streams;
    uint64_t ready_ms;   /* when the daemon is too late */
    struct relayed said; /* by the agent's start, for people */
    struct err err;
    const char *hint;
    e2b_create_fn done;
    void *arg;
};

static void make_box(struct e2b_create *c);
static void on_ask_due(void *arg);
static void on_stream_due(void *arg);

/* ---- ends ----------------------------------------------------------------------------------- */

struct e2b_host *e2b_create_free(struct e2b_create *c)
{
    struct e2b_host *envd = c != NULL ? c->envd : NULL;
    if (c != NULL) {
        e2b_exec_close(c->exec);
        e2b_end_free(c->end);
        e2b_box_finish(&c->box);
        free(c);
    }
    return envd;
}

static void finish_e2b_create(struct e2b_create *c, int fd)
{
    e2b_create_fn done = c->done;
    void *arg = c->arg;
    struct err err = c->err;
    int rc = fd >= 0 ? 0 : -err.code;
    const char *hint = rc < 0 && c->hint != NULL ? c->hint : "";
    struct e2b_box box = c->box;
    c->box = (struct e2b_box){.token = NULL};
    const struct e2b_made made = {.box = &box, .envd = e2b_create_free(c), .fd = fd};
    done(arg, rc, &made, rc < 0 ? &err : NULL, hint);
    e2b_box_finish(&box);
}

static void on_box_undone(void *arg, int rc, const struct err *err)
{
    struct e2b_create *c = arg;
    c->end = NULL;
    if (rc < 0) {
        log_warn("a sandbox that did not come to life stays until its time is over: %s", err->text);
    }
    finish_e2b_create(c, -1);
}

static void on_failed_later(void *arg)
{
    finish_e2b_create(arg, -1);
}

/* Removes what was made so far, then reports c->err. */
static void undo_create(struct e2b_create *c)
{
    c->ending = true;
    if (c->waiting) {
        return; /* go_on() comes back to here */
    }
    if (c->cancelled) {
        err_ignore(err_set(&c->err, ERR_SHUTTING_DOWN, "closed while it was being created"));
        c->hint = "";
    }
    if (c->stream != NULL) {
        e2b_stream_cancel(STEAL_PTR(c->stream));
    }
    e2b_exec_close(STEAL_PTR(c->exec));
    if (c->sent) {
        c->end = e2b_end_start(c->in.api, c->in.spec->id, on_box_undone, c);
    } else {
        task_later(c->in.tasks, 0, on_failed_later, c);
    }
}

static void fail_create(struct e2b_create *c, const struct err *err, const char *hint)
{
    c->err = *err;
    if (c->err.code == ERR_GONE) { /* of a creation this is a failure like another */
        c->err.code = ERR_ENGINE;
    }
    c->hint = hint;
    undo_create(c);
}

static void wait_before(struct e2b_create *c, uint64_t ms, task_later_fn step)
{
    c->waiting = true;
    task_later(c->in.tasks, ms, step, c);
}

/* The wait is over. False if the creation is to end. */
static bool go_on(struct e2b_create *c)
{
    c->waiting = false;
    if (c->ending) {
        undo_create(c);
    }
    return !c->ending;
}

/* True if it is to end now. */
static bool stop_if_cancelled(struct e2b_create *c)
{
    if (c->cancelled && !c->ending) {
        undo_create(c);
    }
    return c->ending;
}

/* ---- the first stream ----------------------------------------------------------------------- */

static void on_box_stream(void *arg, int rc, int fd, int status, const struct err *err)
{
    struct e2b_create *c = arg;
    (void)status;
    c->stream = NULL;
    if (rc == 0) {
        finish_e2b_create(c, fd);
        return;
    }
    if (c->streams == STREAMS_MAX) {
        fail_create(c, err, "see whether the template runs static programs of this architecture");
        return;
    }
    log_debug("the first stream: %s", err->text);
    wait_before(c, STREAM_AGAIN_MS, on_stream_due);
}

static void open_first_stream(struct e2b_create *c)
{
    c->streams++;
    c->stream = e2b_stream_open(c->in.tasks, c->envd, c->agent->path, on_box_stream, c);
}

static void on_stream_due(void *arg)
{
    if (go_on(arg)) {
        open_first_stream(arg);
    }
}

/* ---- the agent ------------------------------------------------------------------------------ */

static void on_agent_started(void *arg, uint64_t pid)
{
    struct e2b_create *c = arg;
    log_debug("the agent is process %llu there", (unsigned long long)pid);
    open_first_stream(c);
}

static void on_agent_words(void *arg, bool is_stderr, struct view data)
{
    struct e2b_create *c = arg;
    (void)is_stderr;
    relayed_keep(&c->said, data);
}

static void on_agent_over(void *arg, int rc, int status, const struct err *err)
{
    struct e2b_create *c = arg;
    struct err why = ERR_INIT;
    char words[RELAYED_WORDS_MAX];
    c->exec = NULL;
    (void)status;
    if (c->ending || (rc != -ERR_GONE && c->streams > 0)) {
        return; /* only its stream is over */
    }
    e2b_words(e2b_host_secrets(c->envd), view_of(relayed_words(&c->said)), words, sizeof(words));
    err_ignore(err_set(&why, ERR_ENGINE, "the agent does not run in the sandbox: %.200s%s%.300s",
                       err->text, words[0] != '\0' ? ": " : "", words));
    fail_create(c, &why,
                "the template must have /bin/sh, mkdir, mount, chmod and chown, and run static "
                "programs of this architecture");
}

static const struct e2b_exec_events agent_events = {on_agent_started, on_agent_words,
                                                    on_agent_over};

static void start_box_agent(struct e2b_create *c)
{
    struct err err = ERR_INIT;
    cJSON *words = NULL;
    cJSON *env = NULL;
    if (e2b_agent_command(c->agent, c->in.spec, &words, &env, &err) < 0) {
        fail_create(c, &err, "");
        return;
    }
    const struct e2b_command command = {.words = words, .env = env, .stdin_open = false};
    c->exec = e2b_exec_start(c->envd, &command, &agent_events, c);
    cJSON_Delete(words);
    cJSON_Delete(env);
}

static void on_uploaded(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_create *c = arg;
    (void)reply;
    c->call = NULL;
    if (stop_if_cancelled(c)) {
        return;
    }
    if (rc < 0) {
        fail_create(c, err, "");
        return;
    }
    start_box_agent(c);
}

/* A file that was not written to its end has another size. */
static bool is_whole(const struct e2b_create *c, const cJSON *json)
{
    CLEANUP_FREE char *size = alloc_printf("%zu", c->agent->bytes.len);
    const cJSON *entry = json_get(json, "entry");
    const char *said = json_get_str(entry, "size"); /* numbers of 64 bits are text */
    return said != NULL && strcmp(said, size) == 0;
}

static void on_agent_asked(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_create *c = arg;
    c->call = NULL;
    if (stop_if_cancelled(c)) {
        return;
    }
    if (rc == 0 && is_whole(c, reply->json)) {
        start_box_agent(c);
    } else if (rc == 0 || rc == -ERR_GONE) {
        struct view bytes = view_bytes(c->agent->bytes.data, c->agent->bytes.len);
        c->call = e2b_envd_upload(c->envd, c->agent->path, bytes, on_uploaded, c);
    } else if (reply->status == 401 || reply->status == 403 ||
               uv_now(c->in.tasks->loop) >= c->ready_ms) {
        fail_create(c, err, HINT_SERVICE);
    } else {
        wait_before(c, READY_AGAIN_MS, on_ask_due);
    }
}

static void ask_for_agent(struct e2b_create *c)
{
    c->call = e2b_envd_stat(c->envd, c->agent->path, on_agent_asked, c);
}

static void on_ask_due(void *arg)
{
    if (go_on(arg)) {
        ask_for_agent(arg);
    }
}

/* ---- the sandbox ---------------------------------------------------------------------------- */

static void on_kept(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    (void)arg, (void)reply;
    if (rc < 0) { /* the lease begins soon, and tries again */
        log_debug("the life of a new sandbox was not extended: %s", err->text);
    }
}

static void take_box(struct e2b_create *c, const cJSON *json)
{
    struct err err = ERR_INIT;
    int rc = e2b_box_read(json, &c->box, &err);
    if (rc == 0 && !e2b_box_is_at_least(c->box.version, 0, 5, 7)) {
        rc = err_set(&err, ERR_ENGINE,
                     "the daemon of template %.100s has version \"%s\"; files can be uploaded "
                     "since 0.5.7: build the template anew",
                     c->in.spec->image, c->box.version);
    }
    rc = rc < 0 ? rc : e2b_envd_create(c->in.tasks, c->in.service, &c->box, &c->envd, &err);
    if (rc < 0) {
        fail_create(c, &err, "");
        return;
    }
    e2b_api_keep(c->in.api, c->box.id, c->in.ttl_s, on_kept, NULL);
    c->ready_ms = uv_now(c->in.tasks->loop) + READY_MS;
    ask_for_agent(c);
}

static void on_got(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_create *c = arg;
    c->call = NULL;
    if (stop_if_cancelled(c)) {
        return;
    }
    if (rc < 0) {
        fail_create(c, err, HINT_SERVICE);
    } else {
        take_box(c, reply->json);
    }
}

static void on_box_found(void *arg, int rc, const struct e2b_reply *reply, const struct err *err)
{
    struct e2b_create *c = arg;
    struct e2b_box box;
    c->call = NULL;
    if (stop_if_cancelled(c)) {
        return;
    }
    bool is_list = rc == 0 && cJSON_IsArray(reply->json);
    const cJSON *first = is_list ? cJSON_GetArrayItem(reply->json, 0) : (const cJSON *)NULL;
    if (!is_list) {
        struct err why = rc < 0 ? *err : c->err;
        fail_create(c, &why, HINT_SERVICE);
    } else if (e2b_box_is_of(first, c->in.spec->id) && e2b_box_read(first, &box, NULL) == 0) {
        c->call = e2b_api_get(c->in.api, box.id, 0, on_got, c); /* a list has no tokens */
        e2b_box_finish(&box);
    } else if (c->makes < (c->busy ? MAKES_BUSY_MAX : MAKES_MAX)) {
        make_box(c);
    } else {
        struct err why = c->err;
        fail_create(c, &why, HINT_SERVICE);
    }
}

static void look_for_box(struct e2b_create *c)
{
    c->call =
        e2b_api_list(c->in.api, E2B_META_SANDBOX, c->in.spec->id, view_of(""), on_box_found, c);
}

static void on_look_due(void *arg)
{
    if (go_on(arg)) {
        look_for_box(arg);
    }
}

static const char *hint_of(int status)
{
    switch (status) {
    case 401:
        return "E2B_API_KEY is no key of this service: see its dashboard (keys begin with e2b_)";
    case 404:
    case 400:
        return "see that --image is a template that this key may use";
    case 429:
        return "close sandboxes, or ask the service for a higher limit";
    default:
        return HINT_SERVICE;
    }
}

static void on_box_made(void *arg, int rc, const struct e2b_reply *reply, const struct err *failure)
{
    struct e2b_create *c = arg;
    c->call = NULL;
    bool undecided =
        rc < 0 && (reply->status == 0 || reply->status / 100 == 2 || reply->status >= 500);
    c->sent = c->sent || rc == 0 || undecided;
    c->busy = reply->status == 503;
    if (stop_if_cancelled(c)) {
        return;
    }
    if (rc == 0) {
        take_box(c, reply->json);
        return;
    }
    c->err = *failure;
    err_ignore(err_wrap(&c->err, "the sandbox cannot be made"));
    if (c->busy) {
        uint64_t own_ms = (uint64_t)BUSY_AGAIN_MS << (c->makes - 1);
        wait_before(c, reply->patience_ms > 0 ? reply->patience_ms : own_ms, on_look_due);
        return;
    }
    if (undecided) {
        look_for_box(c);
        return;
    }
    struct err why = c->err;
    if (reply->status == 404 || strstr(why.text, "emplate") != NULL) {
        why.code = ERR_IMAGE;
    }
    fail_create(c, &why, hint_of(reply->status));
}

static void make_box(struct e2b_create *c)
{
    c->makes++;
    c->call = e2b_api_make(c->in.api, c->in.spec, MAKING_S, on_box_made, c);
}

struct e2b_create *e2b_create_start(const struct e2b_create_in *in, const struct e2b_agent *agent,
                                    e2b_create_fn done, void *arg)
{
    struct e2b_create *c = alloc_one(struct e2b_create);
    const char *unapplied[BACKEND_UNAPPLIED_MAX];
    size_t count = e2b_agent_unapplied(unapplied);
    c->in = *in;
    c->agent = agent;
    c->done = done;
    c->arg = arg;
    if (in->spec->strict) {
        char names[BACKEND_NAMES_MAX];
        backend_unapplied_names(unapplied, count, names);
        err_ignore(err_set(&c->err, ERR_ENGINE, "--strict: this service cannot apply %s", names));
        c->hint = BACKEND_HINT_STRICT;
        undo_create(c);
    } else {
        make_box(c);
    }
    return c;
}

void e2b_create_cancel(struct e2b_create *c)
{
    c->cancelled = true;
    if (c->call != NULL && c->envd == NULL) {
        return; /* the answer says whether there is a sandbox to be removed */
    }
    if (c->call != NULL) {
        e2b_host_cancel(STEAL_PTR(c->call));
    }
    if (!c->ending) {
        undo_create(c);
    }
}
