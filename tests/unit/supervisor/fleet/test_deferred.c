/* Callbacks that are deferred to the next turn of the loop run there in order, whichever others are
 * cancelled meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "supervisor/fleet/host/deferred.h"

enum { MOST = 8 };

struct world {
    uv_loop_t loop;
    struct deferred deferred;
    struct deferred_task tasks[MOST];
    unsigned ran[MOST];
};

static struct world *w; /* of the running test */

static void count(void *arg)
{
    w->ran[(struct deferred_task *)arg - w->tasks]++;
}

static void post(size_t i, deferred_fn fn)
{
    deferred_post(&w->deferred, &w->tasks[i], fn, &w->tasks[i]);
}

static void post_itself(void *arg)
{
    count(arg);
    post((size_t)((struct deferred_task *)arg - w->tasks), post_itself);
}

static void cancel_the_last(void *arg)
{
    count(arg);
    deferred_cancel(&w->deferred, &w->tasks[2]);
}

static int setup(void **state)
{
    w = alloc_one(struct world);
    uv_loop_init(&w->loop);
    deferred_init(&w->deferred, &w->loop);
    return 0;
}

static void on_closed(void *arg)
{
}

static int teardown(void **state)
{
    deferred_close(&w->deferred, on_closed, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    free(w);
    return 0;
}

static void turn(void)
{
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static void in_order_and_once(void **state)
{
    post(0, count);
    post(1, count);
    post(0, count);
    turn();
    assert_int_equal(w->ran[0], 1);
    assert_int_equal(w->ran[1], 1);
}

static void what_a_task_posts_waits_for_the_next_turn(void **state)
{
    post(0, post_itself);
    turn();
    assert_int_equal(w->ran[0], 1);
    turn();
    assert_int_equal(w->ran[0], 2);
    deferred_cancel(&w->deferred, &w->tasks[0]);
}

static void a_turn_ends_though_its_last_task_is_taken_back(void **state)
{
    post(0, post_itself);
    post(1, cancel_the_last);
    post(2, count);
    turn();
    assert_int_equal(w->ran[0], 1);
    assert_int_equal(w->ran[1], 1);
    assert_int_equal(w->ran[2], 0);
    deferred_cancel(&w->deferred, &w->tasks[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_order_and_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_task_posts_waits_for_the_next_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(a_turn_ends_though_its_last_task_is_taken_back, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
