/*
 * Packages that code asks for, as a worker sees it: a wish is in each OUTPUT until it is answered,
 * on any link, and its answer reaches whoever waits for it, once.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "proto/codec.h"
#include "proto/outcome.h"

/* Says what it is given, and later shows the answer. */
#define SPEAK                                                                                      \
    "import os, socket\n"                                                                          \
    "def say(data):\n"                                                                             \
    "    s = socket.socket(socket.AF_UNIX)\n"                                                      \
    "    s.connect(os.environ['CLOISTER_INSTALLS'])\n"                                             \
    "    s.sendall(data)\n"                                                                        \
    "    return s\n"                                                                               \
    "def told(s):\n"                                                                               \
    "    return b''.join(iter(lambda: s.recv(100), b'')).decode()\n"

static int start_with_installs(void **state)
{
    int rc = fixture_start_with(state, (struct agent_options){.packages = true, .installs = true});
    return rc < 0 ? rc : run(*state, "python", SPEAK)->failed;
}

static void ask_agent(struct fixture *f, struct msg *m, struct msg *reply)
{
    struct err err = ERR_INIT;
    assert_int_equal(agent_ask(&f->link, m, reply, &err), 0);
    assert_int_equal(reply->type, MSG_OUTPUT);
}

/* WAITs, and expects so many wishes; returns the number of the last. */
static uint64_t wait_with_wishes(struct fixture *f, const char *op, uint64_t wait_ms, size_t count)
{
    struct msg m = {.type = MSG_WAIT};
    struct msg reply;
    uint64_t id = 0;
    m.wait.op = view_of(op);
    m.wait.wait_ms = wait_ms;
    ask_agent(f, &m, &reply);
    assert_int_equal(reply.output.state, OP_RUNNING);
    assert_int_equal(reply.output.installs.count, count);
    assert_int_equal(outcome_check_installs(reply.output.installs, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        struct msg wish;
        struct view item = reply.output.installs.items[i];
        assert_int_equal(msg_decode(MSG_LINK_A, item.data, item.len, &wish, NULL), 0);
        id = wish.install.id;
        assert_int_equal(wish.install.manager, INSTALL_PIP);
        assert_true(view_is(wish.install.requirements.items[0], "colours>=1"));
        msg_finish(&wish);
    }
    msg_finish(&reply);
    return id;
}

static void tell(struct fixture *f, const char *op, uint64_t id, const char *text, bool last)
{
    struct msg m = {.type = MSG_START};
    struct msg reply;
    m.start.op = view_of(op);
    m.start.kind = OP_TELL;
    m.start.offset = id;
    m.start.data = view_of(text);
    m.start.flags = last ? OP_FLAG_LAST : 0;
    m.start.mode = last ? 3 : 0;
    ask_agent(f, &m, &reply);
    assert_int_equal(reply.output.state, OP_DONE);
    assert_int_equal(reply.output.status, OP_STATUS_OK);
    msg_finish(&reply);
}

static void a_wish_is_told_until_it_is_answered(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "python", "told(say(b'pip\\0colours>=1\\0\\0'))");
    CLEANUP_FREE char *op = alloc_viewdup(s.op);
    start_only(f, &s, 0);
    uint64_t id = wait_with_wishes(f, op, 20000, 1); /* answered by the wish */
    assert_int_equal(wait_with_wishes(f, op, 0, 1), id);
    reconnect(f, 2);
    assert_int_equal(wait_with_wishes(f, op, 20000, 1), id); /* another link has not heard of it */
    tell(f, "tell-1", id, "a", false);
    tell(f, "tell-1", id, "a", false); /* the same one again, of which the reply was lost */
    tell(f, "tell-2", id + 1, "nobody", true);
    tell(f, "tell-3", id, "b", true);
    tell(f, "tell-4", id, "too late", true);
    struct agent_result *r = follow(f, op);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "'ab\\x003'");
}

static void wishes_end_when_nothing_runs(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s =
        agent_code(&f->link, "python", "left = say(b'pip\\0colours>=1\\0\\0')\nleft.recv(1)");
    CLEANUP_FREE char *op = alloc_viewdup(s.op);
    start_only(f, &s, 0);
    tell(f, "tell-5", wait_with_wishes(f, op, 20000, 1), "a", false);
    struct agent_result *r = follow(f, op);
    assert_status(r, OP_STATUS_OK);
    r = run(f, "python", "told(left)");
    assert_contains(r->result, "the run that waited for this has ended");
    assert_contains(r->result, "\\x001");
}

/* Of those that are too many, and of those that have gone, nothing is told. */
static void only_so_many_wait(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r;
    struct msg_start s = agent_code(&f->link, "python",
                                    "all = [say(b'pip\\0colours>=1\\0\\0') for i in range(20)]\n"
                                    "import select\n"
                                    "n = 0\n"
                                    "while n < 16:\n"
                                    "    n = len(select.select(all, [], [], 20)[0])\n"
                                    "texts = [told(s) for s in select.select(all, [], [])[0]]\n"
                                    "all = []\n"
                                    "len(texts), set(texts)");
    CLEANUP_FREE char *op = alloc_viewdup(s.op);
    start_only(f, &s, 0);
    r = follow(f, op);
    assert_status(r, OP_STATUS_OK);
    assert_contains(r->result, "(16, {'too many installations are waited for");
    r = run(f, "python", "told(say(b'pip\\0\\0')), told(say(b'pip\\0-x\\0\\0'))");
    assert_contains(r->result, "no package is named");
    assert_contains(r->result, "in plain letters");
}

/* The script of an old pip imports its main from the module `pip`, which is the front's. */
static void the_script_of_an_old_pip_installs_itself(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "bash",
            "mkdir -p old/pip\n"
            "echo 'def main(args=None): print(\"the old one\")' > old/pip/__init__.py\n"
            "echo 'from pip import main; main()' > pip3.6\n"
            "PYTHONPATH=$PYTHONPATH:$PWD/old python3 pip3.6 install colours");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "the old one\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wish_is_told_until_it_is_answered),
        cmocka_unit_test(wishes_end_when_nothing_runs),
        cmocka_unit_test(only_so_many_wait),
        cmocka_unit_test(the_script_of_an_old_pip_installs_itself),
    };
    return cmocka_run_group_tests(tests, start_with_installs, fixture_stop);
}
