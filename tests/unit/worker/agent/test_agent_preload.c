/*
 * Modules that an interpreter imports before any code has run there: what code sees of it, and what
 * becomes of one that cannot be imported. Each test has an agent of its own.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <string.h>

#include "proto/codec.h"

/* Where imports look first is the workspace. */
static void add_module(struct fixture *f, const char *file, const char *code)
{
    struct msg_start s = agent_code(&f->link, "", code);
    s.kind = OP_FILE_WRITE;
    s.path = view_of(file);
    assert_status(run_start(f, &s), OP_STATUS_OK);
}

static struct msg_start preload_of(struct fixture *f, struct view *name, const char *module)
{
    struct msg_start s = agent_code(&f->link, "python", "");
    *name = view_of(module);
    s.kind = OP_PRELOAD;
    s.args = (struct view_list){name, 1};
    return s;
}

static struct agent_result *preload(struct fixture *f, const char *module)
{
    struct view name;
    struct msg_start s = preload_of(f, &name, module);
    return run_start(f, &s);
}

/* What the first code sees, which must be the same with and without modules that failed. */
static void check_untouched(struct fixture *f)
{
    struct agent_result *r =
        run(f, "python",
            "import os, signal, sys\n"
            "print([n for n in globals() if not n.startswith('_')], sys.argv, sys.gettrace())\n"
            "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
            "try:\n  1/0\n"
            "except ZeroDivisionError as e:\n  print(e.__traceback__.tb_frame.f_code.co_filename)");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "['os', 'signal', 'sys'] [''] None\nTrue\n<cell 1>\n");
    assert_string_equal(r->err, "");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_FRESH);
}

static void code_finds_it_and_sees_nothing_else(void **state)
{
    struct fixture *f = fixture_of(state);
    add_module(f, "loud.py",
               "import sys, warnings\nprint('out')\nprint('err', file=sys.stderr)\n"
               "warnings.warn('odd')\nsys.stdout.write('no newline')\n");
    add_module(f, "box/__init__.py", "");
    add_module(f, "box/inner.py", "count = 0\n");
    assert_status(preload(f, "loud"), OP_STATUS_OK);
    struct agent_result *r = preload(f, "box.inner");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_NONE);
    assert_true(r->last.max_rss_kb > 1000);
    r = run(f, "python", "import sys; ('box.inner' in sys.modules, 'loud' in sys.modules)");
    assert_string_equal(r->result, "(True, True)");
    assert_string_equal(r->out, "");
    assert_string_equal(r->err, "");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_FRESH);
    r = run(f, "python", "box");
    assert_string_equal(r->name, "NameError");
    r = run(f, "python", "import box.inner; box.inner.count");
    assert_string_equal(r->result, "0");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void what_a_run_begins_with_is_put_back(void **state)
{
    struct fixture *f = fixture_of(state);
    add_module(f, "mover.py",
               "import os, sys\nos.chdir('/')\nsys.argv = ['x']\n"
               "os.close(1)\nsys.stderr = None\n");
    assert_status(preload(f, "mover"), OP_STATUS_OK);
    check_untouched(f);
    struct agent_result *r = run(f, "python", "import os; os.path.exists('mover.py')");
    assert_string_equal(r->result, "True");
}

static void one_that_fails_takes_its_interpreter_along(void **state)
{
    struct fixture *f = fixture_of(state);
    static const struct {
        const char *code, *name, *message;
        enum op_status status;
    } cases[] = {
        {"import nonesuch_at_all\n", "ModuleNotFoundError", "nonesuch_at_all", OP_STATUS_ERROR},
        {"import sys\nsys.exit(0)\n", "ImportError", "SystemExit(0)", OP_STATUS_ERROR},
        {"a b\n", "SyntaxError", "invalid syntax", OP_STATUS_ERROR},
        {"import os\nos._exit(3)\n", "", "exited with code 3", OP_STATUS_CRASHED},
        {"import os\nos.kill(os.getpid(), 9)\n", "", "signal 9", OP_STATUS_CRASHED},
        {"import part\nraise ValueError('half')\n", "ValueError", "half", OP_STATUS_ERROR},
    };
    add_module(f, "part.py", "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        add_module(f, "broken.py", cases[i].code);
        assert_status(preload(f, "part"), OP_STATUS_OK);
        struct agent_result *r = preload(f, "broken");
        assert_status(r, cases[i].status);
        assert_string_equal(r->name, cases[i].name);
        assert_contains(r->message, cases[i].message);
    }
    struct agent_result *r = run(f, "python", "import sys; 'part' in sys.modules");
    assert_string_equal(r->result, "False");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_FRESH);
    assert_string_equal(r->err, "");
}

/* As a worker does it at the deadline: first by SIGINT, then by force. */
static void one_that_hangs_is_stopped(void **state)
{
    struct fixture *f = fixture_of(state);
    static const char *const hangs[] = {
        "import time\nprint('begun')\ntime.sleep(1000)\n",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\n"
        "time.sleep(1000)\n",
    };
    for (size_t i = 0; i < 2; i++) {
        struct view name;
        add_module(f, "hang.py", hangs[i]);
        struct msg_start s = preload_of(f, &name, "hang");
        start_only(f, &s, AGENT_CLIENT_WAIT_MS); /* answered when it has printed */
        cancel(f, s.op.data, OP_STOP_TIMEOUT, false);
        if (i == 1) {
            cancel(f, s.op.data, OP_STOP_TIMEOUT, true);
        }
        assert_status(follow(f, s.op.data), OP_STATUS_TIMEOUT);
    }
    check_untouched(f);
}

static void packages_that_are_installed_come_first(void **state)
{
    struct fixture *f = fixture_of(state);
    char code[512];
    assert_status(preload(f, "colorsys"), OP_STATUS_OK);
    snprintf(code, sizeof(code), "echo 'version = 7' > %s/packages/python/colorsys.py",
             f->agent.dir);
    assert_status(run(f, "bash", code), OP_STATUS_OK);
    struct agent_result *r = run(f, "python", "import colorsys; colorsys.version");
    assert_string_equal(r->result, "7");
    assert_string_equal(r->err, "");
}

static void there_must_be_nothing_of_anybody(void **state)
{
    struct fixture *f = fixture_of(state);
    struct err err = ERR_INIT;
    run(f, "python", "x = 1");
    struct view names[] = {view_of("json"), view_of("csv")};
    static const struct {
        const char *language;
        size_t count;
        enum err_code code;
    } cases[] = {
        {"python", 1, ERR_INVALID}, /* code has run */
        {"python", 2, ERR_INVALID}, {"python", 0, ERR_INVALID},
        {"bash", 1, ERR_LANGUAGE},  {"cobol", 1, ERR_LANGUAGE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct msg reply;
        struct msg m = {.type = MSG_START};
        m.start = agent_code(&f->link, cases[i].language, "");
        m.start.kind = OP_PRELOAD;
        m.start.args = (struct view_list){names, cases[i].count};
        assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
        assert_int_equal(reply.type, MSG_FAILED);
        assert_int_equal(reply.failed.code, cases[i].code);
        msg_finish(&reply);
    }
    struct agent_result *r = run(f, "python", "x");
    assert_string_equal(r->result, "1");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static int start_with_packages(void **state)
{
    return fixture_start_with(state, (struct agent_options){.packages = true});
}

int main(void)
{
#define ALONE(f) cmocka_unit_test_setup_teardown(f, fixture_start, fixture_stop)
    const struct CMUnitTest tests[] = {
        ALONE(code_finds_it_and_sees_nothing_else),
        ALONE(what_a_run_begins_with_is_put_back),
        ALONE(one_that_fails_takes_its_interpreter_along),
        ALONE(one_that_hangs_is_stopped),
        cmocka_unit_test_setup_teardown(packages_that_are_installed_come_first, start_with_packages,
                                        fixture_stop),
        ALONE(there_must_be_nothing_of_anybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
