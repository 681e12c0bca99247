/* A worker that works well: its answers to its supervisor, and what it refuses in which state. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "proto/codec.h"
#include "proto/place.h"
#include "tests/unit/worker/driver.h"

static void expect_failed(struct driver *d, struct msg *m, enum err_code code)
{
    struct answer a;
    driver_ask(d, m, &a, MSG_FAILED);
    if (a.m.failed.code != code) {
        fail_msg("%.*s", VIEW_ARG(a.m.failed.message));
    }
    assert_true(a.m.failed.message.len > 0);
    answer_finish(&a);
}

/* ---- opening and closing -------------------------------------------------------------------- */

static void a_sandbox_is_opened_used_and_closed(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    struct msg m = make_open("", false);
    buf_init(&out, 1 << 20);
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_OPENED);
    assert_true(view_is(a.m.opened.backend, "fake"));
    assert_int_equal(a.m.opened.languages.count, 2);
    assert_true(view_is(a.m.opened.languages.items[1], "python"));
    assert_true(a.m.opened.workspace.len > 0);
    assert_int_equal(a.m.opened.unapplied.count, 1);
    assert_true(a.m.opened.unapplied.items[0].len > 10 &&
                memcmp(a.m.opened.unapplied.items[0].data, "isolation:", 10) == 0);
    answer_finish(&a);
    driver_run(d, "op1", "echo hello", 5000, &a, &out);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    assert_int_equal(out.len, 5);
    assert_memory_equal(out.data, "hello", 5);
    answer_finish(&a);
    driver_close(d);
    buf_finish(&out);
    /* nothing is left but the socket, which belongs to the test */
    char path[128];
    static const char *const made[] = {"workspace", "home", "agent.sock", "agent.pid"};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", d->dir, made[i]);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void open_can_be_repeated_and_gets_the_same_answer(void **state)
{
    struct driver *d = *state;
    struct answer first, again, attach;
    struct msg m = make_open("", false);
    driver_start(d, 1);
    driver_ask(d, &m, &first, MSG_OPENED);
    driver_ask(d, &m, &again, MSG_OPENED);
    m.open.attach = true;
    driver_ask(d, &m, &attach, MSG_OPENED);
    assert_int_equal(again.m.opened.languages.count, 2);
    assert_int_equal(attach.m.opened.languages.count, 2);
    answer_finish(&first);
    answer_finish(&again);
    answer_finish(&attach);
    driver_close(d);
}

static void a_worker_that_was_never_opened_closes_too(void **state)
{
    struct driver *d = *state;
    driver_start(d, 1);
    driver_close(d);
}

/* Begins code that runs for long, and waits for it in `ret`. */
static void begin_sleep(struct driver *d, struct answer *ret)
{
    struct answer begun;
    struct msg m = make_start("op1", "sleep 60000", 0, 0);
    driver_ask(d, &m, &begun, MSG_OUTPUT);
    assert_int_equal(begun.m.output.state, OP_RUNNING);
    answer_finish(&begun);
    m = make_wait("op1", 0, 20000);
    driver_send(d, &m, ret);
}

static void closing_ends_what_runs_as_cancelled(void **state)
{
    struct driver *d = *state;
    struct answer run, close;
    driver_start(d, 1);
    driver_open(d, "", false);
    begin_sleep(d, &run);
    struct msg bye = {.type = MSG_CLOSE, .close.grace_ms = 2000};
    driver_send(d, &bye, &close);
    driver_wait(d, &run, MSG_OUTPUT);
    assert_int_equal(run.m.output.status, OP_STATUS_CANCELLED);
    driver_wait(d, &close, MSG_OK);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
    answer_finish(&run);
    answer_finish(&close);
}

static void everybody_who_asks_to_close_is_answered(void **state)
{
    struct driver *d = *state;
    struct answer a[3];
    struct msg m = {.type = MSG_CLOSE};
    driver_start(d, 1);
    driver_open(d, "fault:destroy=slow:100", false);
    for (int i = 0; i < 3; i++) {
        driver_send(d, &m, &a[i]);
    }
    for (int i = 0; i < 3; i++) {
        driver_wait(d, &a[i], MSG_OK);
        answer_finish(&a[i]);
    }
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
}

static void a_signal_closes_the_sandbox_in_order(void **state)
{
    struct driver *d = *state;
    struct answer run;
    driver_start(d, 1);
    driver_open(d, "", false);
    begin_sleep(d, &run);
    uv_process_kill(d->process, SIGTERM);
    driver_wait_flag(d, &run.done, "an answer");
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_OK);
    answer_finish(&run);
}

static void expect_place(struct view_list place, const char *text)
{
    CLEANUP_FREE char *found = place_list_text(place);
    assert_int_equal(place.count, 1);
    assert_string_equal(found, text);
}

static void probes_answer_without_a_sandbox(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = {.type = MSG_PROBE};
    m.probe.backend = view_of("fake");
    struct view_list place = place_configured("fake", "unix:///run/engine");
    m.probe.place = place;
    driver_start(d, 1);
    driver_ask(d, &m, &a, MSG_PROBED);
    assert_true(a.m.probed.usable);
    expect_place(a.m.probed.place, "unix:///run/engine");
    assert_int_equal(a.m.probed.tried.count, 1);
    const struct view *item = a.m.probed.tried.items;
    struct msg tried;
    assert_int_equal(msg_decode(MSG_LINK_W, item->data, item->len, &tried, NULL), 0);
    expect_place(tried.engine_tried.place, "unix:///run/engine");
    assert_true(view_is(tried.engine_tried.answer, "it is a fake"));
    msg_finish(&tried);
    answer_finish(&a);
    m.probe.backend = view_of("oci"); /* oci has no engine, so it has no place either */
    expect_failed(d, &m, ERR_INVALID);
    m.probe.backend = view_of("nonsense");
    expect_failed(d, &m, ERR_ENGINE);
    alloc_listfree(&place);
    driver_close(d);
}

static void sweeping_removes_what_a_dead_worker_left(void **state)
{
    struct driver *d = *state;
    struct answer a;
    char path[128];
    struct msg m = {.type = MSG_SWEEP};
    m.sweep.backend = view_of("fake");
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_kill(d, SIGKILL);
    driver_wait_link(d, false);
    snprintf(path, sizeof(path), "%s/agent.pid", d->dir);
    assert_int_equal(access(path, F_OK), 0);
    driver_start(d, 2);
    driver_ask(d, &m, &a, MSG_OK);
    assert_int_equal(access(path, F_OK), -1);
    answer_finish(&a);
    driver_close(d);
}

static void the_backend_is_told_where_its_engine_is(void **state)
{
    struct driver *d = *state;
    struct msg m = {.type = MSG_SWEEP};
    m.sweep.backend = view_of("fake");
    struct view_list sweep = place_configured("fake", "fault:destroy=fail");
    struct view_list open = place_configured("fake", "fault:create=fail");
    m.sweep.place = sweep;
    driver_start(d, 1);
    expect_failed(d, &m, ERR_ENGINE);
    m = make_open("", false);
    m.open.place = open;
    expect_failed(d, &m, ERR_ENGINE);
    alloc_listfree(&sweep);
    alloc_listfree(&open);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_SETUP);
}

static void an_image_is_pulled_only_if_that_is_allowed(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_open("fault:image=absent", false);
    driver_start(d, 1);
    expect_failed(d, &m, ERR_IMAGE);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_SETUP);
    driver_wait_link(d, false);
    driver_start(d, 2);
    m.open.pull = true;
    driver_ask(d, &m, &a, MSG_OPENED);
    answer_finish(&a);
    driver_close(d);
}

static void a_creation_tells_how_it_gets_on(void **state)
{
    struct driver *d = *state;
    struct answer open, a, idle;
    struct msg m = make_open("fault:create=progress:5", false);
    struct msg ask = {.type = MSG_PROGRESS};
    ask.progress.wait_ms = 20000;
    driver_start(d, 1);
    driver_send(d, &m, &open);
    uint64_t last = 0;
    for (;;) {
        driver_ask(d, &ask, &a, MSG_PROGRESS_OK);
        const struct msg_progress_ok *p = &a.m.progress_ok;
        if (p->text.len == 0) {
            break; /* it has ended, so this is answered without waiting for the long time */
        }
        char text[32];
        assert_true(p->number > last && p->number <= 5);
        last = p->number;
        snprintf(text, sizeof(text), "layer %u", (unsigned)p->number);
        assert_true(view_is(p->text, text));
        assert_int_equal(p->done, p->number * 1000);
        assert_int_equal(p->total, 5000);
        ask.progress.seen = p->number;
        answer_finish(&a);
    }
    assert_int_equal(last, 5);
    assert_int_equal(a.m.progress_ok.number, 5);
    answer_finish(&a);
    driver_wait(d, &open, MSG_OPENED);
    answer_finish(&open);
    driver_ask(d, &ask, &idle, MSG_PROGRESS_OK);
    assert_int_equal(idle.m.progress_ok.number, 5);
    answer_finish(&idle);
    driver_close(d);
}

static void who_waits_for_progress_is_answered_when_the_sandbox_is_closed(void **state)
{
    struct driver *d = *state;
    struct answer open, progress, a;
    struct msg m = make_open("fault:create=slow:60000", false);
    struct msg ask = {.type = MSG_PROGRESS, .progress.wait_ms = 60000};
    struct msg close = {.type = MSG_CLOSE};
    driver_start(d, 1);
    driver_send(d, &m, &open);
    driver_send(d, &ask, &progress);
    driver_ask(d, &close, &a, MSG_OK);
    driver_wait(d, &progress, MSG_PROGRESS_OK);
    assert_int_equal(progress.m.progress_ok.number, 0);
    driver_wait(d, &open, MSG_FAILED);
    answer_finish(&a);
    answer_finish(&progress);
    answer_finish(&open);
    driver_wait_exit(d);
}

static void pings_and_figures_are_answered(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg ping = {.type = MSG_PING, .ping.value = 4711};
    struct msg status = {.type = MSG_STATUS, .status.usage = true};
    driver_start(d, 1);
    driver_ask(d, &ping, &a, MSG_PONG);
    assert_int_equal(a.m.pong.value, 4711);
    answer_finish(&a);
    driver_open(d, "", false);
    driver_run(d, "op1", "echo x", 1000, &a, NULL);
    answer_finish(&a);
    driver_ask(d, &status, &a, MSG_STATUS_OK);
    assert_int_equal(a.m.status_ok.pids, 1);          /* from the backend */
    assert_int_equal(a.m.status_ok.disk_bytes, 4096); /* from the agent */
    assert_int_equal(a.m.status_ok.ops_total, 1);
    answer_finish(&a);
    driver_close(d);
}

/* ---- limits --------------------------------------------------------------------------------- */

static struct msg make_limits(uint64_t memory_bytes, uint64_t cpu_milli)
{
    struct msg m = {.type = MSG_LIMITS};
    m.limits.memory_bytes = memory_bytes;
    m.limits.cpu_milli = cpu_milli;
    return m;
}

static void limits_change_while_it_is_open(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg same = make_limits(64u << 20, 1000);
    struct msg other = make_limits(32u << 20, 500);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &same, &a, MSG_OK);
    answer_finish(&a);
    driver_ask(d, &other, &a, MSG_OK);
    answer_finish(&a);
    driver_close(d);
}

static void limits_that_cannot_be_changed_are_refused(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg same = make_limits(64u << 20, 1000);
    struct msg other = make_limits(32u << 20, 1000);
    struct msg none = make_limits(0, 0);
    driver_start(d, 1);
    driver_open(d, "fault:limit=fail", false);
    expect_failed(d, &other, ERR_CONFIG);
    expect_failed(d, &none, ERR_CONFIG);
    driver_ask(d, &same, &a, MSG_OK); /* the backend is not asked */
    answer_finish(&a);
    driver_close(d);
}

static void a_change_of_limits_that_never_ends_holds_nothing_up(void **state)
{
    struct driver *d = *state;
    static struct answer changed; /* it is never answered */
    struct msg other = make_limits(32u << 20, 1000);
    driver_start(d, 1);
    driver_open(d, "fault:limit=hang", false);
    driver_send(d, &other, &changed);
    expect_failed(d, &other, ERR_BUSY);
    driver_close(d);
}

/* ---- hello ---------------------------------------------------------------------------------- */

static void nothing_is_done_before_hello(void **state)
{
    struct driver *d = *state;
    struct msg m = make_open("", false);
    driver_spawn(d, 1);
    expect_failed(d, &m, ERR_PROTOCOL);
    struct answer a;
    struct msg hello = make_hello(1);
    driver_ask(d, &hello, &a, MSG_HELLO_OK); /* and then it works as usual */
    answer_finish(&a);
    driver_close(d);
}

static void refused_with(struct driver *d, struct msg hello, enum err_code code)
{
    driver_spawn(d, 3);
    expect_failed(d, &hello, code);
    assert_int_equal(driver_wait_exit(d), EXIT_CODE_PROTOCOL);
    driver_wait_link(d, false);
}

static void a_hello_that_does_not_fit_is_refused(void **state)
{
    struct driver *d = *state;
    struct msg m = make_hello(3);
    m.hello.version = 99;
    refused_with(d, m, ERR_VERSION);
    m = make_hello(3);
    m.hello.protocol = view_of("cloister-agent");
    refused_with(d, m, ERR_VERSION);
    m = make_hello(3);
    m.hello.sandbox = view_of("another");
    refused_with(d, m, ERR_PROTOCOL);
    m = make_hello(4);
    refused_with(d, m, ERR_PROTOCOL);
}

/* ---- operations ----------------------------------------------------------------------------- */

static void output_of_any_size_arrives_whole(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct buf out;
    buf_init(&out, 4 << 20);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "flood 2000000", 10000, &a, &out);
    assert_int_equal(out.len, 2000000);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_run(d, "op2", "utf8", 10000, &a, NULL);
    assert_memory_equal(a.m.output.out.data, "\xff\xfe\x80", 3);
    answer_finish(&a);
    buf_finish(&out);
    driver_close(d);
}

static void a_repeated_start_runs_nothing_twice(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_run(d, "op1", "echo x", 1000, &a, NULL);
    answer_finish(&a);
    driver_run(d, "op1", "echo y", 1000, &a, NULL); /* joins the running operation */
    assert_memory_equal(a.m.output.out.data, "x", 1);
    answer_finish(&a);
    driver_run(d, "op2", "runs", 1000, &a, NULL);
    assert_memory_equal(a.m.output.out.data, "2", 1);
    answer_finish(&a);
    driver_close(d);
}

static void the_deadline_interrupts(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    uint64_t begin = clock_ms();
    driver_run(d, "op1", "sleep 60000", 300, &a, NULL);
    assert_true(clock_ms() - begin >= 300);
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    assert_int_equal(a.m.output.exit_code, 130);
    answer_finish(&a);
    driver_run(d, "op2", "echo fine", 1000, &a, NULL);
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_close(d);
}

static void what_ignores_the_interrupt_is_killed(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "", false);
    uint64_t begin = clock_ms();
    driver_run(d, "op1", "stubborn 60000", 200, &a, NULL);
    assert_true(clock_ms() - begin >= 200 + TIME_INTERRUPT_MS);
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    assert_int_equal(a.m.output.exit_code, 137);
    answer_finish(&a);
    driver_close(d);
}

static void waiting_in_the_queue_does_not_count_towards_the_deadline(void **state)
{
    struct driver *d = *state;
    struct answer first, a;
    struct msg m = make_start("op1", "sleep 900", 5000, 20000);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_send(d, &m, &first);
    driver_run(d, "op2", "sleep 1", 850, &a, NULL); /* after 900 in the queue */
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_wait(d, &first, MSG_OUTPUT);
    answer_finish(&first);
    driver_run(d, "op3", "sleep 60000", 200, &a, NULL); /* it still has its deadline */
    assert_int_equal(a.m.output.status, OP_STATUS_TIMEOUT);
    answer_finish(&a);
    driver_close(d);
}

/* Its kill has been sent, and the kernel takes some time. */
static void waiting_for_the_end_of_what_was_killed_does_not_count_either(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg m = make_start("op1", "dying 1500", 20000, 0);
    struct msg kill = make_cancel("op1", true);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_ask(d, &m, &a, MSG_OUTPUT);
    answer_finish(&a);
    driver_ask(d, &kill, &a, MSG_OK);
    answer_finish(&a);
    driver_run(d, "op2", "sleep 1", 1400, &a, NULL); /* after 1500 in the queue */
    assert_int_equal(a.m.output.status, OP_STATUS_OK);
    answer_finish(&a);
    driver_close(d);
}

static void a_queued_operation_is_timed_from_when_it_begins(void **state)
{
    struct driver *d = *state;
    struct answer first, second;
    struct msg m = make_start("op1", "sleep 500", 5000, 20000);
    driver_start(d, 1);
    driver_open(d, "", false);
    uint64_t begin = clock_ms();
    driver_send(d, &m, &first);
    driver_run(d, "op2", "sleep 60000", 400, &second, NULL);
    assert_true(clock_ms() - begin >= 900);
    assert_int_equal(second.m.output.status, OP_STATUS_TIMEOUT);
    driver_wait(d, &first, MSG_OUTPUT);
    assert_int_equal(first.m.output.status, OP_STATUS_OK);
    answer_finish(&first);
    answer_finish(&second);
    driver_close(d);
}

static void cancelling_ends_an_operation_even_a_stubborn_one(void **state)
{
    struct driver *d = *state;
    struct answer run, ok;
    struct msg m = make_start("op1", "stubborn 60000", 0, 20000);
    struct msg cancel = make_cancel("op1", false);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_send(d, &m, &run);
    driver_ask(d, &cancel, &ok, MSG_OK);
    answer_finish(&ok);
    driver_wait(d, &run, MSG_OUTPUT);
    assert_int_equal(run.m.output.status, OP_STATUS_CANCELLED);
    assert_int_equal(run.m.output.exit_code, 137);
    answer_finish(&run);
    cancel = make_cancel("never-heard-of", false);
    driver_ask(d, &cancel, &ok, MSG_OK);
    answer_finish(&ok);
    driver_close(d);
}

static void slow_operations_do_not_hold_up_others(void **state)
{
    struct driver *d = *state;
    struct answer slow, fast;
    struct msg m = make_start("op1", "sleep 5000", 10000, 20000);
    driver_start(d, 1);
    driver_open(d, "", false);
    driver_send(d, &m, &slow);
    m = make_start("op2", "echo x", 1000, 1000);
    m.start.language = view_of("bash");
    driver_ask(d, &m, &fast, MSG_OUTPUT);
    assert_int_equal(fast.m.output.state, OP_DONE);
    assert_false(slow.done);
    answer_finish(&fast);
    m = make_cancel("op1", true);
    driver_ask(d, &m, &fast, MSG_OK);
    answer_finish(&fast);
    driver_wait(d, &slow, MSG_OUTPUT);
    answer_finish(&slow);
    driver_close(d);
}

static void a_crash_is_a_memory_kill_only_if_the_backend_saw_one(void **state)
{
    struct driver *d = *state;
    struct answer a;
    driver_start(d, 1);
    driver_open(d, "fault:usage=oom", false); /* the engine reported exactly one kill */
    driver_run(d, "op1", "killed", 1000, &a, NULL);
    assert_int_equal(a.m.output.status, OP_STATUS_MEMORY);
    assert_true(view_is(a.m.output.error_message,
                        "killed for exceeding the sandbox's memory limit of 64 MiB"));
    answer_finish(&a);
    driver_run(d, "op2", "crash", 1000, &a, NULL);
    assert_int_equal(a.m.output.status, OP_STATUS_CRASHED);
    answer_finish(&a);
    driver_close(d);
}

static void expect_status(struct driver *d, const char *op, const char *script, uint64_t status)
{
    struct answer a;
    driver_run(d, op, script, 1000, &a, NULL);
    assert_int_equal(a.m.output.status, status);
    answer_finish(&a);
}

/* An engine that only remembers that there was a kill; the agent counts. */
static void every_memory_kill_is_told_although_the_backend_cannot_count(void **state)
{
    struct driver *d = *state;
    struct answer a;
    struct msg status = {.type = MSG_STATUS, .status.usage = true};
    driver_start(d, 1);
    driver_open(d, "fault:usage=coarse:0", false);
    expect_status(d, "op1", "killed", OP_STATUS_ERROR);
    expect_status(d, "op2", "oom", OP_STATUS_MEMORY);
    expect_status(d, "op3", "crash", OP_STATUS_CRASHED);
    expect_status(d, "op4", "oom", OP_STATUS_MEMORY);
    expect_status(d, "op5", "oom", OP_STATUS_MEMORY);
    driver_ask(d, &status, &a, MSG_STATUS_OK);
    assert_int_equal(a.m.status_ok.oom_kills, 3);
    answer_finish(&a);
    driver_kill(d, SIGKILL);
    driver_wait_link(d, false);
    driver_start(d, 2); /* another worker does not count old kills as new */
    driver_open(d, "fault:usage=coarse:0", true);
    expect_status(d, "op6", "crash", OP_STATUS_CRASHED);
    expect_status(d, "op7", "oom", OP_STATUS_MEMORY);
    driver_close(d);
}

static void a_backend_that_only_knows_of_one_kill_is_believed_once(void **state)
{
    struct driver *d = *state;
    driver_start(d, 1);
    driver_open(d, "fault:usage=coarse:1", false);
    expect_status(d, "op1", "oom", OP_STATUS_MEMORY); /* the kill is counted for both */
    expect_status(d, "op2", "killed", OP_STATUS_ERROR);
    expect_status(d, "op3", "oom", OP_STATUS_MEMORY);
    driver_close(d);
}

static void a_child_killed_for_memory_does_not_explain_the_end_of_later_code(void **state)
{
    struct driver *d = *state;
    struct answer again;
    struct msg wait = {.type = MSG_WAIT};
    driver_start(d, 1);
    driver_open(d, "fault:usage=coarse:0", false);
    expect_status(d, "op1", "child", OP_STATUS_OK);
    expect_status(d, "op2", "killed", OP_STATUS_ERROR);
    expect_status(d, "op3", "child", OP_STATUS_OK);
    expect_status(d, "op4", "oom", OP_STATUS_MEMORY); /* this operation is charged with it */
    expect_status(d, "op5", "crash", OP_STATUS_CRASHED);
    wait.wait.op = view_of("op4"); /* a repeated question has the same answer */
    wait.wait.wait_ms = 1000;
    driver_ask(d, &wait, &again, MSG_OUTPUT);
    assert_int_equal(again.m.output.status, OP_STATUS_MEMORY);
    answer_finish(&again);
    driver_close(d);
}

/* Queued code begins when that of the child has ended. */
static void a_child_killed_before_its_turn_does_not_explain_the_end_of_queued_code(void **state)
{
    struct driver *d = *state;
    struct answer first, second;
    struct msg m = make_start("op1", "sleep 500 child", 10000, 20000);
    driver_start(d, 1);
    driver_open(d, "fault:usage=coarse:0", false);
    driver_send(d, &m, &first);
    driver_run(d, "op2", "sleep 2000 killed", 20000, &second, NULL);
    assert_int_equal(second.m.output.status, OP_STATUS_ERROR);
    answer_finish(&second);
    driver_wait(d, &first, MSG_OUTPUT);
    assert_int_equal(first.m.output.status, OP_STATUS_OK);
    answer_finish(&first);
    driver_close(d);
}

static void two_that_are_killed_for_memory_side_by_side_are_both_told_so(void **state)
{
    struct driver *d = *state;
    struct answer first, second;
    struct msg m = make_start("op1", "sleep 500 oom", 10000, 20000);
    driver_start(d, 1);
    driver_open(d, "fault:usage=coarse:0", false);
    driver_send(d, &m, &first);
    m = make_start("op2", "sleep 500 oom", 10000, 20000);
    m.start.language = view_of("bash");
    driver_send(d, &m, &second);
    driver_wait(d, &first, MSG_OUTPUT);
    driver_wait(d, &second, MSG_OUTPUT);
    assert_int_equal(first.m.output.status, OP_STATUS_MEMORY);
    assert_int_equal(second.m.output.status, OP_STATUS_MEMORY);
    answer_finish(&first);
    answer_finish(&second);
    expect_status(d, "op3", "killed", OP_STATUS_ERROR);
    driver_close(d);
}

static void an_agent_that_does_not_count_holds_nothing_up(void **state)
{
    struct driver *d = *state;
    driver_start(d, 1);
    driver_open(d, "fault:usage=coarse:0", false);
    expect_status(d, "op1", "mute", OP_STATUS_OK);
    uint64_t begin = clock_ms();
    expect_status(d, "op2", "crash", OP_STATUS_CRASHED);
    assert_true(clock_ms() - begin >= 900); /* it was asked */
    expect_status(d, "op3", "echo x", OP_STATUS_OK);
    driver_close(d);
}

static void a_backend_that_counts_is_enough(void **state)
{
    struct driver *d = *state;
    driver_start(d, 1);
    driver_open(d, "", false);
    /* The agent counts this kill, the backend does not: so the agent was not asked. */
    expect_status(d, "op1", "oom", OP_STATUS_ERROR);
    driver_close(d);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, driver_setup, driver_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_sandbox_is_opened_used_and_closed),
        CASE(open_can_be_repeated_and_gets_the_same_answer),
        CASE(a_worker_that_was_never_opened_closes_too),
        CASE(closing_ends_what_runs_as_cancelled),
        CASE(everybody_who_asks_to_close_is_answered),
        CASE(a_signal_closes_the_sandbox_in_order),
        CASE(probes_answer_without_a_sandbox),
        CASE(sweeping_removes_what_a_dead_worker_left),
        CASE(the_backend_is_told_where_its_engine_is),
        CASE(an_image_is_pulled_only_if_that_is_allowed),
        CASE(a_creation_tells_how_it_gets_on),
        CASE(who_waits_for_progress_is_answered_when_the_sandbox_is_closed),
        CASE(limits_change_while_it_is_open),
        CASE(limits_that_cannot_be_changed_are_refused),
        CASE(a_change_of_limits_that_never_ends_holds_nothing_up),
        CASE(pings_and_figures_are_answered),
        CASE(nothing_is_done_before_hello),
        CASE(a_hello_that_does_not_fit_is_refused),
        CASE(output_of_any_size_arrives_whole),
        CASE(a_repeated_start_runs_nothing_twice),
        CASE(the_deadline_interrupts),
        CASE(what_ignores_the_interrupt_is_killed),
        CASE(waiting_in_the_queue_does_not_count_towards_the_deadline),
        CASE(waiting_for_the_end_of_what_was_killed_does_not_count_either),
        CASE(a_queued_operation_is_timed_from_when_it_begins),
        CASE(cancelling_ends_an_operation_even_a_stubborn_one),
        CASE(slow_operations_do_not_hold_up_others),
        CASE(a_crash_is_a_memory_kill_only_if_the_backend_saw_one),
        CASE(every_memory_kill_is_told_although_the_backend_cannot_count),
        CASE(a_backend_that_only_knows_of_one_kill_is_believed_once),
        CASE(a_child_killed_for_memory_does_not_explain_the_end_of_later_code),
        CASE(a_child_killed_before_its_turn_does_not_explain_the_end_of_queued_code),
        CASE(two_that_are_killed_for_memory_side_by_side_are_both_told_so),
        CASE(an_agent_that_does_not_count_holds_nothing_up),
        CASE(a_backend_that_counts_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
