/*
 * Links: which ones are accepted, which one is used, what is lost with one, and how the agent ends.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "proto/version.h"

static struct agent_client another(struct fixture *f)
{
    struct err err = ERR_INIT;
    struct agent_client c;
    assert_int_equal(agent_connect(&c, &f->agent, &err), 0);
    return c;
}

/* True if the agent closes the link without another message. */
static bool is_closed(struct agent_client *c)
{
    struct err err = ERR_INIT;
    struct msg m;
    return agent_receive_reply(c, &m, 5000, &err) == -ERR_GONE;
}

static void assert_alive(struct fixture *f)
{
    struct agent_result *r = run(f, "python", "'alive'");
    assert_string_equal(r->result, "'alive'");
}

static void the_agent_says_which_languages_it_has(void **state)
{
    struct fixture *f = fixture_of(state);
    reconnect(f, 1);
    struct err err = ERR_INIT;
    struct agent_client c = another(f);
    struct msg reply;
    assert_int_equal(agent_hello(&c, 1, &reply, &err), 0);
    assert_int_equal(reply.type, MSG_HELLO_OK);
    assert_true(view_is(reply.hello_ok.protocol, PROTO_AGENT_NAME));
    assert_int_equal(reply.hello_ok.version, PROTO_VERSION);
    /* the languages of this machine, which need not have node */
    size_t count = reply.hello_ok.languages.count;
    assert_in_range(count, 2, 3);
    assert_true(view_is(reply.hello_ok.languages.items[0], "python"));
    assert_true(count == 2 || view_is(reply.hello_ok.languages.items[1], "javascript"));
    assert_true(view_is(reply.hello_ok.languages.items[count - 1], "bash"));
    msg_finish(&reply);
    assert_true(is_closed(&f->link)); /* the newer link is used */
    agent_disconnect(&c);
    reconnect(f, 1);
}

/* A client that disconnects while an answer is on its way leaves the agent without a connection. */
static void a_client_lost_in_the_middle_of_an_answer_leaves_nothing(void **state)
{
    struct fixture *f = fixture_of(state);
    reconnect(f, 1);
    struct err err = ERR_INIT;
    struct msg start = {.type = MSG_START};
    start.start = agent_code(&f->link, "bash", "while :; do echo line; done");
    assert_int_equal(agent_send_msg(&f->link, &start, &err), 0);
    for (int i = 0; i < 3000; i++) {
        struct agent_client c = another(f);
        struct msg reply;
        assert_int_equal(agent_hello(&c, 1, &reply, &err), 0);
        msg_finish(&reply);
        struct msg wait = {.type = MSG_WAIT};
        wait.wait.op = start.start.op;
        wait.wait.wait_ms = 10000;
        wait.wait.skip = true;
        assert_int_equal(agent_send_msg(&c, &wait, &err), 0);
        agent_disconnect(&c);
    }
    reconnect(f, 1);
    struct msg cancel = {.type = MSG_CANCEL};
    struct msg reply;
    cancel.cancel.op = start.start.op;
    cancel.cancel.reason = OP_STOP_CANCEL;
    cancel.cancel.force = true;
    assert_int_equal(agent_ask(&f->link, &cancel, &reply, &err), 0);
    msg_finish(&reply);
    assert_alive(f);
}

static void a_wrong_hello_is_refused(void **state)
{
    struct fixture *f = fixture_of(state);
    reconnect(f, 5);
    for (int i = 0; i < 4; i++) {
        struct err err = ERR_INIT;
        struct agent_client c = another(f);
        struct msg m = agent_hello_message(1);
        struct msg reply;
        m.hello.generation = 5;
        if (i == 0) {
            m.hello.protocol = view_of("something-else");
        } else if (i == 1) {
            m.hello.version = PROTO_VERSION + 1;
        } else if (i == 2) {
            m.hello.sandbox = view_of("otherbox");
        } else {
            m.hello.generation = 4; /* an old worker that has not ended yet */
        }
        assert_int_equal(agent_ask(&c, &m, &reply, &err), 0);
        assert_int_equal(reply.type, MSG_FAILED);
        assert_int_equal(reply.failed.code, i == 1 ? ERR_VERSION : ERR_PROTOCOL);
        assert_true(is_closed(&c));
        agent_disconnect(&c);
    }
    assert_alive(f);
}

static void send_raw(struct agent_client *c, const void *data, size_t len)
{
    assert_int_equal(send(c->fd, data, len, MSG_NOSIGNAL), len);
}

#define RAW(c, text) send_raw((c), (text), sizeof(text) - 1)

static void malformed_messages_close_their_link_only(void **state)
{
    struct fixture *f = fixture_of(state);
    for (int i = 0; i < 6; i++) {
        struct err err = ERR_INIT;
        struct agent_client c = another(f);
        struct msg m = {.type = MSG_STATUS};
        switch (i) {
        case 0:
            RAW(&c, "\xff\xff\xff\xff garbage"); /* a length beyond any frame */
            break;
        case 1:
            RAW(&c, "\0\0\0\4GET /");
            break;
        case 2:
            RAW(&c, "\0\0\0\0");
            break;
        case 3:
            RAW(&c, "\0\0\0\3\x92\x10\0"); /* STATUS without its field */
            break;
        case 4:
            assert_int_equal(agent_send_msg(&c, &m, &err), 0); /* before hello */
            break;
        default:
            m = (struct msg){.type = MSG_OK}; /* a reply instead of a request */
            assert_int_equal(agent_send_msg(&c, &m, &err), 0);
            break;
        }
        assert_true(is_closed(&c));
        agent_disconnect(&c);
        assert_alive(f); /* the accepted link is not affected */
    }
    /* a second HELLO, and garbage, on the accepted link */
    struct err err = ERR_INIT;
    struct msg m = agent_hello_message(1);
    m.hello.generation = 9;
    assert_int_equal(agent_send_msg(&f->link, &m, &err), 0);
    assert_true(is_closed(&f->link));
    reconnect(f, 9);
    RAW(&f->link, "\0\0\0\1\xc1");
    assert_true(is_closed(&f->link));
    reconnect(f, 9);
    assert_alive(f);
}

static void silent_connections_make_room_for_others(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_client c[LIMIT_AGENT_PENDING + 3];
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        c[i] = another(f);
        assert_alive(f); /* the agent has accepted it by now */
        for (uint64_t now = clock_ms(); clock_ms() == now;) {
            poll(NULL, 0, 1); /* the next one is younger, also by a clock of milliseconds */
        }
    }
    assert_true(is_closed(&c[0])); /* the oldest was evicted */
    assert_alive(f);
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        agent_disconnect(&c[i]);
    }
    assert_alive(f);
}

static void half_a_frame_holds_nobody_up(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_client c = another(f);
    RAW(&c, "\0\0\0\100abc");
    assert_alive(f);
    agent_disconnect(&c);
    assert_alive(f);
}

/* User code may know the path (here; in a sandbox it does not even see it), and is refused. */
static void user_code_cannot_be_a_client(void **state)
{
    struct fixture *f = fixture_of(state);
    assert_int_equal(chmod(f->agent.socket, 0777), 0);
    char code[512];
    snprintf(code, sizeof(code),
             "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('%s')\n"
             "s.settimeout(5)\ns.recv(1)",
             f->agent.socket);
    struct agent_result *r = run(f, "python", code);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "b''");
}

static void a_client_that_does_not_read_is_not_read_either(void **state)
{
    struct fixture *f = fixture_of(state);
    struct err err = ERR_INIT;
    struct msg_start s = agent_code(&f->link, "python", "print('x' * 200000)");
    run_start(f, &s);
    /* request it again and again without reading: the agent must stop reading requests */
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of("none");
    unsigned sent = 0;
    struct timeval soon = {.tv_usec = 300000};
    setsockopt(f->link.fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
    while (sent < 2000000 && agent_send_msg(&f->link, &m, &err) == 0) {
        sent++;
    }
    assert_true(sent < 2000000);
    reconnect(f, 9);
    assert_alive(f);
}

static void a_shutdown_leaves_no_process(void **state)
{
    struct fixture *f = fixture_of(state);
    struct err err = ERR_INIT;
    run(f, "bash", "sleep 300 & disown; setsid sleep 301 & echo $!");
    pid_t left = (pid_t)strtol(f->r.out, NULL, 10);
    assert_true(left > 0);
    struct msg m = {.type = MSG_SHUTDOWN};
    assert_int_equal(agent_send_msg(&f->link, &m, &err), 0);
    assert_true(is_closed(&f->link));
    assert_int_equal(agent_wait(&f->agent), EXIT_CODE_OK);
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d", (int)left);
    assert_int_equal(access(path, F_OK), -1);
}

static void an_agent_without_a_link_ends_after_its_grace_period(void **state)
{
    void *own = NULL;
    assert_int_equal(fixture_start_with(&own, (struct agent_options){.grace_ms = 300}), 0);
    struct fixture *f = own;
    poll(NULL, 0, 600); /* the grace period does not run while there is a link */
    assert_alive(f);
    agent_disconnect(&f->link);
    uint64_t before = clock_ms();
    assert_int_equal(agent_wait(&f->agent), EXIT_CODE_ORPHANED);
    assert_true(clock_ms() - before >= 250);
    fixture_stop(&own);
}

static void without_an_interpreter_it_says_so(void **state)
{
    void *own = NULL;
    assert_int_equal(fixture_start_with(&own, (struct agent_options){.path_env = "/nonexistent"}),
                     0);
    struct fixture *f = own;
    struct agent_result *r = run(f, "python", "1");
    assert_int_equal(r->failed, ERR_LANGUAGE);
    assert_contains(r->result, "no interpreter");
    fixture_stop(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_code_cannot_be_a_client), /* first, because it may be left out */
        cmocka_unit_test(the_agent_says_which_languages_it_has),
        cmocka_unit_test(a_client_lost_in_the_middle_of_an_answer_leaves_nothing),
        cmocka_unit_test(a_wrong_hello_is_refused),
        cmocka_unit_test(malformed_messages_close_their_link_only),
        cmocka_unit_test(silent_connections_make_room_for_others),
        cmocka_unit_test(half_a_frame_holds_nobody_up),
        cmocka_unit_test(a_client_that_does_not_read_is_not_read_either),
        cmocka_unit_test(an_agent_without_a_link_ends_after_its_grace_period),
        cmocka_unit_test(without_an_interpreter_it_says_so),
        cmocka_unit_test(
            a_shutdown_leaves_no_process), /* last, because it ends the group's agent */
    };
    /* Running code under a uid of its own needs root; and cmocka's output for skip() is not TAP. */
    size_t left_out = geteuid() == 0 ? 0 : 1;
    if (left_out > 0) {
        fprintf(stderr, "user_code_cannot_be_a_client needs root and is left out\n");
    }
    size_t count = sizeof(tests) / sizeof(tests[0]) - left_out;
    return _cmocka_run_group_tests("tests", tests + left_out, count, fixture_start, fixture_stop);
}
