/*
 * The endpoint of ports, with a real listener and real clients; the test speaks for the programs in
 * the sandboxes.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "supervisor/web/ports/internal.h"
#include "tests/lib/heap.h"
#include "tests/unit/supervisor/web/lab.h"

#define SIGNATURE   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PROGRAM_MAX 64

/* A program in a sandbox, as the endpoint sees it. */
struct program {
    const struct port_events *events;
    void *arg;
    size_t heard; /* bytes of the request */
    size_t told;  /* of them in the piece that waits for told(); 0: none */
    size_t stopped;
    bool over;
};

struct world {
    struct lab lab;
    struct ports_endpoint *endpoint;
    struct program programs[PROGRAM_MAX];
    size_t begun, taken;
    int refused; /* the status of each address; 0: it is good */
};

/* ---- the way to sandboxes ---- */

/* The sandboxes of alice begin with her name; others are those of bob. */
static int check(void *arg, const struct port_address *address, const char **ret_owner,
                 const char **ret_why)
{
    struct world *w = arg;
    *ret_why = "it is refused";
    *ret_owner = strncmp(address->sandbox, "alice", 5) == 0 ? "alice" : "bob";
    return w->refused;
}

static void *connect_program(void *arg, const struct port_address *address, struct view first,
                             const struct port_events *events, void *events_arg)
{
    struct world *w = arg;
    (void)address;
    assert_true(w->begun < PROGRAM_MAX);
    struct program *p = &w->programs[w->begun++];
    *p = (struct program){.events = events, .arg = events_arg, .heard = first.len};
    return p;
}

static void tell_program(void *connection, uint64_t at, struct view bytes)
{
    struct program *p = connection;
    (void)at;
    p->told = bytes.len; /* it does not read this until the test says so */
}

static void pause_program(void *connection, bool paused)
{
    (void)connection, (void)paused;
}

static void stop_program(void *connection)
{
    ((struct program *)connection)->stopped++; /* teardown, or the test, says that it has ended */
}

static void say(struct program *p, const char *text)
{
    p->events->said(p->arg, view_of(text));
}

static void end_program(struct program *p, enum port_end how)
{
    p->over = true;
    p->events->ended(p->arg, how);
}

/* ---- the server ---- */

static int admit_request(void *arg, struct web_exchange *x)
{
    return ports_endpoint_admit(((struct world *)arg)->endpoint, x);
}

static void handle_request(void *arg, struct web_exchange *x)
{
    ports_endpoint_handle(((struct world *)arg)->endpoint, x);
}

static int open_world(void **state)
{
    struct world *w = alloc_one(struct world);
    const struct ports_source source = {
        .arg = w,
        .check = check,
        .connect = connect_program,
        .tell = tell_program,
        .pause = pause_program,
        .stop = stop_program,
    };
    lab_init(&w->lab);
    w->lab.config.admit = admit_request;
    w->lab.config.handle = handle_request;
    w->lab.config.arg = w;
    w->lab.config.max_body_bytes = 16 << 20;
    w->lab.config.upgrades = true;
    w->endpoint = ports_endpoint_create(&w->lab.loop, &source, 60000);
    lab_open(&w->lab);
    *state = w;
    return 0;
}

static int close_world(void **state)
{
    struct world *w = *state;
    ports_endpoint_close(w->endpoint);
    for (size_t i = 0; i < w->begun; i++) {
        if (!w->programs[i].over) {
            end_program(&w->programs[i], PORT_END_GONE);
        }
    }
    lab_close(&w->lab);
    ports_endpoint_destroy(w->endpoint);
    free(w);
    return 0;
}

/* Asks for a port of this sandbox; `rest` is what follows the request line. The caller closes the
 * connection. */
static int ask(struct world *w, const char *method, const char *sandbox, const char *rest)
{
    int fd = lab_connect(&w->lab);
    CLEANUP_FREE char *text = alloc_printf("%s /ports/%s/8000/1790000000/" SIGNATURE
                                           "/ HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n",
                                           method, sandbox, rest);
    lab_send(&w->lab, fd, text);
    return fd;
}

/* The next program, when it is asked. */
static struct program *next_program(struct world *w)
{
    lab_until_count(&w->lab, &w->begun, w->taken + 1);
    return &w->programs[w->taken++];
}

/* ---- what waits ---- */

/* However a program cuts its answer into pieces: what waits here costs little more than it has
 * bytes. */
static void pieces_that_wait_cost_what_is_in_them(void **state)
{
    struct world *w = *state;
    int fd = ask(w, "GET", "alice1", "");
    struct program *p = next_program(w);
    say(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    char first[8192];
    snprintf(first, sizeof(first), "1;%08000d\r\na\r\n", 0);
    heap_fail(HEAP_NEVER);
    say(p, first);
    for (int i = 0; i < 3000; i++) {
        say(p, "1\r\na\r\n");
    }
    size_t held = heap_held();
    heap_end();
    assert_in_range(held, 3001, 4 * 3001);
    say(p, "0\r\n\r\n");
    struct buf in;
    buf_init(&in, 1 << 20);
    assert_true(lab_read_until(&w->lab, fd, &in, "\r\n0\r\n\r\n"));
    buf_finish(&in);
    close(fd);
}

/* ---- how much may be open ---- */

static void expect_answer(struct world *w, int fd, const char *text)
{
    struct buf in;
    buf_init(&in, 1 << 20);
    assert_true(lab_read_until(&w->lab, fd, &in, text));
    buf_finish(&in);
    close(fd);
}

static void a_sandbox_has_places_left_for_tools(void **state)
{
    struct world *w = *state;
    int fds[LIMIT_CONNECTS];
    for (size_t i = 0; i < LIMIT_CONNECTS; i++) {
        fds[i] = ask(w, "GET", "alice1", "");
        next_program(w);
    }
    expect_answer(w, ask(w, "GET", "alice1", ""), "503 ");
    assert_int_equal(w->begun, LIMIT_CONNECTS);
    int other = ask(w, "GET", "alice2", "");
    next_program(w);
    end_program(&w->programs[0], PORT_END_NOBODY);
    expect_answer(w, fds[0], "502 ");
    fds[0] = ask(w, "GET", "alice1", "");
    next_program(w);
    for (size_t i = 0; i < LIMIT_CONNECTS; i++) {
        close(fds[i]);
    }
    close(other);
}

/* Asks for room for a body, which does not come. The room is there when this has "100 ". */
static int announce(struct world *w, const char *sandbox)
{
    return ask(w, "POST", sandbox, "Content-Length: 16777216\r\nExpect: 100-continue\r\n");
}

static void bodies_of_one_principal_leave_room_for_another(void **state)
{
    struct world *w = *state;
    struct buf in;
    buf_init(&in, 1 << 20);
    int alice = announce(w, "alice1");
    assert_true(lab_read_until(&w->lab, alice, &in, " 100 "));
    expect_answer(w, announce(w, "alice2"), " 503 ");
    int bob = announce(w, "bob1");
    assert_true(lab_read_until(&w->lab, bob, &in, " 100 "));
    expect_answer(w, announce(w, "carol1"), " 503 ");
    buf_finish(&in);
    close(alice);
    close(bob);
}

/* Posts a body that the program does not read. */
static int post_unread(struct world *w, struct program **ret)
{
    enum { BYTES = 1 << 20 };
    char *body = alloc_array(1, BYTES);
    int fd = ask(w, "POST", "alice1", "Content-Length: 1048576\r\n");
    lab_send_bytes(&w->lab, fd, body, BYTES);
    free(body);
    *ret = next_program(w);
    assert_int_equal(w->endpoint->body_bytes, BYTES);
    return fd;
}

static void a_body_that_is_not_read_is_not_kept_as_long_as_the_answer(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = post_unread(w, &p);
    w->endpoint->wait_ms = 1; /* from the head of the answer on */
    say(p, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nit goes ");
    while (w->endpoint->body_bytes > 0) {
        lab_turn(&w->lab, -1);
    }
    p->events->told(p->arg, PORT_TOLD, 0); /* what was on its way */
    say(p, "on");
    expect_answer(w, fd, "it goes on");
}

static void read_on(struct program *p)
{
    p->heard += p->told;
    p->told = 0;
    p->events->told(p->arg, PORT_TOLD, 0);
}

static void a_program_that_has_answered_reads_its_request_to_the_end(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = post_unread(w, &p);
    say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    expect_answer(w, fd, "\r\n\r\nok");
    while (w->endpoint->body_bytes > 0) {
        lab_until_count(&w->lab, &p->told, 1);
        read_on(p);
    }
    assert_true(p->heard > 1 << 20);
    assert_int_equal(p->stopped, 0);
    end_program(p, PORT_END_WELL);
    assert_int_equal(ports_endpoint_open_requests(w->endpoint), 0);
}

static void a_program_that_reads_no_more_when_it_has_answered_is_left(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = post_unread(w, &p);
    say(p, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno");
    assert_int_equal(p->stopped, 1); /* at once: it has refused it */
    assert_int_equal(w->endpoint->body_bytes, 0);
    expect_answer(w, fd, "\r\n\r\nno");
    fd = post_unread(w, &p);
    w->endpoint->wait_ms = 1;
    say(p, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    expect_answer(w, fd, "\r\n\r\nok");
    lab_until_count(&w->lab, &p->stopped, 1);
    assert_int_equal(w->endpoint->body_bytes, 0);
}

/* ---- what may change ---- */

static void an_address_that_expires_before_the_body_is_here_is_refused(void **state)
{
    struct world *w = *state;
    struct buf in;
    buf_init(&in, 1 << 20);
    int fd = ask(w, "POST", "alice1", "Content-Length: 4\r\nExpect: 100-continue\r\n");
    assert_true(lab_read_until(&w->lab, fd, &in, " 100 "));
    w->refused = 410;
    lab_send(&w->lab, fd, "body");
    assert_true(lab_read_until(&w->lab, fd, &in, " 410 "));
    assert_int_equal(w->begun, 0);
    assert_true(lab_read_until(&w->lab, fd, &in, "it is refused"));
    assert_int_equal(w->endpoint->body_bytes, 0);
    buf_finish(&in);
    close(fd);
}

/* ---- the end ---- */

/* What a client of HTTP/1.0 sees behind the first half of an answer without length: 0, or the error
 * of its connection. */
static int end_of_old_answer(struct world *w, enum port_end how)
{
    struct buf in;
    char byte;
    ssize_t n;
    buf_init(&in, 1 << 20);
    int fd = lab_connect(&w->lab);
    lab_send(&w->lab, fd, "GET /ports/alice1/8000/1790000000/" SIGNATURE "/ HTTP/1.0\r\n\r\n");
    struct program *p = next_program(w);
    say(p, "HTTP/1.1 200 OK\r\n\r\nhalf");
    assert_true(lab_read_until(&w->lab, fd, &in, "\r\n\r\nhalf"));
    end_program(p, how);
    while ((n = recv(fd, &byte, 1, 0)) < 0 && errno == EAGAIN) {
        lab_turn(&w->lab, fd);
    }
    int error = n < 0 ? errno : 0;
    buf_finish(&in);
    close(fd);
    return error;
}

static void an_answer_that_breaks_off_never_looks_whole(void **state)
{
    struct world *w = *state;
    assert_int_equal(end_of_old_answer(w, PORT_END_WELL), 0);
    assert_int_equal(end_of_old_answer(w, PORT_END_BROKEN), ECONNRESET);
    assert_int_equal(end_of_old_answer(w, PORT_END_WELL), 0);
}

/* ---- what pages may send ---- */

static void a_page_may_send_what_a_star_allows(void **state)
{
    struct world *w = *state;
    struct buf in;
    buf_init(&in, 1 << 20);
    int fd = ask(w, "OPTIONS", "alice1",
                 "Access-Control-Request-Method: POST\r\n"
                 "Access-Control-Request-Headers: hx-request,, x-own ,hx-a:b,HX-Current-URL\r\n");
    assert_true(lab_read_until(&w->lab, fd, &in, "\r\n\r\n"));
    assert_true(lab_has(&in, "Access-Control-Allow-Headers: Accept, "));
    assert_true(lab_has(&in, ", X-XSRF-TOKEN, hx-request, HX-Current-URL\r\n"));
    buf_finish(&in);
    close(fd);
}

/* ---- WebSockets ---- */

#define SOCKET_HEADERS                                                                             \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define AGREED                                                                                     \
    "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                            \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

/* Opens one whose address expires in so many seconds, and returns the client's connection. */
static int open_socket(struct world *w, uint64_t good_s, struct program **ret)
{
    struct buf in;
    buf_init(&in, 1 << 20);
    int fd = lab_connect(&w->lab);
    CLEANUP_FREE char *text =
        alloc_printf("GET /ports/alice1/8000/%" PRIu64 "/" SIGNATURE "/ HTTP/1.1\r\n"
                     "Host: 127.0.0.1\r\n" SOCKET_HEADERS "\r\n",
                     clock_wall_ms() / 1000 + good_s);
    lab_send(&w->lab, fd, text);
    *ret = next_program(w);
    say(*ret, AGREED "hello ");
    say(*ret, "client");
    assert_true(lab_read_until(&w->lab, fd, &in, "hello client"));
    assert_true(lab_has(&in, "HTTP/1.1 101 "));
    assert_true(lab_has(&in, "Upgrade: websocket\r\n"));
    buf_finish(&in);
    return fd;
}

static bool client_is_cut(struct world *w, int fd)
{
    struct buf in;
    buf_init(&in, 1 << 20);
    bool cut = !lab_read_until(&w->lab, fd, &in, "never");
    buf_finish(&in);
    close(fd);
    return cut;
}

/* Sends until nobody has taken anything for a while of turns. Returns how much was taken. */
static size_t flood(struct world *w, int fd, size_t most)
{
    static char bytes[64 << 10];
    size_t sent = 0;
    for (int idle = 0; idle < 5 && sent < most;) {
        ssize_t n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        lab_turn(&w->lab, -1);
    }
    return sent;
}

static void what_a_program_does_not_read_is_not_read_from_its_client(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = open_socket(w, 3600, &p);
    struct port_transfer *t = LIST_FIRST(&w->endpoint->transfers);
    size_t sent = flood(w, fd, 64 << 20);
    assert_true(sent < 64 << 20); /* the rest is in the kernel, which makes the client wait */
    assert_in_range(t->request.len, 1, 128 << 10);
    for (size_t heard = 0; heard < sent;) { /* whatever is said meanwhile, nothing is lost */
        lab_until_count(&w->lab, &p->told, 1);
        heard += p->told;
        read_on(p);
        assert_true(t->request.len <= 128 << 10);
    }
    assert_int_equal(p->stopped, 0);
    close(fd);
    lab_until_count(&w->lab, &p->stopped, 1);
}

static void a_program_that_reads_nothing_of_it_is_left(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = open_socket(w, 3600, &p);
    w->endpoint->wait_ms = 1;
    lab_send(&w->lab, fd, "a word");
    lab_until_count(&w->lab, &p->stopped, 1);
    assert_true(client_is_cut(w, fd));
}

static void a_socket_on_which_nothing_is_said_ends(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = open_socket(w, 3600, &p);
    w->endpoint->idle_ms = 1;
    ports_wake_at(w->endpoint, 1);
    lab_until_count(&w->lab, &p->stopped, 1);
    assert_true(client_is_cut(w, fd));
}

static void a_socket_ends_with_its_address(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fd = open_socket(w, 2, &p);
    lab_until_count(&w->lab, &p->stopped, 1);
    assert_true(client_is_cut(w, fd));
}

static void what_a_program_said_last_arrives(void **state)
{
    struct world *w = *state;
    struct program *p;
    struct buf in;
    buf_init(&in, 4 << 20);
    int fd = open_socket(w, 3600, &p);
    CLEANUP_FREE char *much = alloc_array(1, 200001);
    memset(much, 'x', 200000);
    say(p, much);
    say(p, "the end");
    end_program(p, PORT_END_WELL);
    assert_true(lab_read_until(&w->lab, fd, &in, "the end"));
    assert_int_equal(in.len, 200007);
    buf_finish(&in);
    assert_true(client_is_cut(w, fd));
    assert_true(LIST_EMPTY(&w->endpoint->transfers));
}

static void open_sockets_hold_places_but_nobody_waits_for_their_end(void **state)
{
    struct world *w = *state;
    struct program *p;
    int fds[LIMIT_CONNECTS];
    for (size_t i = 0; i < LIMIT_CONNECTS; i++) {
        fds[i] = open_socket(w, 3600, &p);
    }
    assert_int_equal(ports_endpoint_open_requests(w->endpoint), 0);
    expect_answer(w, ask(w, "GET", "alice1", SOCKET_HEADERS), "503 ");
    for (size_t i = 0; i < LIMIT_CONNECTS; i++) {
        close(fds[i]);
    }
    for (size_t i = 0; i < LIMIT_CONNECTS; i++) {
        lab_until_count(&w->lab, &w->programs[i].stopped, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_that_wait_cost_what_is_in_them, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_sandbox_has_places_left_for_tools, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(bodies_of_one_principal_leave_room_for_another, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_body_that_is_not_read_is_not_kept_as_long_as_the_answer,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(a_program_that_has_answered_reads_its_request_to_the_end,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(a_program_that_reads_no_more_when_it_has_answered_is_left,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(an_address_that_expires_before_the_body_is_here_is_refused,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(an_answer_that_breaks_off_never_looks_whole, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_page_may_send_what_a_star_allows, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(what_a_program_does_not_read_is_not_read_from_its_client,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(a_program_that_reads_nothing_of_it_is_left, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_socket_on_which_nothing_is_said_ends, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_socket_ends_with_its_address, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_a_program_said_last_arrives, open_world, close_world),
        cmocka_unit_test_setup_teardown(open_sockets_hold_places_but_nobody_waits_for_their_end,
                                        open_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
