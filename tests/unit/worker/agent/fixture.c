/*
 * The agent's path comes from the environment (CLOISTER_AGENT), set by the build.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "proto/codec.h"

static void must(int rc, const struct err *err)
{
    if (rc < 0) {
        fail_msg("%s", err->text);
    }
}

int fixture_start_with(void **state, struct agent_options o)
{
    struct err err = ERR_INIT;
    struct fixture *f = alloc_one(struct fixture);
    *state = f;
    f->link.fd = -1;
    o.program = getenv("CLOISTER_AGENT");
    if (o.program == NULL) {
        print_error("CLOISTER_AGENT is not set\n");
        return -1;
    }
    struct msg reply;
    if (agent_start(&f->agent, &o, &err) < 0 || agent_connect(&f->link, &f->agent, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    if (agent_hello(&f->link, 1, &reply, &err) < 0) {
        f->absent = agent_wait(&f->agent) == 77;
        return -1;
    }
    msg_finish(&reply);
    return 0;
}

int fixture_start(void **state)
{
    return fixture_start_with(state, (struct agent_options){0});
}

int fixture_start_in_namespace(void **state)
{
    return fixture_start_with(state, (struct agent_options){.own_namespace = true, .nproc = 40});
}

int fixture_stop(void **state)
{
    struct fixture *f = *state;
    agent_result_finish(&f->r);
    agent_disconnect(&f->link);
    agent_stop(&f->agent);
    free(f);
    return 0;
}

bool fixture_namespace_allowed(void)
{
    void *state = NULL;
    (void)fixture_start_in_namespace(&state);
    bool absent = ((struct fixture *)state)->absent;
    fixture_stop(&state);
    if (absent) {
        printf("1..0 # SKIP this machine does not allow namespaces\n");
    }
    return !absent;
}

struct fixture *fixture_of(void **state)
{
    return *state;
}

struct agent_result *run_start(struct fixture *f, const struct msg_start *start)
{
    struct err err = ERR_INIT;
    agent_result_finish(&f->r);
    must(agent_run_op(&f->link, start, &f->r, &err), &err);
    return &f->r;
}

struct agent_result *run(struct fixture *f, const char *language, const char *code)
{
    struct msg_start start = agent_code(&f->link, language, code);
    return run_start(f, &start);
}

void start_only(struct fixture *f, const struct msg_start *start, uint64_t wait_ms)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_START};
    struct msg reply;
    m.start = *start;
    m.start.wait_ms = wait_ms;
    must(agent_ask(&f->link, &m, &reply, &err), &err);
    assert_int_equal(reply.type, MSG_OUTPUT);
}

void cancel(struct fixture *f, const char *op, enum op_stop reason, bool force)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_CANCEL};
    struct msg reply;
    m.cancel.op = view_of(op);
    m.cancel.reason = reason;
    m.cancel.force = force;
    must(agent_ask(&f->link, &m, &reply, &err), &err);
    assert_int_equal(reply.type, MSG_OK);
}

struct agent_result *follow(struct fixture *f, const char *op)
{
    struct err err = ERR_INIT;
    agent_result_finish(&f->r);
    must(agent_follow(&f->link, op, 0, 0, &f->r, &err), &err);
    return &f->r;
}

void pass_much(struct fixture *f)
{
    struct agent_result *r =
        run(f, "python",
            "import subprocess\nsubprocess.run('yes | head -c 200000000 | wc -c', shell=True)");
    assert_string_equal(r->out, "200000000\n");
}

struct agent_result *run_interrupted(struct fixture *f, const char *language, const char *code,
                                     unsigned delay_us)
{
    const struct timespec delay = {.tv_nsec = (long)delay_us * 1000};
    struct msg_start s = agent_code(&f->link, language, code);
    start_only(f, &s, AGENT_CLIENT_WAIT_MS); /* returns after its first output */
    nanosleep(&delay, NULL);
    cancel(f, s.op.data, OP_STOP_TIMEOUT, false);
    struct agent_result *r = follow(f, s.op.data);
    assert_status(r, OP_STATUS_TIMEOUT);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    return r;
}

void interrupt_any_time(struct fixture *f, const char *language, const char *const codes[3],
                        const char *probe)
{
    for (int i = 0; i < 180; i++) {
        struct msg_start s = agent_code(&f->link, language, codes[i % 3]);
        struct msg_start next = agent_code(&f->link, language, probe);
        start_only(f, &s, 0);
        start_only(f, &next, 0);
        cancel(f, s.op.data, OP_STOP_TIMEOUT, false);
        struct agent_result *r = follow(f, s.op.data);
        assert_true(r->last.status == OP_STATUS_TIMEOUT || r->last.status == OP_STATUS_OK);
        assert_true(r->last.status == OP_STATUS_TIMEOUT || i % 3 > 0);
        r = follow(f, next.op.data);
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, "still\n");
        assert_string_equal(r->err, "");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    }
}

void interrupt_at_start(struct fixture *f, const char *language, const char *end, const char *nap,
                        const char *probe)
{
    for (long i = 0; i < 40; i++) {
        const struct timespec delay = {.tv_nsec = i * 1000000};
        run(f, language, end);
        struct msg_start s = agent_code(&f->link, language, nap);
        start_only(f, &s, 0);
        nanosleep(&delay, NULL);
        cancel(f, s.op.data, OP_STOP_CANCEL, false);
        struct agent_result *r = follow(f, s.op.data);
        assert_status(r, OP_STATUS_CANCELLED);
        r = run(f, language, probe);
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    }
}

void die_and_return(struct fixture *f, const char *language, const struct death *deaths,
                    size_t count, const char *probe, const char *unknown)
{
    for (size_t i = 0; i < count; i++) {
        run(f, language, "lost = 1");
        struct agent_result *r = run(f, language, deaths[i].code);
        assert_status(r, OP_STATUS_CRASHED);
        assert_int_equal(r->last.exit_code, deaths[i].exit_code);
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
        assert_string_equal(r->out, "last words\n");
        assert_contains(r->message, deaths[i].message);
        r = run(f, language, probe);
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, unknown);
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    }
}

void reconnect(struct fixture *f, uint64_t generation)
{
    struct err err = ERR_INIT;
    struct msg reply;
    agent_disconnect(&f->link);
    must(agent_connect(&f->link, &f->agent, &err), &err);
    must(agent_hello(&f->link, generation, &reply, &err), &err);
    assert_int_equal(reply.type, MSG_HELLO_OK);
    msg_finish(&reply);
}

void assert_contains(const char *text, const char *part)
{
    assert_non_null(text);
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in:\n%s", part, text);
    }
}
