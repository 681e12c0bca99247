/*
 * A worker without a sandbox, for tests: it speaks the W link and does what the test chooses,
 * including everything that a worker must never do.
 *
 * The environment variable WORKER_STUB chooses its behaviour before a sandbox exists, the image
 * that during the life of a sandbox, and the code that of a call: see the tables of words below.
 * The state that an agent would keep is in the sandbox's directory, where the next worker finds it:
 * "op-<id>" with the start time, kind, time limit and code, and "runs" with one byte for every
 * operation that was really begun. Words that misbehave do so in the first life only ("crash"), or
 * always ("crash-always").
 *
 * A test may add files to that directory: "idle" with the milliseconds that OPS reports;
 * "ops-garbage" for a malformed answer to OPS; "silent" to delay the answer to OPS, and attaching,
 * until the file is removed, as with a stopped engine; "other-version" for a worker that refuses a
 * second HELLO; "gone" if the sandbox has ended, as by a worker whose grace period is over.
 *
 * The stub leaves notes: sweeps in the directory WORKER_STUB_SWEEPS; in WORKER_STUB_NOTES that it
 * began ("hello") or was asked for "open", "limits", "close", "sweep", "progress", "ops", "probe".
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/io/ipc.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "proto/place.h"
#include "proto/version.h"
#include "tests/lib/worker_stub_kept.h"

#define POLL_MS 5

#define PROGRESS_COUNT 4

struct stub {
    uv_loop_t *loop;
    struct ipc_server *server;
    const char *sandbox, *behaviour;
    struct kept kept;
    char image[256];
    struct kept_op ops[OPS_MAX];
    size_t op_count;
    uv_timer_t poll;
    uv_timer_t later;
    uv_timer_t orphaned;
    uint64_t grace_ms;
    uint64_t memory_bytes, cpu_milli;
    bool is_open, link_up, supervisor_died;
    uv_pipe_t lifeline;
    struct ipc_request *open_request;
    uint64_t open_seq;
    struct ipc_request *progress_request; /* PROGRESS that waits */
    uint64_t progress_seq, progress_since_ms;
    struct msg_progress progress_wait;
    struct ipc_request *ops_request; /* OPS that waits */
    uint64_t ops_seq;
};

/* ---- misbehaviour ---- */

static void hang(void)
{
    for (;;) {
        pause();
    }
}

static void spin(void)
{
    for (volatile unsigned turns = 0;; turns++) {
    }
}

static void crash(void)
{
    raise(SIGKILL);
}

/* ---- notes ---- */

/* Writes a note into the directory that the variable names, if it is set; if that fails, the test
 * will miss the note. It is written under another name and renamed, since tests count the files
 * there. */
static void leave_note_in(const char *variable, const char *name, const char *text)
{
    const char *notes = getenv(variable);
    if (notes != NULL) {
        CLEANUP_FREE char *draft = alloc_printf("%s.%d", notes, (int)getpid());
        CLEANUP_FREE char *path = alloc_printf("%s/%s", notes, name);
        if (file_replace(draft, text, strlen(text), 0600, NULL) == 0 && rename(draft, path) < 0) {
            (void)unlink(draft); /* the test has ended and removed its directory */
        }
    }
}

static void note_asked(const char *what)
{
    leave_note_in("WORKER_STUB_NOTES", what, "");
}

/* ---- answers ---- */

static void send_msg(struct ipc_request *request, const struct msg *m)
{
    CLEANUP_BUF struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, LIMIT_FRAME);
    if (msg_encode(&out, m, &err) < 0) {
        log_error("stub: %s", err.text);
        exit(EXIT_CODE_PROTOCOL);
    }
    ipc_reply(request, out.data, out.len);
}

static void send_ok(struct ipc_request *request, uint64_t seq)
{
    struct msg m = {.type = MSG_OK, .seq = seq};
    send_msg(request, &m);
}

static void send_failed(struct ipc_request *request, uint64_t seq, enum err_code code,
                        const char *message, const char *hint)
{
    struct msg m = {.type = MSG_FAILED, .seq = seq};
    m.failed.code = code;
    m.failed.message = view_of(message);
    m.failed.hint = view_of(hint);
    send_msg(request, &m);
}

static void on_server_closed(void *arg)
{
    exit(*(int *)arg);
}

/* The reply is delivered before the process ends. */
static void leave(struct stub *s, int code)
{
    static int status;
    status = code;
    ipc_server_close(s->server, on_server_closed, &status);
}

/* ---- the kept operations ---- */

static struct kept_op *find_op(struct stub *s, struct view id)
{
    for (size_t i = 0; i < s->op_count; i++) {
        if (view_is(id, s->ops[i].id)) {
            return &s->ops[i];
        }
    }
    return NULL;
}

static void forget_op(struct stub *s, struct view id)
{
    struct kept_op *op = find_op(s, id);
    CLEANUP_FREE char *path = alloc_printf("%s/op-%.*s", s->kept.dir, VIEW_ARG(id));
    unlink(path);
    if (op != NULL && op->waiter == NULL) {
        free((char *)(uintptr_t)op->echo.data);
        *op = s->ops[--s->op_count];
    }
}

static struct view from_offset(const struct buf *b, uint64_t from, bool *ret_more)
{
    size_t at = from < b->len ? (size_t)from : b->len;
    size_t len = b->len - at;
    *ret_more = len > LIMIT_CHUNK;
    return view_bytes(b->data != NULL ? b->data + at : NULL, len > LIMIT_CHUNK ? LIMIT_CHUNK : len);
}

/* Answers the waiting request if there is an answer. */
static void serve(struct stub *s, struct kept_op *op)
{
    if (op->waiter == NULL) {
        return;
    }
    CLEANUP_BUF struct buf out;
    CLEANUP_BUF struct buf err;
    buf_init(&out, LIMIT_FRAME);
    buf_init(&err, LIMIT_FRAME);
    struct msg m = {.type = MSG_OUTPUT, .seq = op->wait_seq};
    struct msg_output *o = &m.output;
    kept_look(&s->kept, op, o, &out, &err);
    bool more_out;
    bool more_err;
    o->op = view_of(op->id);
    o->out_from = op->wait.out_from;
    o->err_from = op->wait.err_from;
    o->out = from_offset(&out, o->out_from, &more_out);
    o->err = from_offset(&err, o->err_from, &more_err);
    if (more_out || more_err) {
        o->state = OP_RUNNING;
    }
    bool late = clock_ms() - op->wait_since_ms >= op->wait.wait_ms;
    if (o->state != OP_DONE && o->out.len == 0 && o->err.len == 0 && !late) {
        return;
    }
    const char *rest;
    if (stub_word_is(op->code, "bad-offset", &rest) && s->kept.generation == 1) {
        o->out_from += 7;
    }
    if (o->state != OP_DONE) {
        o->status = 0;
    }
    struct ipc_request *request = op->waiter;
    op->waiter = NULL;
    send_msg(request, &m);
}

static void serve_progress(struct stub *s);
static void serve_ops(struct stub *s);

static void on_poll(uv_timer_t *timer)
{
    struct stub *s = timer->data;
    for (size_t i = 0; i < s->op_count; i++) {
        serve(s, &s->ops[i]);
    }
    serve_progress(s);
    serve_ops(s);
}

static void wait_for(struct stub *s, struct kept_op *op, struct ipc_request *request, uint64_t seq,
                     const struct msg_wait *wait)
{
    op->waiter = request;
    op->wait = *wait;
    op->wait_seq = seq;
    op->wait_since_ms = clock_ms();
    serve(s, op);
}

/* Words that concern the worker itself. True if the request is done with. */
static bool misbehave(struct stub *s, struct ipc_request *request, uint64_t seq, const char *code)
{
    bool first = s->kept.generation == 1;
    const char *rest;
    if (stub_word_is(code, "crash-always", &rest) ||
        (first && stub_word_is(code, "crash", &rest))) {
        crash();
    } else if (stub_word_is(code, "hang-always", &rest) ||
               (first && stub_word_is(code, "hang", &rest))) {
        hang();
    } else if (first && stub_word_is(code, "spin", &rest)) {
        spin();
    } else if (first && stub_word_is(code, "garbage", &rest)) {
        ipc_reply(request, "\xc1garbage", 8);
        return true;
    } else if (first && stub_word_is(code, "other-type", &rest)) {
        send_ok(request, seq);
        return true;
    } else if (first && stub_word_is(code, "other-seq", &rest)) {
        send_ok(request, seq + 1);
        return true;
    } else if (stub_word_is(code, "exit", &rest) && first) {
        exit((int)stub_number_at(&rest));
    } else if (stub_word_is(code, "gone", &rest)) {
        send_failed(request, seq, ERR_GONE, "the sandbox was killed from outside", "");
        leave(s, EXIT_CODE_SANDBOX_GONE);
        return true;
    } else if (stub_word_is(code, "refuse", &rest)) {
        send_failed(request, seq, ERR_LANGUAGE, "no such language", "use another one");
        return true;
    } else if (stub_word_is(code, "flood-log", &rest)) {
        for (int i = 0; i < 20000; i++) {
            log_error("flood %d", i);
        }
    }
    return false;
}

/* ---- requests ---- */

static void handle_start(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    const struct msg_start *start = &m->start;
    for (size_t i = 0; i < start->acks.count; i++) {
        forget_op(s, start->acks.items[i]);
    }
    struct kept_op *op = find_op(s, start->op);
    if (op == NULL && s->op_count == OPS_MAX) {
        send_failed(request, m->seq, ERR_BUSY, "too many operations", "");
        return;
    }
    if (op == NULL) {
        struct kept_op new_op = {.kind = start->kind, .timeout_ms = start->timeout_ms};
        CLEANUP_FREE char *id = alloc_viewdup(start->op);
        bool known = kept_load(&s->kept, id, &new_op);
        if (!known && start->join) {
            send_failed(request, m->seq, ERR_EXECUTION_NOT_FOUND, "no such operation", "");
            return;
        }
        if (!known) {
            snprintf(new_op.id, sizeof(new_op.id), "%s", id);
            kept_set_code(&new_op, start);
            kept_begin(&s->kept, &new_op);
        }
        new_op.echo = view_bytes(alloc_viewdup(start->stdin_data), start->stdin_data.len);
        op = &s->ops[s->op_count++];
        *op = new_op;
    }
    if (misbehave(s, request, m->seq, op->code)) {
        return;
    }
    struct msg_wait wait = {.op = view_of(op->id),
                            .out_from = start->out_from,
                            .err_from = start->err_from,
                            .wait_ms = start->wait_ms};
    wait_for(s, op, request, m->seq, &wait);
}

static void handle_wait(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    struct kept_op *op = find_op(s, m->wait.op);
    if (op == NULL) {
        send_failed(request, m->seq, ERR_EXECUTION_NOT_FOUND, "no such operation", "");
    } else {
        wait_for(s, op, request, m->seq, &m->wait);
    }
}

static void handle_cancel(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    struct kept_op *op = find_op(s, m->cancel.op);
    if (op != NULL) {
        op->stopped = true;
        op->forced = op->forced || m->cancel.force;
    }
    send_ok(request, m->seq);
}

/* WORKER_STUB_MUTE: the sandbox reports no languages, "once" (to its first worker) or "always". */
static bool is_mute(const struct stub *s)
{
    const char *mute = getenv("WORKER_STUB_MUTE");
    return mute != NULL && (strcmp(mute, "always") == 0 || s->kept.generation == 1);
}

static void send_opened(struct stub *s, struct ipc_request *request, uint64_t seq)
{
    struct view languages[] = {view_of("python"), view_of("bash")};
    struct view unapplied[] = {view_of("disk: this is a stub")};
    const char *late = getenv("WORKER_STUB_LATE"); /* found its languages at the second look */
    struct msg r = {.type = MSG_OPENED, .seq = seq};
    r.opened.backend = view_of("stub");
    r.opened.runtime = view_of("/stub");
    r.opened.image = view_of(s->image);
    r.opened.workspace = view_of("/workspace");
    r.opened.languages = (struct view_list){languages, is_mute(s) ? 0 : 2};
    r.opened.looked = view_of(is_mute(s) ? "/bin: an empty root" : late != NULL ? late : "");
    r.opened.unapplied = (struct view_list){unapplied, 1};
    send_msg(request, &r);
}

/* ---- a creation that takes time ---- */

/* Each question makes the next step, and the one after PROGRESS_COUNT steps opens the sandbox. */
static uint64_t progress_number(const struct stub *s)
{
    bool any = s->open_request != NULL && strcmp(s->image, "open-progress") == 0;
    return any ? s->progress_wait.seen + 1 : 0;
}

static void serve_progress(struct stub *s)
{
    struct msg m = {.type = MSG_PROGRESS_OK, .seq = s->progress_seq};
    uint64_t number = progress_number(s);
    bool late = clock_ms() - s->progress_since_ms >= s->progress_wait.wait_ms;
    if (s->progress_request == NULL ||
        (number <= s->progress_wait.seen && !late && s->open_request)) {
        return;
    }
    CLEANUP_FREE char *text = alloc_printf("step %llu", (unsigned long long)number);
    m.progress_ok.number = number;
    m.progress_ok.text = view_of(number > 0 ? text : "");
    m.progress_ok.done = number * 1000;
    m.progress_ok.total = number > 0 ? PROGRESS_COUNT * 1000 : 0;
    struct ipc_request *request = s->progress_request;
    s->progress_request = NULL;
    send_msg(request, &m);
}

static void open_now(struct stub *s)
{
    struct ipc_request *request = s->open_request;
    s->open_request = NULL;
    send_opened(s, request, s->open_seq);
    serve_progress(s);
}

static void handle_progress(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    note_asked("progress");
    s->progress_request = request;
    s->progress_seq = m->seq;
    s->progress_wait = m->progress;
    s->progress_since_ms = clock_ms();
    if (progress_number(s) > PROGRESS_COUNT) {
        open_now(s);
    } else {
        serve_progress(s);
    }
}

static void on_open_later(uv_timer_t *timer)
{
    open_now(timer->data);
}

static void open_later(struct stub *s, struct ipc_request *request, uint64_t seq, uint64_t ms)
{
    s->open_request = request;
    s->open_seq = seq;
    if (ms > 0) {
        uv_timer_start(&s->later, on_open_later, ms, 0);
    }
}

static void handle_open(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    const char *image = s->image;
    snprintf(s->image, sizeof(s->image), "%.*s", VIEW_ARG(m->open.image));
    s->grace_ms = m->open.grace_ms;
    s->memory_bytes = m->open.memory_bytes;
    s->cpu_milli = m->open.cpu_milli;
    bool was_open = s->is_open;
    s->is_open = true;
    note_asked("open");
    if (m->open.attach && (kept_has(&s->kept, "gone") || strcmp(image, "attach-gone") == 0)) {
        send_failed(request, m->seq, ERR_GONE, "nothing there to adopt", "");
        leave(s, EXIT_CODE_SANDBOX_GONE);
    } else if (m->open.attach && !was_open && kept_has(&s->kept, "silent")) {
        send_failed(request, m->seq, ERR_TIMEOUT, "the engine does not answer", "");
    } else if (strcmp(image, "open-fails") == 0) {
        send_failed(request, m->seq, ERR_IMAGE, "no image open-fails", "choose one that exists");
    } else if (strcmp(image, "open-fails-and-exits") == 0) {
        send_failed(request, m->seq, ERR_IMAGE, "no such image", "choose one that exists");
        leave(s, EXIT_CODE_OK);
    } else if (strcmp(image, "open-no-engine") == 0 ||
               (strcmp(s->behaviour, "lasts-moved") == 0 && m->open.mode == 5)) {
        send_failed(request, m->seq, ERR_ENGINE, "the engine went away", "start it again");
        leave(s, EXIT_CODE_OK);
    } else if (strcmp(image, "open-crashes") == 0) {
        crash();
    } else if (strcmp(image, "open-hangs") == 0) {
        hang();
    } else if (m->open.attach && strcmp(image, "attach-crashes") == 0) {
        crash();
    } else if (strcmp(image, "open-slow") == 0 ||
               (m->open.attach && strcmp(image, "attach-slow") == 0)) {
        open_later(s, request, m->seq, 300);
    } else if (strcmp(image, "open-progress") == 0 ||
               strcmp(image, "open-stalls") == 0) { /* it is alive, and never opens by itself */
        open_later(s, request, m->seq, 0);
    } else {
        send_opened(s, request, m->seq);
    }
}

static void handle_hello(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    struct msg r = {.type = MSG_HELLO_OK, .seq = m->seq};
    if (s->is_open && kept_has(&s->kept, "other-version")) {
        send_failed(request, m->seq, ERR_VERSION, "speaks version 1, not 999", "");
        return;
    }
    r.hello_ok.protocol = view_of(PROTO_WORKER_NAME);
    r.hello_ok.version = strcmp(s->behaviour, "hello-version") == 0 ? 999 : PROTO_VERSION;
    r.hello_ok.build = view_of("stub");
    r.hello_ok.pid = (uint64_t)getpid() + (strcmp(s->behaviour, "hello-pid") == 0 ? 1 : 0);
    send_msg(request, &r);
}

static void handle_probe(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    struct msg r = {.type = MSG_PROBED, .seq = m->seq};
    bool is_docker = view_is(m->probe.backend, "docker");
    bool usable = strcmp(s->behaviour, "probe-fails") != 0 &&
                  (strcmp(s->behaviour, "probe-second") != 0 || view_is(m->probe.runtime, "crun"));
    static const struct place socket_place = {.kind = PLACE_SOCKET, .address = "/stub.sock"};
    struct view_list place = alloc_listdup(m->probe.place);
    CLEANUP_BUF struct buf item;
    struct view tried;
    buf_init(&item, LIMIT_ITEM);
    if (is_docker) {
        usable = strncmp(s->behaviour, "docker", strlen("docker")) == 0;
        if (place.count == 0) {
            alloc_listfree(&place);
            err_ignore(place_encode(&socket_place, &place, NULL));
        }
        struct msg t = {.type = MSG_ENGINE_TRIED};
        t.engine_tried.origin = view_of("the stub");
        t.engine_tried.place = place;
        t.engine_tried.answer = view_of("it was tried");
        err_ignore(msg_encode(&item, &t, NULL));
        tried = view_bytes(item.data, item.len);
        r.probed.tried = (struct view_list){&tried, 1};
    }
    r.probed.place = place;
    if (strcmp(s->behaviour, "probe-hangs") == 0) {
        leave_note_in("WORKER_STUB_SWEEPS", "probing", "");
        hang();
    }
    r.probed.usable = usable;
    r.probed.runtime = m->probe.runtime;
    r.probed.version = view_of("stub 1");
    r.probed.reason = view_of(usable ? "" : is_docker ? "no engine here" : "it says no");
    r.probed.mode = strcmp(s->behaviour, "lasts-moved") == 0 ? 6 : 5;
    if (strncmp(s->behaviour, "lasts", strlen("lasts")) == 0) {
        note_asked("probe");
        r.probed.lasts = true;
        r.probed.runtime = view_of(getenv("WORKER_STUB_RUNTIME"));
    }
    if (is_docker && strncmp(s->behaviour, "docker-doubted", strlen("docker-doubted")) == 0 &&
        m->probe.image.len > 0) {
        r.probed.doubt = view_of("it has no image");
    }
    bool is_busy = strcmp(s->behaviour, "probe-busy") == 0 && !is_docker;
    r.probed.hint = view_of(is_busy ? "try again later" : "");
    r.probed.usable = r.probed.usable && !is_busy &&
                      (is_docker || strcmp(s->behaviour, "docker-doubted-alone") != 0);
    /* one of the two runtimes lacks two limits, the other one lacks one */
    struct view lacks[] = {view_of("cpus: none"), view_of("pids: none")};
    bool second = view_is(m->probe.runtime, "crun");
    if (strcmp(s->behaviour, "second-enforces-more") == 0) {
        r.probed.unapplied = (struct view_list){lacks, second ? 1 : 2};
    } else if (strcmp(s->behaviour, "first-enforces-more") == 0) {
        r.probed.unapplied = (struct view_list){lacks, second ? 2 : 1};
    } else if (strcmp(s->behaviour, "none-enforces-all") == 0) {
        r.probed.unapplied = (struct view_list){lacks, 1};
    }
    send_msg(request, &r);
    alloc_listfree(&place);
}

static void handle_sweep(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    note_asked("sweep");
    bool is_installer = s->sandbox[0] == '0'; /* see instance.h */
    if (strcmp(s->behaviour, is_installer ? "installer-sweep-fails" : "sweep-fails") == 0) {
        send_failed(request, m->seq, ERR_ENGINE, "cannot sweep", "");
        return;
    }
    const struct msg_sweep *w = &m->sweep;
    CLEANUP_FREE char *at = place_list_text(w->place);
    CLEANUP_FREE char *text = alloc_printf("%.*s %.*s%s%s", VIEW_ARG(w->backend),
                                           VIEW_ARG(w->runtime), at[0] != '\0' ? " " : "", at);
    leave_note_in("WORKER_STUB_SWEEPS", s->sandbox, text);
    send_ok(request, m->seq);
}

static void handle_close(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    note_asked("close");
    if (strcmp(s->image, "close-hangs") == 0) {
        hang();
    } else if (strcmp(s->image, "close-crashes") == 0) {
        crash();
    } else if (strcmp(s->image, "close-fails") == 0) {
        send_failed(request, m->seq, ERR_ENGINE, "cannot destroy it", "");
    } else {
        send_ok(request, m->seq);
        if (strcmp(s->image, "close-stays") != 0) {
            leave(s, EXIT_CODE_OK);
        }
    }
}

static void handle_status(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    struct msg r = {.type = MSG_STATUS_OK, .seq = m->seq};
    r.status_ok.memory_bytes = 1234567;
    r.status_ok.cpu_us = 89;
    r.status_ok.pids = 3;
    r.status_ok.disk_bytes = 4096;
    if (strcmp(s->image, "status-hangs") != 0) {
        send_msg(request, &r);
    }
}

/* Answers OPS when the sandbox responds. */
static void serve_ops(struct stub *s)
{
    struct ipc_request *request = s->ops_request;
    if (request == NULL || kept_has(&s->kept, "silent")) {
        return;
    }
    CLEANUP_BUF struct buf reply;
    buf_init(&reply, LIMIT_FRAME);
    s->ops_request = NULL;
    kept_ops(&s->kept, s->ops_seq, &reply);
    ipc_reply(request, reply.data, reply.len);
}

/* WORKER_STUB_LIMITS: they cannot be changed ("fail"), what lives does not answer ("hang"), or dies
 * of it ("crash"). */
static void handle_limits(struct stub *s, struct ipc_request *request, const struct msg *m)
{
    const char *how = getenv("WORKER_STUB_LIMITS");
    bool same = m->limits.memory_bytes == s->memory_bytes && m->limits.cpu_milli == s->cpu_milli;
    note_asked("limits");
    if (how != NULL && strcmp(how, "hang") == 0) {
        return;
    }
    if (how != NULL && strcmp(how, "crash") == 0) {
        crash();
    }
    if (how != NULL && strcmp(how, "fail") == 0 && !same) {
        send_failed(request, m->seq, ERR_CONFIG, "a stub has the limits that it has", "");
        return;
    }
    s->memory_bytes = m->limits.memory_bytes;
    s->cpu_milli = m->limits.cpu_milli;
    send_ok(request, m->seq);
}

static void on_request(void *arg, struct ipc_request *request, const void *data, size_t len)
{
    struct stub *s = arg;
    struct msg m;
    struct err err = ERR_INIT;
    if (msg_decode(MSG_LINK_W, data, len, &m, &err) < 0) {
        log_error("stub: %s", err.text);
        exit(EXIT_CODE_PROTOCOL);
    }
    struct msg pong = {.type = MSG_PONG, .seq = m.seq};
    switch (m.type) {
    case MSG_HELLO:
        handle_hello(s, request, &m);
        break;
    case MSG_OPEN:
        handle_open(s, request, &m);
        break;
    case MSG_PROBE:
        handle_probe(s, request, &m);
        break;
    case MSG_START:
        handle_start(s, request, &m);
        break;
    case MSG_WAIT:
        handle_wait(s, request, &m);
        break;
    case MSG_CANCEL:
        handle_cancel(s, request, &m);
        break;
    case MSG_OPS:
        note_asked("ops");
        s->ops_request = request;
        s->ops_seq = m.seq;
        serve_ops(s);
        break;
    case MSG_PING:
        pong.pong.value = m.ping.value;
        send_msg(request, &pong);
        break;
    case MSG_PROGRESS:
        handle_progress(s, request, &m);
        break;
    case MSG_STATUS:
        handle_status(s, request, &m);
        break;
    case MSG_LIMITS:
        handle_limits(s, request, &m);
        break;
    case MSG_CLOSE:
        handle_close(s, request, &m);
        break;
    case MSG_SWEEP:
        handle_sweep(s, request, &m);
        break;
    default:
        exit(EXIT_CODE_PROTOCOL);
    }
    msg_finish(&m);
}

static void on_orphaned(uv_timer_t *timer)
{
    struct stub *s = timer->data;
    char *path = alloc_printf("%s/gone", s->kept.dir);
    err_ignore(file_replace(path, "", 0, 0600, NULL)); /* the directory may be gone as well */
    free(path);
    exit(EXIT_CODE_ORPHANED);
}

/* Without a sandbox the worker ends. */
static void leave_if_useless(struct stub *s)
{
    if (s->supervisor_died && !s->link_up && !s->is_open) {
        exit(EXIT_CODE_ORPHANED);
    }
}

static void on_link(void *arg, bool up)
{
    struct stub *s = arg;
    s->link_up = up;
    if (up) {
        uv_timer_stop(&s->orphaned);
    } else if (s->is_open) {
        uv_timer_start(&s->orphaned, on_orphaned, s->grace_ms, 0);
    }
    leave_if_useless(s);
}

/* ---- setup ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    static char byte[1];
    (void)handle, (void)suggested;
    *ret_buf = uv_buf_init(byte, sizeof(byte));
}

static void on_lifeline(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
    struct stub *s = stream->data;
    (void)data;
    if (n < 0) {
        uv_read_stop(stream);
        s->supervisor_died = true;
        leave_if_useless(s);
    }
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    fprintf(stderr, "stub: %s is missing\n", name);
    exit(EXIT_CODE_USAGE);
}

int main(int argc, char **argv)
{
    static struct stub stub;
    struct stub *s = &stub;
    struct err err = ERR_INIT;
    enum log_level level;
    const char *behaviour = getenv("WORKER_STUB");
    s->behaviour = behaviour != NULL ? behaviour : "";
    s->sandbox = option(argc, argv, "--sandbox");
    s->kept.dir = option(argc, argv, "--dir");
    (void)option(argc, argv, "--shared-dir");
    (void)option(argc, argv, "--agent");
    if (!log_level_parse(option(argc, argv, "--log-level"), &level) ||
        str_to_u64(option(argc, argv, "--generation"), 0, UINT32_MAX, &s->kept.generation, &err) <
            0) {
        return EXIT_CODE_USAGE;
    }
    log_set_component("stub");
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL); /* the reader of our log may end before us */
    log_info("stub runs in its own session: %s", getsid(0) == getpid() ? "yes" : "no");
    note_asked("hello");
    if (strcmp(s->behaviour, "hello-crash") == 0 ||
        (strcmp(s->behaviour, "hello-crash-once") == 0 && kept_is_first())) {
        crash();
    } else if (strcmp(s->behaviour, "hello-hang") == 0) {
        hang();
    }
    s->loop = uv_default_loop();
    uv_timer_init(s->loop, &s->poll);
    s->poll.data = s;
    uv_timer_start(&s->poll, on_poll, POLL_MS, POLL_MS);
    uv_timer_init(s->loop, &s->later);
    s->later.data = s;
    uv_timer_init(s->loop, &s->orphaned);
    s->orphaned.data = s;
    uv_pipe_init(s->loop, &s->lifeline, 0);
    s->lifeline.data = s;
    if (uv_pipe_open(&s->lifeline, 3) < 0 ||
        uv_read_start((uv_stream_t *)&s->lifeline, on_alloc, on_lifeline) < 0 ||
        ipc_server_open(s->loop, option(argc, argv, "--socket"), 64, LIMIT_FRAME, on_request,
                        on_link, s, &s->server, &err) < 0) {
        log_error("stub: %s", err.text);
        return EXIT_CODE_SETUP;
    }
    return uv_run(s->loop, UV_RUN_DEFAULT);
}
