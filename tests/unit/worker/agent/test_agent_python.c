/*
 * Live Python, as callers of execute_code use it.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static void variables_and_results_live(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python", "x = 40\nprint('set')");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "set\n");
    assert_false(r->last.has_result);
    r = run(f, "python", "x + 2");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    assert_string_equal(r->result, "42");
    r = run(f, "python", "_ + 1");
    assert_string_equal(r->result, "43");
    r = run(f, "python", "None");
    assert_false(r->last.has_result);
    r = run(f, "python", "_");
    assert_string_equal(r->result, "43");
    assert_true(r->last.max_rss_kb > 1000);
    assert_true(r->last.duration_us > 0);
}

static size_t count_of(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

/* One expression in one line is compiled in another way than all else. */
static void an_expression_in_one_line_is_code_like_any_other(void **state)
{
    static const struct {
        const char *code, *result;
    } rows[] = {
        {"(n := 5)", "5"},  {"n,", "(5,)"},    {"*range(2), n", "(0, 1, 5)"},
        {"n  # five", "5"}, {"n\n", "5"},      {"'\\d'", "'\\\\d'"},
        {"n == 5", "True"}, {"n; n + 1", "6"}, {"await c() ", "7"},
    };
    struct fixture *f = fixture_of(state);
    run(f, "python", "async def c():\n    return 7");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct agent_result *r = run(f, "python", rows[i].code);
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, rows[i].result);
    }
    struct agent_result *r = run(f, "python", "[0](n)");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(count_of(r->err, "SyntaxWarning"), 1);
    assert_contains(r->traceback, "    [0](n)\n");
    r = run(f, "python", "  n");
    assert_string_equal(r->name, "IndentationError");
    r = run(f, "python", "n +");
    assert_string_equal(r->name, "SyntaxError");
    assert_contains(r->traceback, "    n +\n");
    r = run(f, "python", "raise n");
    assert_string_equal(r->name, "TypeError");
}

static void tracebacks_show_the_users_lines_only(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python", "def f(n):\n    return 10 // n  # divides\n\nf(0)\n");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 1);
    assert_string_equal(r->name, "ZeroDivisionError");
    assert_contains(r->message, "division");
    assert_contains(r->traceback, "Traceback (most recent call last):\n  File \"<cell ");
    assert_contains(r->traceback, "line 4, in <module>\n    f(0)\n");
    assert_contains(r->traceback, "line 2, in f\n    return 10 // n  # divides\n");
    assert_null(strstr(r->traceback, "cloister"));
    /* tracebacks show the text of functions of earlier cells */
    r = run(f, "python", "\n\nf(0)");
    assert_contains(r->traceback, "line 3, in <module>\n    f(0)\n");
    assert_contains(r->traceback, "    return 10 // n  # divides\n");
    r = run(f, "python", "import inspect; print(inspect.getsource(f), end='')");
    assert_string_equal(r->out, "def f(n):\n    return 10 // n  # divides\n");
}

static void odd_errors_are_reported_like_others(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python", "a = 1\nif a\n  b");
    assert_string_equal(r->name, "SyntaxError");
    assert_contains(r->traceback, "line 2\n    if a\n");
    assert_null(strstr(r->traceback, "Traceback"));
    assert_null(strstr(r->traceback, "cloister"));
    r = run(f, "python",
            "try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise KeyError('k') from e");
    assert_string_equal(r->name, "KeyError");
    assert_contains(r->traceback, "direct cause");
    assert_null(strstr(r->traceback, "cloister"));
    r = run(f, "python", "def g(): g()\ng()");
    assert_string_equal(r->name, "RecursionError");
    assert_contains(r->traceback, "more times]");
    r = run(f, "python", "class Bad:\n  def __repr__(self): raise ValueError('no repr')\nBad()");
    assert_status(r, OP_STATUS_ERROR);
    assert_string_equal(r->message, "no repr");
    r = run(f, "python",
            "class E(Exception):\n  def __str__(self): raise TypeError('no str')\nraise E()");
    assert_status(r, OP_STATUS_ERROR);
    assert_string_equal(r->name, "E");
    r = run(f, "python", "raise MemoryError()");
    assert_string_equal(r->name, "MemoryError");
    r = run(f, "python", "bytes(10**18)");
    assert_string_equal(r->name, "MemoryError");
    r = run(f, "python", "'still here'");
    assert_string_equal(r->result, "'still here'");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void an_exception_group_shows_its_parts(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python",
            "import sys\n"
            "if sys.version_info >= (3, 11):\n"
            "  raise ExceptionGroup('both', [ValueError('one'), KeyError(2)])\n"
            "else:\n"
            "  raise ValueError('both: one')");
    assert_status(r, OP_STATUS_ERROR);
    assert_contains(r->traceback, "both");
    assert_contains(r->traceback, "one");
    assert_null(strstr(r->traceback, "cloister"));
}

static void stdin_arguments_and_environment_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    struct view args[] = {view_of("one"), view_of("two words")};
    struct view env[] = {view_of("CL_TEST=a=b"), view_of("HOME=/elsewhere")};
    struct msg_start s = agent_code(&f->link, "python",
                                    "import os, sys, subprocess\n"
                                    "print(input('name? '), sys.argv, os.environ['CL_TEST'])\n"
                                    "print(subprocess.run(['cat'], stdout=-1).stdout, "
                                    "sys.stdin.readline())\n"
                                    "print(os.path.expanduser('~'))");
    s.has_stdin = true;
    s.stdin_data = view_of("Ad\xc3\xa4\nrest\n");
    s.args = (struct view_list){args, 2};
    s.env = (struct view_list){env, 2};
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_contains(r->out, "name? Ad\xc3\xa4 ['', 'one', 'two words'] a=b\n");
    assert_contains(r->out, "rest");
    assert_contains(r->out, "/elsewhere\n");
    r = run(f, "python",
            "import os, sys\n"
            "print(os.environ.get('CL_TEST'), sys.argv, repr(sys.stdin.read()))\n"
            "input()");
    assert_string_equal(r->out, "None [''] ''\n");
    assert_string_equal(r->name, "EOFError");
    assert_null(strstr(r->out, "elsewhere"));
}

static void exiting_ends_the_run_and_not_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python", "import sys; kept = 'yes'");
    struct agent_result *r = run(f, "python", "print('a')\nsys.exit(3)");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 3);
    assert_string_equal(r->out, "a\n");
    assert_string_equal(r->traceback, "");
    r = run(f, "python", "sys.exit('so long')");
    assert_int_equal(r->last.exit_code, 1);
    assert_string_equal(r->err, "so long\n");
    r = run(f, "python", "sys.exit()");
    assert_status(r, OP_STATUS_OK);
    r = run(f, "python", "quit(4)"); /* closes sys.stdin, too */
    assert_int_equal(r->last.exit_code, 4);
    r = run(f, "python", "sys.stdin.read()");
    assert_string_equal(r->result, "''");
    r = run(f, "python", "kept");
    assert_string_equal(r->result, "'yes'");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void text_of_any_kind_arrives(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python", "print('z\xc3\xbcrich \xf0\x9f\x90\x8d')\n'\xe2\x82\xac'");
    assert_string_equal(r->out, "z\xc3\xbcrich \xf0\x9f\x90\x8d\n");
    assert_string_equal(r->result, "'\xe2\x82\xac'");
    r = run(f, "python",
            "import sys\nprint('\\ud83d|\\udc80')\nprint('\\ud83d', file=sys.stderr)\n"
            "sys.stdout.buffer.write(b'\\xff\\x00\\n')\nNone");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, strlen("\\ud83d|\\udc80\n") + 3);
    assert_string_equal(r->err, "\\ud83d\n");
    r = run(f, "python", "raise ValueError('\\ud800')");
    assert_string_equal(r->name, "ValueError");
    r = run(f, "python", "'x' * 10**6");
    assert_int_equal(r->last.result.len, LIMIT_RESULT);
    assert_contains(r->result + LIMIT_RESULT - 64, "cut: 1000002 bytes in all");
    r = run(f, "python", "print('no newline', end='')");
    assert_string_equal(r->out, "no newline");
}

static void streams_that_code_replaces_or_closes_come_back(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python",
                                 "import io, sys\nold = sys.stdout\nsys.stdout = io.StringIO()\n"
                                 "print('into it')");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "");
    r = run(f, "python", "got = sys.stdout.getvalue()\nsys.stdout = old\nprint(got, end='')");
    assert_string_equal(r->out, "into it\n");
    r = run(f, "python", "sys.stdout.close()");
    assert_status(r, OP_STATUS_OK);
    r = run(f, "python", "print('open again')");
    assert_string_equal(r->out, "open again\n");
    r = run(f, "python", "import os\nos.close(1); os.close(2)");
    assert_status(r, OP_STATUS_OK);
    r = run(f, "python", "print('back'); print('too', file=sys.stderr)");
    assert_string_equal(r->out, "back\n");
    assert_string_equal(r->err, "too\n");
    r = run(f, "python", "open('/dev/stdout', 'w').write('by name\\n')\nNone");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "by name\n");
}

static void code_may_await(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python",
            "import asyncio\n"
            "async def twice(n):\n    await asyncio.sleep(0.01)\n    return 2 * n\n"
            "y = await twice(4)\nawait twice(y)");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "16");
    r = run(f, "python", "async def bad():\n    raise KeyError('deep')\nawait bad()");
    assert_string_equal(r->name, "KeyError");
    assert_contains(r->traceback, "line 3, in <module>\n    await bad()\n");
    assert_null(strstr(r->traceback, "asyncio"));
    r = run(f, "python", "asyncio.run(twice(5))");
    assert_string_equal(r->result, "10");
    r = run(f, "python", "await twice(6)");
    assert_string_equal(r->result, "12");
}

static void modules_of_the_workspace_are_imported(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python",
            "open('mymodule.py', 'w').write('value = 7')\n"
            "import mymodule, os\nmymodule.value, os.path.basename(os.getcwd())");
    assert_string_equal(r->result, "(7, 'workspace')");
    r = run(f, "python",
            "import pickle, sys\nclass P: pass\n"
            "pickle.loads(pickle.dumps(P())).__class__ is P, __name__");
    assert_string_equal(r->result, "(True, '__main__')");
    r = run(f, "python",
            "import multiprocessing as mp\nctx = mp.get_context('fork')\nq = ctx.SimpleQueue()\n"
            "p = ctx.Process(target=lambda: q.put(5))\np.start(); p.join(); q.get()");
    assert_string_equal(r->result, "5");
}

static void a_fork_in_a_cell_ends_with_it(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python",
            "import os\npid = os.fork()\n"
            "if pid == 0:\n    print('child')\n"
            "else:\n    code = os.waitpid(pid, 0)[1]\n    print('parent', code)");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "child\nparent 0\n");
    r = run(f, "python",
            "pid = os.fork()\nif pid == 0:\n    raise SystemExit(9)\nos.waitpid(pid, 0)[1] >> 8");
    assert_string_equal(r->result, "9");
    r = run(f, "python",
            "pid = os.fork()\nif pid == 0:\n    raise ValueError('in child')\n"
            "os.waitpid(pid, 0)[1] >> 8");
    assert_string_equal(r->result, "1");
    assert_contains(r->err, "ValueError: in child");
}

static void an_interrupt_keeps_the_state(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "python", "kept = 'still'");
    /* each prints in the statement that is interrupted, since between statements there is no frame
     * to show */
    static const char *const codes[] = {
        "import time\nprint('in', flush=True) or time.sleep(60)",
        "print('in', flush=True)\nwhile True: pass",
        "import asyncio\nasync def nap():\n  print('in', flush=True)\n  await asyncio.sleep(60)\n"
        "await nap()",
        "import subprocess\nprint('in', flush=True) or subprocess.run(['sleep', '60'])",
        "class Slow:\n  def __repr__(self):\n    print('in', flush=True)\n    while True: pass\n"
        "Slow()",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct agent_result *r = run_interrupted(f, "python", codes[i], 0);
        assert_string_equal(r->name, "KeyboardInterrupt");
        assert_null(strstr(r->traceback, "cloister"));
        assert_contains(r->traceback, "<cell ");
        r = run(f, "python", "kept");
        assert_string_equal(r->result, "'still'");
    }
    /* user code may catch it and go on, but does not change the outcome */
    struct msg_start s = agent_code(&f->link, "python",
                                    "try:\n  print('in')\n  while True: pass\n"
                                    "except KeyboardInterrupt: print('caught')");
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    cancel(f, s.op.data, OP_STOP_CANCEL, false);
    struct agent_result *r = follow(f, s.op.data);
    assert_status(r, OP_STATUS_CANCELLED);
    assert_string_equal(r->out, "in\ncaught\n");
}

static void an_interrupt_at_any_time_hits_its_run_only(void **state)
{
    struct fixture *f = fixture_of(state);
    static const char *const codes[] = {"time.sleep(600)", "1", "time.sleep(0.0005)"};
    run(f, "python", "kept = 'still'; import time");
    interrupt_any_time(f, "python", codes, "print(kept)");
}

/* The interrupt comes when the interpreter has hardly begun to start. */
static void an_interrupt_while_python_starts_is_not_lost(void **state)
{
    struct fixture *f = fixture_of(state);
    interrupt_at_start(f, "python", "import os; os._exit(3)", "import time; time.sleep(600)", "1");
}

static void an_interpreter_that_dies_is_replaced_and_says_how(void **state)
{
    struct fixture *f = fixture_of(state);
    static const struct death deaths[] = {
        {"import os\nprint('last words')\nos._exit(5)", 5, "exited with code 5"},
        {"import ctypes\nprint('last words')\nctypes.string_at(0)", 128 + 11, "signal 11"},
        {"import os\nprint('last words')\nos.kill(os.getpid(), 9)", 128 + 9, "signal 9"},
        {"import os\nprint('last words')\nos.closerange(3, 1000)", 70, "exited with code 70"},
    };
    die_and_return(f, "python", deaths, sizeof(deaths) / sizeof(deaths[0]), "'lost' in globals()",
                   "False");
    /* between runs */
    struct agent_result *r =
        run(f, "python",
            "import threading, os\n"
            "threading.Timer(0.05, lambda: os._exit(0)).start()\n"
            "print(f'while test -e /proc/{os.getppid()}; do sleep 0.01; done')");
    char *gone = alloc_strdup(r->out); /* when the agent has reaped the keeper */
    run(f, "bash", gone);
    free(gone);
    r = run(f, "python", "1");
    assert_string_equal(r->result, "1");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
}

static void code_that_becomes_another_program_is_reported_as_crashed(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python", "import os\nos.execvp('sh', ['sh', '-c', 'echo replaced; exit 4'])");
    assert_status(r, OP_STATUS_CRASHED);
    assert_int_equal(r->last.exit_code, 4);
    assert_string_equal(r->out, "replaced\n");
}

static void a_forged_report_costs_only_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    /* hostile code finds the report pipe and writes garbage into it */
    static const char find[] = "import os, stat\n"
                               "for fd in range(60, 80):\n"
                               "    try:\n"
                               "        os.write(fd, BAD)\n"
                               "    except OSError: pass\n"
                               "import time; time.sleep(20)";
    static const char *const bad[] = {
        "BAD = b'this is no report'\n",      "BAD = b'Rffffffff'\n",  "BAD = b'D0000000599999'\n",
        "BAD = b'X00000003abcD000000011'\n", "BAD = b'S000000011'\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *code = alloc_printf("%s%s", bad[i], find);
        struct agent_result *r = run(f, "python", code);
        assert_status(r, OP_STATUS_CRASHED);
        assert_contains(r->message, "report");
        free(code);
        r = run(f, "python", "1 + 1");
        assert_string_equal(r->result, "2");
    }
}

static void megabytes_of_code_and_input_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    size_t size = 10u << 20;
    char *code = alloc_array(size + 64, 1);
    memcpy(code, "s = '", 5);
    memset(code + 5, 'x', size);
    memcpy(code + 5 + size, "'\nlen(s)", 9);
    struct msg_start s = agent_code(&f->link, "python", code);
    s.has_stdin = true;
    s.stdin_data = view_bytes(code, size);
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "10485760");
    free(code);
    r = run(f, "python", "import sys\nfor i in range(200000): print(i)");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, 1288890);
}

static void output_after_the_end_of_a_run_is_shown_by_the_next(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "python",
            "import subprocess, time\np = subprocess.Popen(['sh', '-c', 'sleep 0.2; echo late'])");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "");
    run(f, "bash", "sleep 0.5");
    r = run(f, "python", "p.wait()");
    assert_string_equal(r->out, "late\n");
    /* a process that never stops writing does not delay the end of the run */
    r = run(f, "python", "p = subprocess.Popen(['yes'])\ntime.sleep(0.1)\n'ended'");
    assert_string_equal(r->result, "'ended'");
    run(f, "python", "p.kill()");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_and_results_live),
        cmocka_unit_test(an_expression_in_one_line_is_code_like_any_other),
        cmocka_unit_test(tracebacks_show_the_users_lines_only),
        cmocka_unit_test(odd_errors_are_reported_like_others),
        cmocka_unit_test(an_exception_group_shows_its_parts),
        cmocka_unit_test(stdin_arguments_and_environment_arrive),
        cmocka_unit_test(exiting_ends_the_run_and_not_the_interpreter),
        cmocka_unit_test(text_of_any_kind_arrives),
        cmocka_unit_test(streams_that_code_replaces_or_closes_come_back),
        cmocka_unit_test(code_may_await),
        cmocka_unit_test(modules_of_the_workspace_are_imported),
        cmocka_unit_test(a_fork_in_a_cell_ends_with_it),
        cmocka_unit_test(an_interrupt_keeps_the_state),
        cmocka_unit_test(an_interrupt_at_any_time_hits_its_run_only),
        cmocka_unit_test(an_interrupt_while_python_starts_is_not_lost),
        cmocka_unit_test(an_interpreter_that_dies_is_replaced_and_says_how),
        cmocka_unit_test(code_that_becomes_another_program_is_reported_as_crashed),
        cmocka_unit_test(a_forged_report_costs_only_the_interpreter),
        cmocka_unit_test(megabytes_of_code_and_input_arrive),
        cmocka_unit_test(output_after_the_end_of_a_run_is_shown_by_the_next),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
