/* The link between supervisor and worker, with both ends on one loop, so that every callback is
 * checked. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/io/ipc.h"
#include "tests/lib/ipc_ask.h"

#define MAX_BYTES   (1u << 20)
#define CONTEXTS    4
#define HELD_MAX    256
#define PATIENCE_MS 20000

struct bench {
    uv_loop_t loop;
    char dir[64];
    char path[96];
    struct ipc_client *client;
    struct ipc_server *server;
    size_t contexts;
    bool client_up, server_up;
    bool server_met; /* there was a link at some time; a refused one ends within the same turn */
    unsigned client_downs;

    bool hold; /* requests are kept instead of echoed */
    struct ipc_request *held[HELD_MAX];
    size_t held_count;
    unsigned seen; /* requests that arrived */
    bool in_order; /* each was numbered one more than the one before */
};

struct reply {
    bool done;
    unsigned calls;
    int rc;
    size_t len;
    unsigned number; /* the number at the beginning of the request */
};

/* ---- fixture -------------------------------------------------------------------------------- */

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
    uv_stop(timer->loop); /* otherwise a turn that runs timers first would block afterwards */
}

static bool run_until(struct bench *b, const bool *flag, uint64_t ms)
{
    bool late = false;
    uv_timer_t *timer = alloc_one(uv_timer_t);
    uv_timer_init(&b->loop, timer);
    timer->data = &late;
    uv_update_time(&b->loop);
    uv_timer_start(timer, on_time, ms, 0);
    while (!*flag && !late) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
    return *flag;
}

static void wait_flag(struct bench *b, const bool *flag, const char *what)
{
    if (!run_until(b, flag, PATIENCE_MS)) {
        fail_msg("waited in vain for %s", what);
    }
}

static void idle(struct bench *b, uint64_t ms)
{
    bool never = false;
    run_until(b, &never, ms);
}

static void on_client_link(void *arg, bool up)
{
    struct bench *b = arg;
    b->client_up = up;
    b->client_downs += up ? 0 : 1;
}

static void on_server_link(void *arg, bool up)
{
    struct bench *b = arg;
    b->server_up = up;
    b->server_met = b->server_met || up;
}

static void on_request(void *arg, struct ipc_request *request, const void *data, size_t len)
{
    struct bench *b = arg;
    unsigned number = 0;
    if (len >= sizeof(number)) {
        memcpy(&number, data, sizeof(number));
        b->in_order = b->in_order && number == b->seen;
    }
    b->seen++;
    if (b->hold && b->held_count < HELD_MAX) {
        b->held[b->held_count++] = request;
    } else {
        ipc_reply(request, data, len);
    }
}

static void open_client(struct bench *b)
{
    struct err err = ERR_INIT;
    if (ipc_client_open(&b->loop, b->path, MAX_BYTES, on_client_link, b, &b->client, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void open_server(struct bench *b)
{
    struct err err = ERR_INIT;
    if (ipc_server_open(&b->loop, b->path, b->contexts, MAX_BYTES, on_request, on_server_link, b,
                        &b->server, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_client(struct bench *b)
{
    bool closed = false;
    ipc_client_close(b->client, on_closed, &closed);
    wait_flag(b, &closed, "the client to close");
    b->client = NULL;
}

static void close_server(struct bench *b)
{
    bool closed = false;
    ipc_server_close(b->server, on_closed, &closed);
    wait_flag(b, &closed, "the server to close");
    b->server = NULL;
}

static int setup(void **state)
{
    struct bench *b = alloc_one(struct bench);
    snprintf(b->dir, sizeof(b->dir), "/tmp/cloister-ipc-XXXXXX");
    assert_non_null(mkdtemp(b->dir));
    snprintf(b->path, sizeof(b->path), "%s/worker.sock", b->dir);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    b->in_order = true;
    b->contexts = CONTEXTS;
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    struct err err = ERR_INIT;
    if (b->server != NULL) {
        close_server(b);
    }
    if (b->client != NULL) {
        close_client(b);
    }
    while (uv_run(&b->loop, UV_RUN_NOWAIT) != 0) {
    }
    assert_int_equal(uv_loop_close(&b->loop), 0);
    assert_int_equal(dir_remove(b->dir, &err), 0);
    free(b);
    return 0;
}

static void on_reply(void *arg, int rc, const void *data, size_t len)
{
    struct reply *r = arg;
    r->done = true;
    r->calls++;
    r->rc = rc;
    r->len = len;
    if (len >= sizeof(r->number)) {
        memcpy(&r->number, data, sizeof(r->number));
    }
}

/* Sends a request of len bytes that begins with a number. */
static void ask(struct bench *b, struct reply *r, unsigned number, size_t len, uint64_t timeout_ms)
{
    struct err err = ERR_INIT;
    char *data = alloc_array(len + 1, 1);
    memset(r, 0, sizeof(*r));
    memcpy(data, &number, len < sizeof(number) ? len : sizeof(number));
    if (ipc_ask_bytes(b->client, data, len, timeout_ms, on_reply, r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    free(data);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void a_request_of_any_size_comes_back_whole(void **state)
{
    struct bench *b = *state;
    static const size_t sizes[] = {0, 1, 4, 5000, 300000, MAX_BYTES};
    struct reply r;
    struct err err = ERR_INIT;
    open_client(b);
    open_server(b);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ask(b, &r, (unsigned)i, sizes[i], 0);
        wait_flag(b, &r.done, "a reply");
        assert_int_equal(r.rc, 0);
        assert_int_equal(r.len, sizes[i]);
    }
    char byte = 0;
    assert_int_equal(ipc_ask_bytes(b->client, &byte, MAX_BYTES + 1, 0, on_reply, &r, &err),
                     -ERR_TOO_BIG);
}

static void requests_arrive_in_the_order_in_which_they_were_made(void **state)
{
    struct bench *b = *state;
    static struct reply r[200];
    open_client(b);
    open_server(b);
    wait_flag(b, &b->client_up, "the link");
    for (unsigned i = 0; i < 200; i++) {
        ask(b, &r[i], i, sizeof(i), 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        wait_flag(b, &r[i].done, "a reply");
        assert_int_equal(r[i].number, i);
    }
    assert_true(b->in_order);
    assert_int_equal(b->seen, 200);
}

static void slow_answers_hold_up_nobody_until_all_contexts_are_taken(void **state)
{
    struct bench *b = *state;
    struct reply r[CONTEXTS + 2];
    open_client(b);
    open_server(b);
    b->hold = true;
    for (unsigned i = 0; i < CONTEXTS + 2; i++) {
        ask(b, &r[i], i, sizeof(i), 0);
    }
    while (b->held_count < CONTEXTS) {
        idle(b, 1);
    }
    idle(b, 50);
    assert_int_equal(b->seen, CONTEXTS); /* the others wait in the socket */
    ipc_reply(b->held[CONTEXTS - 1], "last", 4);
    wait_flag(b, &r[CONTEXTS - 1].done, "the answer that was given first");
    assert_false(r[0].done);
    while (b->held_count < CONTEXTS + 1) {
        idle(b, 1);
    }
    b->hold = false;
    for (size_t i = 0; i < b->held_count; i++) {
        if (i != CONTEXTS - 1) {
            ipc_reply(b->held[i], "late", 4);
        }
    }
    for (unsigned i = 0; i < CONTEXTS + 2; i++) {
        wait_flag(b, &r[i].done, "a reply");
        assert_int_equal(r[i].rc, 0);
    }
}

/* Several answers at once, each larger than the socket's buffer: the first is being sent, the
 * second waits without a callback, the third with one. */
static void answers_that_queue_up_all_arrive_and_their_contexts_serve_again(void **state)
{
    struct bench *b = *state;
    struct reply r[CONTEXTS], small;
    char *large = alloc_array(MAX_BYTES, 1);
    open_client(b);
    open_server(b);
    for (unsigned round = 0; round < 50; round++) {
        unsigned kept = round % CONTEXTS + 1;
        b->hold = true;
        b->held_count = 0;
        for (unsigned i = 0; i < kept; i++) {
            ask(b, &r[i], b->seen + i, sizeof(i), 0);
        }
        while (b->held_count < kept) {
            idle(b, 1);
        }
        b->hold = false;
        for (unsigned i = 0; i < kept; i++) {
            ipc_reply(b->held[i], large, MAX_BYTES);
        }
        for (unsigned i = 0; i < 2 * CONTEXTS; i++) {
            ask(b, &small, b->seen, sizeof(i), 0);
            wait_flag(b, &small.done, "a reply behind the large ones");
            assert_int_equal(small.rc, 0);
        }
        for (unsigned i = 0; i < kept; i++) {
            wait_flag(b, &r[i].done, "a large reply");
            assert_int_equal(r[i].len, MAX_BYTES);
        }
    }
    assert_true(b->in_order);
    free(large);
}

static void no_answer_in_time_is_a_timeout_and_the_link_goes_on(void **state)
{
    struct bench *b = *state;
    struct reply late, next;
    open_client(b);
    open_server(b);
    wait_flag(b, &b->client_up, "the link");
    b->hold = true;
    ask(b, &late, 0, 4, 300);
    while (b->held_count < 1) {
        idle(b, 1);
    }
    wait_flag(b, &late.done, "the timeout");
    assert_int_equal(late.rc, -ERR_TIMEOUT);
    b->hold = false;
    ipc_reply(b->held[0], "late", 4);
    ask(b, &next, 7, 4, 0);
    wait_flag(b, &next.done, "a reply");
    assert_int_equal(next.number, 7);
    assert_int_equal(late.calls, 1);
}

static void a_request_waits_for_a_link_within_its_timeout(void **state)
{
    struct bench *b = *state;
    struct reply hasty, patient;
    open_client(b);
    ask(b, &hasty, 1, 4, 20);
    ask(b, &patient, 2, 4, 0);
    wait_flag(b, &hasty.done, "the timeout");
    assert_int_equal(hasty.rc, -ERR_TIMEOUT);
    open_server(b);
    wait_flag(b, &patient.done, "a reply");
    assert_int_equal(patient.rc, 0);
    assert_int_equal(b->seen, 1); /* requests that timed out were never sent */
}

static void a_lost_link_ends_what_was_sent_and_the_next_peer_is_served(void **state)
{
    struct bench *b = *state;
    struct reply lost, next;
    open_client(b);
    open_server(b);
    b->hold = true;
    ask(b, &lost, 0, 4, 0);
    while (b->held_count < 1) {
        idle(b, 1);
    }
    close_server(b);
    wait_flag(b, &lost.done, "the loss");
    assert_int_equal(lost.rc, -ERR_IO);
    while (b->client_up) {
        idle(b, 1);
    }
    b->hold = false;
    b->held_count = 0;
    open_server(b);
    wait_flag(b, &b->client_up, "the next peer");
    ask(b, &next, 3, 4, 0);
    wait_flag(b, &next.done, "a reply");
    assert_int_equal(next.number, 3);
    assert_int_equal(lost.calls, 1);
}

/* Lets the other side dial in vain for so often: each connection is closed at once. */
static void refuse_dialling(struct bench *b, unsigned times)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", b->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 8), 0);
    uint64_t end_ms = clock_ms() + PATIENCE_MS;
    unsigned dialled = 0;
    while (dialled < times && clock_ms() < end_ms) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0) {
            dialled++;
            close(peer);
        } else {
            idle(b, 1);
        }
    }
    assert_int_equal(dialled, times);
    close(fd);
    assert_int_equal(unlink(b->path), 0);
}

/* Pauses that doubled from 10 ms on without an end would make the twentieth attempt hours late. */
static void the_answering_side_finds_the_next_listener_by_itself(void **state)
{
    struct bench *b = *state;
    struct reply r;
    open_client(b);
    open_server(b);
    wait_flag(b, &b->server_up, "the link");
    close_client(b);
    while (b->server_up) {
        idle(b, 1);
    }
    refuse_dialling(b, 20);
    open_client(b);
    wait_flag(b, &b->server_up, "the link again");
    ask(b, &r, 9, 4, 0);
    wait_flag(b, &r.done, "a reply");
    assert_int_equal(r.number, 9);
}

/* Each client leaves as many requests unanswered as there are contexts. */
static void an_asker_that_dies_again_and_again_leaves_no_context_taken(void **state)
{
    struct bench *b = *state;
    struct reply left[CONTEXTS];
    struct reply r;
    open_client(b);
    open_server(b);
    for (size_t life = 0; life < 10; life++) {
        wait_flag(b, &b->server_up, "the link");
        b->hold = true;
        b->held_count =
            life * CONTEXTS; /* the oldest requests are never answered, the others late */
        for (size_t i = 0; i < CONTEXTS; i++) {
            ask(b, &left[i], b->seen + (unsigned)i, 4, 0);
        }
        while (b->held_count < (life + 1) * CONTEXTS) {
            idle(b, 1);
        }
        close_client(b);
        for (size_t i = 0; i < CONTEXTS; i++) {
            assert_true(left[i].done && left[i].rc < 0);
        }
        while (b->server_up) {
            idle(b, 1);
        }
        open_client(b);
    }
    b->hold = false;
    ask(b, &r, 4711, 4, 0);
    wait_flag(b, &r.done, "a reply");
    assert_int_equal(r.number, 4711);
    for (size_t i = CONTEXTS; i < b->held_count; i++) {
        ipc_reply(b->held[i], "late", 4); /* the answer has no receiver */
    }
    ask(b, &r, 4712, 4, 0);
    wait_flag(b, &r.done, "a reply");
    assert_int_equal(r.number, 4712);
    assert_int_equal(r.calls, 1);
}

static void a_second_peer_is_refused(void **state)
{
    struct bench *b = *state;
    struct bench second = {.in_order = true};
    struct reply r;
    struct err err = ERR_INIT;
    bool closed = false;
    open_client(b);
    open_server(b);
    wait_flag(b, &b->client_up, "the link");
    assert_int_equal(ipc_server_open(&b->loop, b->path, CONTEXTS, MAX_BYTES, on_request,
                                     on_server_link, &second, &second.server, &err),
                     0);
    wait_flag(b, &second.server_met, "the second to reach it, and to be refused");
    ask(b, &r, 5, 4, 0);
    wait_flag(b, &r.done, "a reply");
    assert_int_equal(b->seen, 1);
    assert_int_equal(second.seen, 0);
    assert_int_equal(b->client_downs, 0);
    ipc_server_close(second.server, on_closed, &closed);
    wait_flag(b, &closed, "the second to close");
}

static size_t count_descriptors(void)
{
    DIR *dir = opendir("/dev/fd");
    size_t n = 0;
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n;
}

/* A peer that is refused dials repeatedly, so it is closed during an attempt. */
static void what_is_closed_leaves_nothing_behind(void **state)
{
    struct bench *b = *state;
    struct bench second = {.in_order = true};
    struct err err = ERR_INIT;
    open_client(b);
    open_server(b);
    wait_flag(b, &b->client_up, "the link");
    size_t before = count_descriptors();
    for (unsigned i = 0; i < 40; i++) {
        bool closed = false;
        second.server_met = false;
        assert_int_equal(ipc_server_open(&b->loop, b->path, CONTEXTS, MAX_BYTES, on_request,
                                         on_server_link, &second, &second.server, &err),
                         0);
        wait_flag(b, &second.server_met, "the second link");
        idle(b, i % 4);
        ipc_server_close(second.server, on_closed, &closed);
        wait_flag(b, &closed, "the second to close");
    }
    uint64_t end_ms = clock_ms() + PATIENCE_MS;
    while (count_descriptors() > before && clock_ms() < end_ms) {
        idle(b, 1); /* the other side closes its end asynchronously */
    }
    assert_true(count_descriptors() <=
                before); /* fewer are possible, since the case before has ended meanwhile */
    assert_int_equal(b->client_downs, 0);
}

static void closing_under_load_answers_everybody_once(void **state)
{
    struct bench *b = *state;
    static struct reply r[100];
    b->contexts = 128;
    open_client(b);
    open_server(b);
    b->hold = true;
    for (unsigned i = 0; i < 100; i++) {
        ask(b, &r[i], i, 2000, 0);
    }
    while (b->held_count < 2) {
        idle(b, 1);
    }
    close_client(b);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(r[i].calls, 1);
        assert_int_equal(r[i].rc, -ERR_SHUTTING_DOWN);
    }
    b->hold = false;
    for (size_t i = 0; i < b->held_count; i++) {
        ipc_reply(b->held[i], "too late", 8);
    }
}

static void a_closing_client_takes_no_more(void **state)
{
    struct bench *b = *state;
    struct reply r;
    struct err err = ERR_INIT;
    bool closed = false;
    open_client(b);
    ipc_client_close(b->client, on_closed, &closed);
    assert_int_equal(ipc_ask_bytes(b->client, "x", 1, 0, on_reply, &r, &err), -ERR_SHUTTING_DOWN);
    wait_flag(b, &closed, "the client to close");
    b->client = NULL;
}

static void answers_given_before_closing_arrive(void **state)
{
    struct bench *b = *state;
    static struct reply r[CONTEXTS];
    static char large[MAX_BYTES / 2];
    for (int round = 0; round < 10; round++) {
        open_client(b);
        open_server(b);
        b->hold = true;
        b->held_count = 0;
        for (unsigned i = 0; i < CONTEXTS; i++) {
            ask(b, &r[i], i, 4, 0);
        }
        while (b->held_count < CONTEXTS) {
            idle(b, 1);
        }
        for (unsigned i = 0; i < CONTEXTS; i++) {
            ipc_reply(b->held[i], large, i % 2 == 0 ? sizeof(large) : 1);
        }
        close_server(b);
        for (unsigned i = 0; i < CONTEXTS; i++) {
            wait_flag(b, &r[i].done, "an answer");
            assert_int_equal(r[i].rc, 0);
        }
        close_client(b);
    }
}

static void answers_after_closing_are_dropped(void **state)
{
    struct bench *b = *state;
    struct reply r;
    bool closed = false;
    open_client(b);
    open_server(b);
    b->hold = true;
    ask(b, &r, 0, 4, 0);
    while (b->held_count < 1) {
        idle(b, 1);
    }
    ipc_server_close(b->server, on_closed, &closed);
    ipc_reply(b->held[0], "dropped", 7);
    wait_flag(b, &closed, "the server to close");
    b->server = NULL;
    wait_flag(b, &r.done, "the loss");
    assert_int_equal(r.rc, -ERR_IO);
}

static void a_socket_left_behind_is_replaced(void **state)
{
    struct bench *b = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct reply r;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", b->path);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    close(fd);
    open_client(b);
    open_server(b);
    ask(b, &r, 1, 4, 0);
    wait_flag(b, &r.done, "a reply");
    assert_int_equal(r.rc, 0);
}

static void a_path_that_fits_no_socket_address_is_refused(void **state)
{
    struct bench *b = *state;
    struct err err = ERR_INIT;
    struct ipc_client *client = NULL;
    struct ipc_server *server = NULL;
    char path[200];
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(ipc_client_open(&b->loop, path, 10, on_client_link, b, &client, &err),
                     -ERR_TOO_BIG);
    assert_int_equal(
        ipc_server_open(&b->loop, path, 1, 10, on_request, on_server_link, b, &server, &err),
        -ERR_TOO_BIG);
}

static void a_peer_that_is_no_nng_harms_nobody(void **state)
{
    struct bench *b = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct reply r;
    char hello[8];
    open_client(b);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", b->path);
    for (int i = 0; i < 3; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        if (i > 0) {
            assert_int_equal(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
        }
        /* nng's listener fails if a peer dies before it has been sent this */
        assert_int_equal(read(fd, hello, sizeof(hello)), sizeof(hello));
        close(fd);
    }
    open_server(b);
    ask(b, &r, 4, 4, 0);
    wait_flag(b, &r.done, "a reply");
    assert_int_equal(r.number, 4);
}

/* The peer connects at any moment of the close, also after the first look for its connection. */
static void a_peer_that_comes_while_a_client_closes_is_let_go(void **state)
{
    struct bench *b = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", b->path);
    for (int i = 0; i < 20; i++) {
        bool closed = false;
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        open_client(b);
        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        ipc_client_close(b->client, on_closed, &closed);
        wait_flag(b, &closed, "the client to close");
        b->client = NULL;
        close(fd);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_request_of_any_size_comes_back_whole),
        CASE(requests_arrive_in_the_order_in_which_they_were_made),
        CASE(slow_answers_hold_up_nobody_until_all_contexts_are_taken),
        CASE(answers_that_queue_up_all_arrive_and_their_contexts_serve_again),
        CASE(no_answer_in_time_is_a_timeout_and_the_link_goes_on),
        CASE(a_request_waits_for_a_link_within_its_timeout),
        CASE(a_lost_link_ends_what_was_sent_and_the_next_peer_is_served),
        CASE(the_answering_side_finds_the_next_listener_by_itself),
        CASE(an_asker_that_dies_again_and_again_leaves_no_context_taken),
        CASE(a_second_peer_is_refused),
        CASE(what_is_closed_leaves_nothing_behind),
        CASE(closing_under_load_answers_everybody_once),
        CASE(a_closing_client_takes_no_more),
        CASE(answers_given_before_closing_arrive),
        CASE(answers_after_closing_are_dropped),
        CASE(a_socket_left_behind_is_replaced),
        CASE(a_path_that_fits_no_socket_address_is_refused),
        CASE(a_peer_that_is_no_nng_harms_nobody),
        CASE(a_peer_that_comes_while_a_client_closes_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
