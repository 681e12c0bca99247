/* The stdio transport on real pipes, sockets and files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "proto/limits.h"
#include "supervisor/front/stdio_transport.h"

#define DEADLINE_MS 10000

struct world {
    uv_loop_t loop;
    struct stdio *stdio;
    uv_timer_t deadline;
    uv_poll_t feeder, drainer;
    int feed_fd, drain_fd; /* the client's ends, -1 if closed */
    struct buf to_feed;
    size_t fed;
    bool drain_later;  /* the client does not read yet */
    uint64_t flush_ms; /* 0: DEADLINE_MS */

    struct buf lines; /* received lines, each followed by '|' */
    size_t line_count, longest;
    size_t too_long, skipped, ends;
    bool broken;
    size_t answer_bytes; /* each line is answered with this many bytes */
    struct buf drained;
    bool closed;
};

static void on_closed(void *arg)
{
    struct world *w = arg;
    w->closed = true;
    uv_close((uv_handle_t *)&w->deadline, NULL);
}

static void on_line(void *arg, const char *line, size_t len)
{
    struct world *w = arg;
    w->line_count++;
    w->longest = len > w->longest ? len : w->longest;
    if (len < 200) {
        assert_int_equal(buf_add(&w->lines, line, len, NULL), 0);
        assert_int_equal(buf_add_str(&w->lines, "|", NULL), 0);
    }
    if (w->answer_bytes > 0) {
        char *answer = alloc_array(w->answer_bytes + 1, 1);
        memset(answer, 'a' + (int)(w->line_count % 26), w->answer_bytes);
        stdio_send(w->stdio, answer);
    }
}

static void on_too_long(void *arg, const char *piece, size_t len, bool last)
{
    struct world *w = arg;
    w->skipped += len;
    w->too_long += last;
}

static void on_end(void *arg, bool broken)
{
    struct world *w = arg;
    w->ends++;
    w->broken = broken;
    stdio_close(w->stdio, w->flush_ms > 0 ? w->flush_ms : DEADLINE_MS, on_closed, w);
}

static void on_deadline(uv_timer_t *timer)
{
    (void)timer;
    fail_msg("nothing happens any more");
}

static void stop_feeding(struct world *w)
{
    if (w->feed_fd >= 0) {
        uv_close((uv_handle_t *)&w->feeder, NULL);
        close(w->feed_fd);
        w->feed_fd = -1;
    }
}

static void on_feed(uv_poll_t *poll, int status, int events)
{
    struct world *w = poll->data;
    (void)status;
    (void)events;
    size_t left = w->to_feed.len - w->fed;
    ssize_t n = write(w->feed_fd, w->to_feed.data + w->fed, left < 50000 ? left : 50000);
    w->fed += n > 0 ? (size_t)n : 0;
    if (w->fed == w->to_feed.len) {
        stop_feeding(w);
    }
}

static void on_drain(uv_poll_t *poll, int status, int events)
{
    static char bytes[1 << 20];
    struct world *w = poll->data;
    (void)status;
    (void)events;
    ssize_t n = read(w->drain_fd, bytes, sizeof(bytes));
    if (n > 0) {
        assert_int_equal(buf_add(&w->drained, bytes, (size_t)n, NULL), 0);
    } else if (n == 0) {
        uv_close((uv_handle_t *)&w->drainer, NULL);
        close(w->drain_fd);
        w->drain_fd = -1;
    }
}

static void start_draining(struct world *w)
{
    uv_poll_init(&w->loop, &w->drainer, w->drain_fd);
    w->drainer.data = w;
    uv_poll_start(&w->drainer, UV_READABLE, on_drain);
}

static void nonblock(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void world_open(struct world *w, int in_fd, int out_fd)
{
    static const struct stdio_events events = {on_line, on_too_long, on_end};
    struct err err = ERR_INIT;
    assert_int_equal(uv_loop_init(&w->loop), 0);
    uv_timer_init(&w->loop, &w->deadline);
    w->deadline.data = w;
    uv_timer_start(&w->deadline, on_deadline, DEADLINE_MS, 0);
    buf_init(&w->lines, 1u << 20);
    buf_init(&w->drained, 256u << 20);
    if (stdio_open(&w->loop, in_fd, out_fd, &events, w, &w->stdio, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

/* Feeds through a pipe or a socket pair, and reads through another one. */
static void world_run(struct world *w, bool sockets)
{
    int in[2];
    int out[2];
    if (sockets) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, in), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, out), 0);
    } else {
        assert_int_equal(pipe(in), 0);
        assert_int_equal(pipe(out), 0);
    }
    w->feed_fd = in[1];
    w->drain_fd = out[0];
    nonblock(in[1]);
    nonblock(out[0]);
    world_open(w, in[0], out[1]);
    uv_poll_init(&w->loop, &w->feeder, w->feed_fd);
    w->feeder.data = w;
    uv_poll_start(&w->feeder, UV_WRITABLE, on_feed);
    if (!w->drain_later) {
        start_draining(w);
        uv_run(&w->loop, UV_RUN_DEFAULT);
        assert_true(w->closed);
    }
}

static void world_close(struct world *w)
{
    assert_int_equal(uv_loop_close(&w->loop), 0);
    buf_finish(&w->to_feed);
    buf_finish(&w->lines);
    buf_finish(&w->drained);
}

static void feed(struct world *w, const char *bytes, size_t len, size_t times)
{
    if (w->to_feed.max == 0) {
        buf_init(&w->to_feed, 256u << 20);
    }
    for (size_t i = 0; i < times; i++) {
        assert_int_equal(buf_add(&w->to_feed, bytes, len, NULL), 0);
    }
}

static const char *lines_of(struct world *w)
{
    return buf_cstr(&w->lines);
}

static void lines_arrive_without_ends_and_blank_ones_not_at_all(void **state)
{
    for (int sockets = 0; sockets < 2; sockets++) {
        struct world w = {0};
        static const char bytes[] = "one\ntwo\r\n\n  \n\r\n\tthree \nlast";
        feed(&w, bytes, sizeof(bytes) - 1, 1);
        world_run(&w, sockets);
        assert_string_equal(lines_of(&w), "one|two|\tthree |last|");
        assert_int_equal(w.ends, 1);
        assert_false(w.broken);
        world_close(&w);
    }
}

static void a_line_may_be_as_long_as_the_limit(void **state)
{
    struct world w = {0};
    CLEANUP_FREE char *big = alloc_array(LIMIT_LINE_BYTES + 2, 1);
    memset(big, 'x', LIMIT_LINE_BYTES + 1);
    feed(&w, big, LIMIT_LINE_BYTES, 1);
    feed(&w, "\nafter\n", 7, 1);
    world_run(&w, false);
    assert_int_equal(w.too_long, 0);
    assert_int_equal(w.longest, LIMIT_LINE_BYTES);
    assert_string_equal(lines_of(&w), "after|");
    world_close(&w);
}

static void a_longer_line_is_reported_once_and_skipped(void **state)
{
    struct world w = {0};
    CLEANUP_FREE char *big = alloc_array(LIMIT_LINE_BYTES + 2, 1);
    memset(big, 'x', LIMIT_LINE_BYTES + 1);
    feed(&w, "before\n", 7, 1);
    feed(&w, big, LIMIT_LINE_BYTES + 1, 3);
    feed(&w, "\nafter\n", 7, 1);
    feed(&w, big, LIMIT_LINE_BYTES + 1, 1); /* ends without a newline */
    world_run(&w, false);
    assert_int_equal(w.too_long, 2);
    assert_int_equal(w.skipped, 4 * (LIMIT_LINE_BYTES + 1)); /* all of both lines */
    assert_string_equal(lines_of(&w), "before|after|");
    world_close(&w);
}

static void answers_leave_whole_and_in_order(void **state)
{
    struct world w = {.answer_bytes = 100000};
    feed(&w, "x\n", 2, 300);
    world_run(&w, false);
    assert_int_equal(w.drained.len, 300 * 100001);
    for (size_t i = 0; i < 300; i++) {
        const uint8_t *line = w.drained.data + i * 100001;
        assert_int_equal(line[0], 'a' + (int)((i + 1) % 26));
        assert_int_equal(line[99999], line[0]);
        assert_int_equal(line[100000], '\n');
    }
    world_close(&w);
}

static void a_client_that_does_not_read_is_not_read_from(void **state)
{
    struct world w = {.answer_bytes = 1u << 20, .drain_later = true};
    feed(&w, "x\n", 2, 100);
    world_run(&w, false);
    while (w.feed_fd >= 0) {
        uv_run(&w.loop, UV_RUN_ONCE);
    }
    for (int i = 0; i < 20; i++) {
        uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    /* the limit, the content of the pipe, and the line that exceeded the limit */
    assert_true(w.line_count <= LIMIT_OUT_QUEUE / w.answer_bytes + 3);
    assert_true(w.line_count >= LIMIT_OUT_QUEUE / w.answer_bytes);
    start_draining(&w);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.line_count, 100);
    assert_int_equal(w.drained.len, 100 * (w.answer_bytes + 1));
    world_close(&w);
}

static void a_client_that_hangs_up_ends_it(void **state)
{
    struct world w = {.answer_bytes = 1000, .drain_later = true};
    feed(&w, "x\n", 2, 1);
    world_run(&w, false);
    close(w.drain_fd);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_true(w.closed);
    assert_int_equal(w.ends, 1);
    world_close(&w);
}

static void flushing_has_an_end(void **state)
{
    struct world w = {.answer_bytes = 1u << 20, .drain_later = true, .flush_ms = 20};
    feed(&w, "x\n", 2, 3);
    world_run(&w, false);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_true(w.closed);
    close(w.drain_fd);
    world_close(&w);
}

static void files_serve_as_well(void **state)
{
    struct world w = {.answer_bytes = 10, .feed_fd = -1};
    char in_name[] = "/tmp/cloister-stdio-XXXXXX";
    char out_name[] = "/tmp/cloister-stdio-XXXXXX";
    int in = mkstemp(in_name);
    int out = mkstemp(out_name);
    int check = open(out_name, O_RDONLY);
    unlink(in_name);
    unlink(out_name);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(write(in, "some line\n", 10), 10);
    }
    assert_int_equal(lseek(in, 0, SEEK_SET), 0);
    world_open(&w, in, out);
    assert_true(stdio_input_is_file(w.stdio));
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_true(w.closed);
    assert_int_equal(w.line_count, 20000);
    assert_int_equal(lseek(check, 0, SEEK_END), 20000 * 11);
    close(check);
    world_close(&w);
}

int main(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGPIPE, &ignore, NULL) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_arrive_without_ends_and_blank_ones_not_at_all),
        cmocka_unit_test(a_line_may_be_as_long_as_the_limit),
        cmocka_unit_test(a_longer_line_is_reported_once_and_skipped),
        cmocka_unit_test(answers_leave_whole_and_in_order),
        cmocka_unit_test(a_client_that_does_not_read_is_not_read_from),
        cmocka_unit_test(a_client_that_hangs_up_ends_it),
        cmocka_unit_test(flushing_has_an_end),
        cmocka_unit_test(files_serve_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
