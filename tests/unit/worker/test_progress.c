/*
 * Progress of a creation: which caller is told what and when, and how the timeout is extended. On a
 * loop of its own, with a timeout short enough for a test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "worker/progress.h"

#define PATIENCE_MS 200
#define CAP_MS      700
#define STEP_MS     20
#define RUN_MS      10000  /* limit of a wait for what does not come */
#define NEVER_MS    600000 /* no test runs for so long */

struct fixture {
    uv_loop_t loop;
    uv_timer_t ticker; /* reports progress every STEP_MS while `ticks` lasts */
    unsigned ticks;
    struct progress *p;
    uint64_t answers; /* number of answers */
    struct msg last;
    char text[256];
    struct ipc_request *request; /* request of the last answer */
    bool late;
    struct err why;
    uint64_t late_ms;
};

static void on_answer(void *arg, struct ipc_request *request, const struct msg *m)
{
    struct fixture *f = arg;
    assert_int_equal(m->type, MSG_PROGRESS_OK);
    f->answers++;
    f->last = *m;
    f->request = request;
    snprintf(f->text, sizeof(f->text), "%.*s", VIEW_ARG(m->progress_ok.text));
}

static void on_late(void *arg, const struct err *err)
{
    struct fixture *f = arg;
    assert_false(f->late);
    f->late = true;
    f->why = *err;
    f->late_ms = clock_ms();
    f->ticks = 0;
}

static void on_tick(uv_timer_t *timer)
{
    struct fixture *f = timer->data;
    if (f->ticks > 0) {
        f->ticks--;
        progress_step(f->p, "layer", 1, 2);
    }
}

static int setup_with(void **state, uint64_t patience_ms, uint64_t cap_ms)
{
    struct fixture *f = alloc_one(struct fixture);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    uv_timer_init(&f->loop, &f->ticker);
    f->ticker.data = f;
    struct progress_setup s = {
        .loop = &f->loop,
        .patience_ms = patience_ms,
        .cap_ms = cap_ms,
        .on_late = on_late,
        .answer = on_answer,
        .arg = f,
    };
    f->p = progress_create(&s);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, NEVER_MS, NEVER_MS);
}

static int setup_patient(void **state)
{
    return setup_with(state, PATIENCE_MS, NEVER_MS);
}

static int setup_capped(void **state)
{
    return setup_with(state, PATIENCE_MS, CAP_MS);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    progress_destroy(f->p);
    uv_close((uv_handle_t *)&f->ticker, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

/* A caller is identified by an address that is never dereferenced. */
static struct ipc_request *asker(struct fixture *f, size_t number)
{
    return (struct ipc_request *)(void *)((char *)f + number);
}

static void ask(struct fixture *f, size_t number, uint64_t seen, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_PROGRESS, .seq = 100 + number};
    m.progress.seen = seen;
    m.progress.wait_ms = wait_ms;
    uv_update_time(&f->loop);
    progress_ask(f->p, asker(f, number), &m);
}

static void expect(const struct fixture *f, uint64_t answers, size_t number, uint64_t step,
                   const char *text)
{
    assert_int_equal(f->answers, answers);
    assert_ptr_equal(f->request, asker((struct fixture *)(uintptr_t)f, number));
    assert_int_equal(f->last.seq, 100 + number);
    assert_int_equal(f->last.progress_ok.number, step);
    assert_string_equal(f->text, text);
}

static void run_until_answer(struct fixture *f, uint64_t answers)
{
    uint64_t end = clock_ms() + RUN_MS;
    while (f->answers < answers && clock_ms() < end && uv_run(&f->loop, UV_RUN_ONCE) != 0) {
    }
    assert_int_equal(f->answers, answers);
}

static void progress_is_told_once_to_each(void **state)
{
    struct fixture *f = *state;
    progress_begin(f->p);
    ask(f, 1, 0, 5000);
    ask(f, 2, 0, 5000);
    assert_int_equal(f->answers, 0);
    progress_step(f->p, "fetching", 10, 1000);
    expect(f, 2, 2, 1, "fetching");
    assert_int_equal(f->last.progress_ok.done, 10);
    assert_int_equal(f->last.progress_ok.total, 1000);
    ask(f, 1, 1, 5000); /* waits for the next progress */
    assert_int_equal(f->answers, 2);
    ask(f, 3, 0, 5000); /* has not seen the latest one */
    expect(f, 3, 3, 1, "fetching");
    progress_step(f->p, "unpacking", 20, 0);
    expect(f, 4, 1, 2, "unpacking");
    ask(f, 4, 77, 5000); /* a number of an earlier worker, which is not waited for */
    expect(f, 5, 4, 2, "unpacking");
}

static void a_wait_has_an_end(void **state)
{
    struct fixture *f = *state;
    progress_begin(f->p);
    ask(f, 1, 0, NEVER_MS);
    ask(f, 2, 0, 10);
    run_until_answer(f, 1);
    expect(f, 1, 2, 0, "");
    uint64_t begin = clock_ms();
    ask(f, 3, 0, 100);
    run_until_answer(f, 2);
    expect(f, 2, 3, 0, "");
    assert_true(clock_ms() - begin >= 95);
    assert_false(f->late);
}

static void nobody_waits_when_there_is_no_creation(void **state)
{
    struct fixture *f = *state;
    ask(f, 1, 0, 5000);
    expect(f, 1, 1, 0, "");
    progress_begin(f->p);
    progress_step(f->p, "fetching", 1, 2);
    ask(f, 2, 1, 5000);
    progress_over(f->p);
    expect(f, 2, 2, 1, ""); /* the last number, and no text */
    assert_int_equal(f->last.progress_ok.total, 0);
    progress_step(f->p, "too late", 1, 2);
    ask(f, 3, 1, 5000);
    expect(f, 3, 3, 1, "");
    ask(f, 4, 0, 5000);
    expect(f, 4, 4, 1, "");
    progress_over(f->p);
}

static void there_is_a_limit_to_who_can_wait(void **state)
{
    struct fixture *f = *state;
    progress_begin(f->p);
    for (size_t i = 0; i < PROGRESS_ASKERS_MAX; i++) {
        ask(f, i, 0, 5000);
    }
    assert_int_equal(f->answers, 0);
    ask(f, 50, 0, 5000);
    expect(f, 1, 0, 0, ""); /* the first of them was evicted */
    progress_over(f->p);
    assert_int_equal(f->answers, PROGRESS_ASKERS_MAX + 1);
}

static void run_until_late(struct fixture *f)
{
    uint64_t end = clock_ms() + RUN_MS;
    uv_timer_start(&f->ticker, on_tick, STEP_MS, STEP_MS);
    while (!f->late && clock_ms() < end) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    assert_true(f->late);
    assert_int_equal(f->why.code, ERR_TIMEOUT);
}

static void silence_is_borne_for_so_long(void **state)
{
    struct fixture *f = *state;
    uint64_t begin = clock_ms();
    uv_update_time(&f->loop);
    progress_begin(f->p);
    ask(f, 1, 0, 60000);
    run_until_late(f);
    assert_true(f->late_ms - begin >= PATIENCE_MS - 5);
    expect(f, 1, 1, 0, "");
    assert_non_null(strstr(f->why.text, "not ready within"));
}

static void progress_renews_patience(void **state)
{
    struct fixture *f = *state;
    uint64_t begin = clock_ms();
    uv_update_time(&f->loop);
    progress_begin(f->p);
    f->ticks = 15; /* for 300 ms */
    run_until_late(f);
    assert_true(f->late_ms - begin >= 15 * STEP_MS + PATIENCE_MS - 10);
    assert_non_null(strstr(f->why.text, "got stuck")); /* at the last step before the timeout */
    assert_non_null(strstr(f->why.text, "layer"));
}

static void progress_does_not_renew_it_for_ever(void **state)
{
    struct fixture *f = *state;
    uint64_t begin = clock_ms();
    uv_update_time(&f->loop);
    progress_begin(f->p);
    f->ticks = UINT32_MAX;
    run_until_late(f);
    assert_true(f->late_ms - begin >= CAP_MS - 5);
    assert_non_null(strstr(f->why.text, "not ready within"));
}

static void any_text_can_be_told(void **state)
{
    struct fixture *f = *state;
    char *text = alloc_array(LIMIT_TEXT + 100, 1);
    memset(text, 'x', LIMIT_TEXT + 99);
    progress_begin(f->p);
    progress_step(f->p, text, UINT64_MAX, UINT64_MAX);
    ask(f, 1, 0, 0);
    assert_int_equal(f->last.progress_ok.text.len, LIMIT_TEXT);
    assert_int_equal(f->last.progress_ok.done, INT64_MAX);
    progress_step(f->p, "caf\xc3", 1, 1); /* cut within a character */
    ask(f, 2, 0, 0);
    expect(f, 2, 2, 2, "caf");
    progress_over(f->p);
    free(text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(progress_is_told_once_to_each),
        CASE(a_wait_has_an_end),
        CASE(nobody_waits_when_there_is_no_creation),
        CASE(there_is_a_limit_to_who_can_wait),
        cmocka_unit_test_setup_teardown(silence_is_borne_for_so_long, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(progress_renews_patience, setup_patient, teardown),
        cmocka_unit_test_setup_teardown(progress_does_not_renew_it_for_ever, setup_capped,
                                        teardown),
        CASE(any_text_can_be_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
