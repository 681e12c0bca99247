/*
 * Connections to ports of the sandbox's loopback: the agent connects to sockets of this test.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "proto/codec.h"

#define MUCH (64u << 20) /* more than all buffers on the way hold */

/* ---- a server ------------------------------------------------------------------------------- */

struct server {
    int fd, client;
    uint16_t port;
};

static struct server bind_loopback(int family)
{
    struct server s = {.client = -1};
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    in4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in6.sin6_addr = in6addr_loopback;
    s.fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = family == AF_INET ? sizeof(in4) : sizeof(in6);
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6;
    if (s.fd < 0 || bind(s.fd, at, len) < 0) {
        close(s.fd);
        s.fd = -1;
        return s;
    }
    assert_int_equal(getsockname(s.fd, at, &len), 0);
    s.port = ntohs(family == AF_INET ? in4.sin_port : in6.sin6_port);
    return s;
}

static struct server listen_loopback(void)
{
    struct server s = bind_loopback(AF_INET);
    assert_true(s.fd >= 0);
    assert_int_equal(listen(s.fd, 64), 0);
    return s;
}

static void await_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, AGENT_CLIENT_WAIT_MS), 1);
}

static void accept_client(struct server *s)
{
    await_readable(s->fd);
    s->client = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(s->client >= 0);
}

static void expect_told(struct server *s, const char *text)
{
    char got[256];
    size_t len = 0;
    while (len < strlen(text)) {
        await_readable(s->client);
        ssize_t n = recv(s->client, got + len, sizeof(got) - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_int_equal(len, strlen(text));
    assert_memory_equal(got, text, len);
}

static void answer(struct server *s, const char *text)
{
    assert_int_equal(send(s->client, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void hang_up(struct server *s)
{
    close(s->client);
    s->client = -1;
}

static void end_server(struct server *s)
{
    if (s->client >= 0) {
        close(s->client);
    }
    close(s->fd);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static struct msg_start connection(struct fixture *f, uint64_t port, const char *first)
{
    struct msg_start s = agent_code(&f->link, "", "");
    s.kind = OP_CONNECT;
    s.language = view_of("");
    s.data = view_of("");
    s.offset = port;
    s.flags = OP_FLAG_STDIN_OPEN;
    s.has_stdin = first != NULL;
    s.stdin_data = view_of(first != NULL ? first : "");
    return s;
}

static void tell(struct fixture *f, const struct msg_start *s, uint64_t at, const char *text)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_INPUT};
    struct msg reply;
    m.input.op = s->op;
    m.input.at = at;
    m.input.data = view_of(text);
    assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
    assert_int_equal(reply.type, MSG_INPUT_OK);
}

static void expect_failed(struct agent_result *r, enum err_code code, const char *words)
{
    assert_status(r, OP_STATUS_FAILED);
    assert_int_equal(r->last.fail_code, code);
    assert_contains(r->message, words);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void what_is_said_travels_both_ways(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = listen_loopback();
    struct msg_start s = connection(f, server.port, "one ");
    start_only(f, &s, 0);
    accept_client(&server);
    expect_told(&server, "one ");
    tell(f, &s, 0, "two");
    tell(f, &s, 0, "two"); /* repeated after a lost answer */
    expect_told(&server, "two");
    answer(&server, "three");
    hang_up(&server);
    struct agent_result *r = follow(f, s.op.data);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "three");
    end_server(&server);
}

static void who_listens_at_the_other_loopback_is_found(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = bind_loopback(AF_INET6);
    if (server.fd < 0) {
        print_message("this machine has no ::1\n");
        skip();
    }
    assert_int_equal(listen(server.fd, 1), 0);
    struct msg_start s = connection(f, server.port, "hello");
    start_only(f, &s, 0);
    accept_client(&server);
    expect_told(&server, "hello");
    hang_up(&server);
    assert_status(follow(f, s.op.data), OP_STATUS_OK);
    end_server(&server);
}

static void a_port_at_which_nobody_listens_is_told(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = bind_loopback(AF_INET); /* taken, so that nobody else gets it */
    struct msg_start s = connection(f, server.port, "hello");
    expect_failed(run_start(f, &s), ERR_FILE_NOT_FOUND, "nothing listens at port");
    end_server(&server);
}

static void a_number_that_is_no_port_is_refused(void **state)
{
    struct fixture *f = fixture_of(state);
    const uint64_t wrong[] = {0, 65536, INT64_MAX};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct msg_start s = connection(f, wrong[i], NULL);
        expect_failed(run_start(f, &s), ERR_INVALID, "from 1 to 65535");
    }
}

static void an_answer_before_the_end_of_the_question_is_read(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = listen_loopback();
    struct msg_start s = connection(f, server.port, "a long question");
    start_only(f, &s, 0);
    accept_client(&server);
    await_readable(server.client);
    answer(&server, "no");
    hang_up(&server); /* with bytes unread: a reset */
    struct agent_result *r = follow(f, s.op.data);
    assert_string_equal(r->out, "no");
    expect_failed(r, ERR_IO, "broken off");
    end_server(&server);
}

static void who_does_not_take_what_comes_slows_it_down(void **state)
{
    static char data[1u << 16];
    struct fixture *f = fixture_of(state);
    struct server server = listen_loopback();
    struct msg_start s = connection(f, server.port, NULL);
    start_only(f, &s, 0);
    accept_client(&server);
    size_t sent = 0;
    for (int round = 0; round < 2; round++) {
        ssize_t n;
        while (sent < MUCH &&
               (n = send(server.client, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
            sent += (size_t)n;
        }
        if (round == 0) {
            pass_much(f);
        }
    }
    assert_true(sent > LIMIT_OP_OUTPUT);
    assert_true(sent < MUCH);
    shutdown(server.client, SHUT_WR);
    struct agent_result *r = follow(f, s.op.data);
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, sent);
    end_server(&server);
}

static void a_connection_that_is_not_wanted_any_more_is_closed(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = listen_loopback();
    struct msg_start s = connection(f, server.port, NULL);
    char byte;
    start_only(f, &s, 0);
    accept_client(&server);
    cancel(f, s.op.data, OP_STOP_CANCEL, false);
    assert_status(follow(f, s.op.data), OP_STATUS_CANCELLED);
    await_readable(server.client);
    assert_int_equal(recv(server.client, &byte, 1, 0), 0);
    end_server(&server);
}

static void a_connection_ends_at_its_deadline(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = listen_loopback();
    struct msg_start s = connection(f, server.port, NULL);
    s.timeout_ms = 1; /* the agent's own, as without a worker */
    start_only(f, &s, 0);
    accept_client(&server);
    assert_status(follow(f, s.op.data), OP_STATUS_TIMEOUT);
    end_server(&server);
}

static void there_are_so_many_and_no_more(void **state)
{
    struct fixture *f = fixture_of(state);
    struct server server = listen_loopback();
    struct msg_start s[LIMIT_CONNECTS];
    char ids[LIMIT_CONNECTS][LIMIT_NAME + 1]; /* those of agent_code() are reused */
    for (size_t i = 0; i < LIMIT_CONNECTS; i++) {
        s[i] = connection(f, server.port, NULL);
        snprintf(ids[i], sizeof(ids[i]), "%s", s[i].op.data);
        start_only(f, &s[i], 0);
    }
    struct msg_start more = connection(f, server.port, NULL);
    assert_int_equal(run_start(f, &more)->failed, ERR_BUSY);
    cancel(f, ids[0], OP_STOP_CANCEL, false);
    more = connection(f, server.port, NULL);
    start_only(f, &more, 0);
    cancel(f, more.op.data, OP_STOP_CANCEL, false);
    for (size_t i = 1; i < LIMIT_CONNECTS; i++) {
        cancel(f, ids[i], OP_STOP_CANCEL, false);
    }
    end_server(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_travels_both_ways),
        cmocka_unit_test(who_listens_at_the_other_loopback_is_found),
        cmocka_unit_test(a_port_at_which_nobody_listens_is_told),
        cmocka_unit_test(a_number_that_is_no_port_is_refused),
        cmocka_unit_test(an_answer_before_the_end_of_the_question_is_read),
        cmocka_unit_test(who_does_not_take_what_comes_slows_it_down),
        cmocka_unit_test(a_connection_that_is_not_wanted_any_more_is_closed),
        cmocka_unit_test(a_connection_ends_at_its_deadline),
        cmocka_unit_test(there_are_so_many_and_no_more),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
