/* The queue from threads to a loop. Under ThreadSanitizer (suite `threads`) the test shows that its
 * lock is sufficient; in all builds that nothing is lost, doubled or reordered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/io/loop.h"

#define THREADS 4
#define ITEMS   500

struct parcel {
    struct loop_item item; /* first */
    unsigned from, number;
    bool queued; /* under the queue's lock */
};

struct post {
    uv_loop_t loop;
    struct loop_queue queue;
    uv_thread_t threads[THREADS];
    struct sender {
        struct post *post;
        unsigned number;
        struct parcel parcels[ITEMS];
    } senders[THREADS];
    unsigned next[THREADS]; /* the next number expected of each thread; used by the loop only */
    unsigned again;         /* how often the first parcels have arrived; used by the loop only */
    bool swapped, closed;
};

static void stop_if_all_came(struct post *p)
{
    for (unsigned i = 0; i < THREADS; i++) {
        if (p->next[i] < ITEMS) {
            return;
        }
    }
    uv_stop(&p->loop);
}

static void on_parcel(void *arg, struct loop_item *item)
{
    struct post *p = arg;
    struct parcel *parcel = (struct parcel *)item;
    p->swapped = p->swapped || parcel->number != p->next[parcel->from];
    p->next[parcel->from]++;
    stop_if_all_came(p);
}

static void put(struct post *p, struct parcel *parcel)
{
    loop_queue_lock(&p->queue);
    bool wake = loop_queue_append(&p->queue, &parcel->item);
    loop_queue_unlock(&p->queue, wake);
}

static void send_all(void *arg)
{
    struct sender *s = arg;
    for (unsigned i = 0; i < ITEMS; i++) {
        s->parcels[i].from = s->number;
        s->parcels[i].number = i;
        put(s->post, &s->parcels[i]);
    }
}

/* Sends the same few parcels again and again: the loop returns one when its callback begins. */
static void send_one_again_and_again(void *arg)
{
    struct sender *s = arg;
    for (unsigned i = 0; i < ITEMS; i++) {
        struct parcel *parcel = &s->parcels[0];
        loop_queue_lock(&s->post->queue);
        bool queue = !parcel->queued;
        parcel->queued = true;
        bool wake = queue && loop_queue_append(&s->post->queue, &parcel->item);
        loop_queue_unlock(&s->post->queue, wake);
    }
}

static void on_parcel_again(void *arg, struct loop_item *item)
{
    struct post *p = arg;
    struct parcel *parcel = (struct parcel *)item;
    loop_queue_lock(&p->queue);
    parcel->queued = false;
    loop_queue_unlock(&p->queue, false);
    p->again++;
}

static void on_queue_closed(uv_handle_t *handle)
{
    struct post *p = handle->data;
    loop_queue_finish(&p->queue);
    p->closed = true;
}

static struct post *post_open(loop_item_fn on_item, uv_thread_cb send)
{
    struct post *p = alloc_one(struct post);
    struct err err = ERR_INIT;
    assert_int_equal(uv_loop_init(&p->loop), 0);
    assert_int_equal(loop_queue_init(&p->queue, &p->loop, on_item, p, &err), 0);
    p->queue.async.data = p;
    for (unsigned i = 0; i < THREADS; i++) {
        p->senders[i].post = p;
        p->senders[i].number = i;
        assert_int_equal(uv_thread_create(&p->threads[i], send, &p->senders[i]), 0);
    }
    return p;
}

static void post_join(struct post *p)
{
    for (unsigned i = 0; i < THREADS; i++) {
        uv_thread_join(&p->threads[i]);
    }
}

static void post_close(struct post *p)
{
    uv_close((uv_handle_t *)&p->queue.async, on_queue_closed);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    assert_true(p->closed);
    assert_int_equal(uv_loop_close(&p->loop), 0);
    free(p);
}

static void what_threads_put_in_comes_out_once_and_in_order(void **state)
{
    (void)state;
    struct post *p = post_open(on_parcel, send_all);
    uv_run(&p->loop, UV_RUN_DEFAULT); /* runs until everything has arrived */
    post_join(p);
    assert_false(p->swapped);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(p->next[i], ITEMS);
    }
    post_close(p);
}

static void an_item_may_be_put_in_again_once_its_callback_runs(void **state)
{
    (void)state;
    struct post *p = post_open(on_parcel_again, send_one_again_and_again);
    while (p->again == 0) {
        uv_run(&p->loop, UV_RUN_ONCE);
    }
    post_join(p);
    uv_run(&p->loop, UV_RUN_NOWAIT); /* for the last wakeup */
    for (unsigned i = 0; i < THREADS; i++) {
        assert_false(p->senders[i].parcels[0].queued);
    }
    post_close(p);
}

static void what_is_left_in_a_queue_can_be_taken_out(void **state)
{
    (void)state;
    struct post *p = post_open(on_parcel, send_all);
    post_join(p);
    unsigned count = 0;
    for (struct loop_item *item = loop_queue_take(&p->queue); item != NULL; item = item->next) {
        count++;
    }
    assert_int_equal(count, THREADS * ITEMS);
    assert_null(loop_queue_take(&p->queue));
    post_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_threads_put_in_comes_out_once_and_in_order),
        cmocka_unit_test(an_item_may_be_put_in_again_once_its_callback_runs),
        cmocka_unit_test(what_is_left_in_a_queue_can_be_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
