#include "tests/unit/worker/driver.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "proto/version.h"
#include "tests/lib/ipc_ask.h"

#define PATIENCE_MS 20000 /* instrumented builds on a busy machine are slow */

static const char *path_from(const char *variable)
{
    const char *path = getenv(variable);
    if (path == NULL) {
        fail_msg("%s is not set: run this by meson test", variable);
    }
    return path;
}

/* ---- time ----------------------------------------------------------------------------------- */

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
    uv_stop(timer->loop); /* otherwise a turn that runs timers first would block afterwards */
}

static bool run_until(struct driver *d, const bool *flag, uint64_t ms)
{
    bool late = false;
    uv_timer_t *timer = alloc_one(uv_timer_t);
    uv_timer_init(&d->loop, timer);
    timer->data = &late;
    uv_update_time(&d->loop);
    uv_timer_start(timer, on_time, ms, 0);
    while (!*flag && !late) {
        uv_run(&d->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    return *flag;
}

void driver_wait_flag(struct driver *d, const bool *flag, const char *what)
{
    if (!run_until(d, flag, PATIENCE_MS)) {
        fail_msg("waited in vain for %s", what);
    }
}

void driver_idle(struct driver *d, uint64_t ms)
{
    bool never = false;
    run_until(d, &never, ms);
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_link(void *arg, bool up)
{
    struct driver *d = arg;
    d->up = up;
}

void driver_listen(struct driver *d)
{
    struct err err = ERR_INIT;
    if (ipc_client_open(&d->loop, d->socket, LIMIT_FRAME, on_link, d, &d->client, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void on_client_closed(void *arg)
{
    *(bool *)arg = true;
}

void driver_unlisten(struct driver *d)
{
    bool closed = false;
    ipc_client_close(d->client, on_client_closed, &closed);
    driver_wait_flag(d, &closed, "the client to close");
    d->client = NULL;
    d->up = false;
}

void driver_init(struct driver *d)
{
    memset(d, 0, sizeof(*d));
    d->lifeline = -1;
    d->log = STDERR_FILENO;
    d->agent = path_from("FAKE_AGENT");
    snprintf(d->dir, sizeof(d->dir), "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    snprintf(d->socket, sizeof(d->socket), "%s/worker.sock", d->dir);
    assert_int_equal(uv_loop_init(&d->loop), 0);
    driver_listen(d);
}

void driver_finish(struct driver *d)
{
    struct err err = ERR_INIT;
    if (d->running) {
        driver_kill(d, SIGKILL);
    }
    if (d->lifeline >= 0) {
        close(d->lifeline);
    }
    if (d->client != NULL) {
        driver_unlisten(d);
    }
    while (uv_run(&d->loop, UV_RUN_NOWAIT) != 0) {
    }
    assert_int_equal(uv_loop_close(&d->loop), 0);
    if (dir_remove(d->dir, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void on_exited(uv_process_t *process, int64_t status, int signal_number)
{
    struct driver *d = process->data;
    d->running = false;
    d->exit_code = (int)status;
    d->exit_signal = signal_number;
    uv_close((uv_handle_t *)process, (uv_close_cb)free);
}

void driver_launch(struct driver *d, uint64_t generation)
{
    int pair[2];
    char number[24];
    snprintf(number, sizeof(number), "%llu", (unsigned long long)generation);
    const char *level = getenv("TEST_LOG_LEVEL");
    const char *args[] = {path_from("CLOISTER_WORKER"),
                          "--socket",
                          d->socket,
                          "--sandbox",
                          DRIVER_SANDBOX,
                          "--generation",
                          number,
                          "--dir",
                          d->dir,
                          "--shared-dir",
                          d->dir,
                          "--agent",
                          d->agent,
                          "--log-level",
                          level != NULL ? level : "error",
                          NULL};
    if (d->lifeline >= 0) {
        close(d->lifeline);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    d->lifeline = pair[0];
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = d->log},
        {.flags = UV_INHERIT_FD, .data.fd = pair[1]},
    };
    uv_process_options_t options = {
        .exit_cb = on_exited,
        .file = args[0],
        .args = (char **)args,
        .stdio_count = 4,
        .stdio = stdio,
    };
    d->process = alloc_one(uv_process_t);
    d->process->data = d;
    assert_int_equal(uv_spawn(&d->loop, d->process, &options), 0);
    close(pair[1]);
    d->running = true;
}

void driver_spawn(struct driver *d, uint64_t generation)
{
    driver_launch(d, generation);
    driver_wait_link(d, true);
}

void driver_start(struct driver *d, uint64_t generation)
{
    struct answer a;
    struct msg m = make_hello(generation);
    driver_spawn(d, generation);
    driver_ask(d, &m, &a, MSG_HELLO_OK);
    assert_true(view_is(a.m.hello_ok.protocol, PROTO_WORKER_NAME));
    assert_int_equal(a.m.hello_ok.pid, d->process->pid);
    answer_finish(&a);
}

void driver_succeed(struct driver *d, uint64_t generation)
{
    struct answer a;
    struct msg m = make_hello(generation);
    driver_unlisten(d);
    driver_listen(d);
    driver_wait_link(d, true);
    driver_ask(d, &m, &a, MSG_HELLO_OK);
    answer_finish(&a);
}

int driver_wait_exit(struct driver *d)
{
    uint64_t end = clock_ms() + PATIENCE_MS;
    while (d->running && clock_ms() < end) {
        driver_idle(d, 5);
    }
    if (d->running) {
        fail_msg("the worker does not end");
    }
    return d->exit_code;
}

void driver_kill(struct driver *d, int signal_number)
{
    uv_process_kill(d->process, signal_number);
    driver_wait_exit(d);
}

void driver_wait_link(struct driver *d, bool up)
{
    uint64_t end = clock_ms() + PATIENCE_MS;
    while (d->up != up && clock_ms() < end) {
        driver_idle(d, 1);
    }
    if (d->up != up) {
        fail_msg("the link does not come %s", up ? "up" : "down");
    }
}

bool driver_agent_runs(const struct driver *d)
{
    CLEANUP_FREE char *path = alloc_printf("%s/agent.pid", d->dir);
    CLEANUP_BUF struct buf text;
    struct stat st;
    struct err err = ERR_INIT;
    buf_init(&text, 64);
    if (file_read(path, &text, &err) < 0 || text.len == 0) {
        return false;
    }
    CLEANUP_FREE char *cwd =
        alloc_printf("/proc/%.*s/cwd", (int)strcspn(buf_cstr(&text), " "), (const char *)text.data);
    return stat(cwd, &st) == 0; /* a zombie has none */
}

/* ---- asking --------------------------------------------------------------------------------- */

static void on_reply(void *arg, int rc, const void *data, size_t len)
{
    struct answer *a = arg;
    struct err err = ERR_INIT;
    a->done = true;
    a->rc = rc;
    if (rc == 0 && (buf_add(&a->data, data, len, &err) < 0 ||
                    msg_decode(MSG_LINK_W, a->data.data, a->data.len, &a->m, &err) < 0)) {
        fail_msg("the worker answered with garbage: %s", err.text);
    }
}

void driver_send(struct driver *d, struct msg *m, struct answer *a)
{
    struct buf out;
    struct err err = ERR_INIT;
    memset(a, 0, sizeof(*a));
    buf_init(&a->data, LIMIT_FRAME);
    buf_init(&out, LIMIT_FRAME);
    m->seq = ++d->seq;
    if (msg_encode(&out, m, &err) < 0 ||
        ipc_ask_bytes(d->client, out.data, out.len, 0, on_reply, a, &err) < 0) {
        fail_msg("%s", err.text);
    }
    buf_finish(&out);
}

void driver_wait(struct driver *d, struct answer *a, enum msg_type want)
{
    driver_wait_flag(d, &a->done, msg_name(want));
    if (a->rc < 0) {
        fail_msg("no answer (%s) where %s was expected", err_text(a->rc), msg_name(want));
    }
    if (a->m.type != want) {
        fail_msg("%s instead of %s: %.*s", msg_name(a->m.type), msg_name(want),
                 a->m.type == MSG_FAILED ? (int)a->m.failed.message.len : 0,
                 a->m.type == MSG_FAILED ? a->m.failed.message.data : "");
    }
}

void driver_ask(struct driver *d, struct msg *m, struct answer *a, enum msg_type want)
{
    driver_send(d, m, a);
    driver_wait(d, a, want);
}

void answer_finish(struct answer *a)
{
    msg_finish(&a->m);
    buf_finish(&a->data);
}

/* ---- requests ------------------------------------------------------------------------------- */

struct msg make_hello(uint64_t generation)
{
    struct msg m = {.type = MSG_HELLO};
    m.hello.protocol = view_of(PROTO_WORKER_NAME);
    m.hello.version = PROTO_VERSION;
    m.hello.build = view_of("test");
    m.hello.sandbox = view_of(DRIVER_SANDBOX);
    m.hello.generation = generation;
    return m;
}

struct msg make_open(const char *image, bool attach)
{
    struct msg m = {.type = MSG_OPEN};
    m.open.attach = attach;
    m.open.backend = view_of("fake");
    m.open.image = view_of(image);
    m.open.memory_bytes = 64u << 20;
    m.open.cpu_milli = 1000;
    m.open.pids = 256;
    m.open.disk_bytes = 64u << 20;
    m.open.files = 256;
    m.open.grace_ms = 5000;
    return m;
}

struct msg make_start(const char *op, const char *script, uint64_t timeout_ms, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_START};
    m.start.op = view_of(op);
    m.start.kind = OP_EVAL;
    m.start.language = view_of("python");
    m.start.data = view_of(script);
    m.start.timeout_ms = timeout_ms;
    m.start.wait_ms = wait_ms;
    return m;
}

struct msg make_wait(const char *op, uint64_t out_from, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of(op);
    m.wait.out_from = out_from;
    m.wait.wait_ms = wait_ms;
    return m;
}

struct msg make_cancel(const char *op, bool force)
{
    struct msg m = {.type = MSG_CANCEL};
    m.cancel.op = view_of(op);
    m.cancel.reason = OP_STOP_CANCEL;
    m.cancel.force = force;
    return m;
}

void driver_open(struct driver *d, const char *image, bool attach)
{
    struct answer a;
    struct msg m = make_open(image, attach);
    driver_ask(d, &m, &a, MSG_OPENED);
    answer_finish(&a);
}

void driver_replace(struct driver *d, uint64_t generation)
{
    driver_kill(d, SIGKILL);
    driver_wait_link(d, false);
    driver_start(d, generation);
    driver_open(d, "", true);
}

void driver_run(struct driver *d, const char *op, const char *script, uint64_t timeout_ms,
                struct answer *a, struct buf *out)
{
    struct err err = ERR_INIT;
    struct msg m = make_start(op, script, timeout_ms, 1000);
    driver_ask(d, &m, a, MSG_OUTPUT);
    for (;;) {
        if (out != NULL) {
            assert_int_equal(a->m.output.out_from, out->len);
            assert_int_equal(buf_add(out, a->m.output.out.data, a->m.output.out.len, &err), 0);
        }
        if (a->m.output.state == OP_DONE) {
            return;
        }
        uint64_t from = a->m.output.out_from + a->m.output.out.len;
        answer_finish(a);
        m = make_wait(op, from, 1000);
        driver_ask(d, &m, a, MSG_OUTPUT);
    }
}

void driver_close(struct driver *d)
{
    struct answer a;
    struct msg m = {.type = MSG_CLOSE};
    driver_ask(d, &m, &a, MSG_OK);
    answer_finish(&a);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
}

int driver_setup(void **state)
{
    struct driver *d = alloc_one(struct driver);
    driver_init(d);
    *state = d;
    return 0;
}

int driver_teardown(void **state)
{
    driver_finish(*state);
    free(*state);
    return 0;
}
