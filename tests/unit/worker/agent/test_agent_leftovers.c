/*
 * What code can leave behind in a live interpreter. A later run either works as documented or says
 * why it does not, and the agent goes on in any case.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* ---- reports without end --------------------------------------------------------------------- */

/* Finds the pipe of reports, and writes the same bytes for ever. */
#define FLOOD                                                                                      \
    "import os\n"                                                                                  \
    "def flood(record):\n"                                                                         \
    "    data = record * (65536 // len(record))\n"                                                 \
    "    while True:\n"                                                                            \
    "        for fd in range(60, 80):\n"                                                           \
    "            try:\n"                                                                           \
    "                os.write(fd, data)\n"                                                         \
    "            except OSError: pass\n"

static const char *const records[] = {
    "D000000010",                               /* the end of an earlier run */
    "I00000000D000000010",                      /* and an interrupt that came too early */
    "R00000003abcV00000002xxD000000010", "\\n", /* nothing */
};

#define RECORDS (sizeof(records) / sizeof(records[0]))

static void reports_without_end_end_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < RECORDS; i++) {
        char *code = alloc_printf(FLOOD "flood(b'%s')", records[i]);
        struct agent_result *r = run(f, "python", code);
        assert_status(r, OP_STATUS_CRASHED);
        assert_contains(r->message, "report");
        free(code);
        r = run(f, "python", "1 + 1");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "2");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    }
}

/* The next run tells why it has a new interpreter. */
static void reports_without_end_after_a_run_do_too(void **state)
{
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < RECORDS; i++) {
        char *code = alloc_printf(FLOOD "import threading, time\n"
                                        "def later():\n"
                                        "    while not os.path.exists('ended'): time.sleep(0.01)\n"
                                        "    os.unlink('ended')\n"
                                        "    flood(b'%s')\n"
                                        "threading.Thread(target=later).start()\n"
                                        "print(f'touch ended; while test -e /proc/{os.getppid()}; '"
                                        "'do sleep 0.01; done')",
                                  records[i]);
        struct agent_result *r = run(f, "python", code);
        assert_status(r, OP_STATUS_OK);
        free(code);
        char *gone = alloc_strdup(r->out); /* when the agent has ended the interpreter */
        assert_status(run(f, "bash", gone), OP_STATUS_OK);
        free(gone);
        r = run(f, "python", "1 + 1");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "2");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
        assert_contains(r->err, "[the interpreter has ended before this run: ");
        r = run(f, "python", "1");
        assert_string_equal(r->err, "");
    }
}

/* An interrupt that the interpreter says it has missed, again and again, ends with the run. */
static void reports_without_end_outlive_no_interrupt(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "python",
                                    FLOOD "import signal\n"
                                          "signal.signal(signal.SIGINT, lambda *_: flood("
                                          "b'I00000000D000000010'))\n"
                                          "print('ready')\n"
                                          "while True: signal.pause()");
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    cancel(f, s.op.data, OP_STOP_CANCEL, false);
    struct agent_result *r = follow(f, s.op.data);
    assert_status(r, OP_STATUS_CANCELLED);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    r = run(f, "python", "1 + 1");
    assert_string_equal(r->result, "2");
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A program makes its streams non-blocking, as node does with pipes; all who have the pipe share
 * that flag. */
#define NONBLOCKING "python3 -c 'import os; [os.set_blocking(n, False) for n in (0, 1, 2)]'"

static void a_program_that_makes_pipes_nonblocking_costs_later_runs_nothing(void **state)
{
    static const struct {
        const char *language, *leave, *write, *program;
    } all[] = {
        {"python", "import subprocess, sys\nsubprocess.run(\"" NONBLOCKING "\", shell=True)",
         "n = sys.stdout.write('x' * 4000000 + '\\n') + sys.stderr.write('x' * 4000000 + '\\n')",
         "None if subprocess.run(['sh', '-c', 'head -c 4000000 /dev/zero']).returncode else 1"},
        {"javascript", "require('child_process').execSync(\"" NONBLOCKING "\", {stdio: 'inherit'})",
         "for (const s of [process.stdout, process.stderr]) s.write('x'.repeat(4000000) + '\\n'); "
         "0",
         "require('child_process').execSync('head -c 4000000 /dev/zero', {stdio: 'inherit'}); 1"},
        {"bash", NONBLOCKING,
         "head -c 4000000 /dev/zero; echo; head -c 4000000 /dev/zero >&2; echo >&2",
         "head -c 4000000 /dev/zero"},
    };
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_status(run(f, all[i].language, all[i].leave), OP_STATUS_OK);
        struct agent_result *r = run(f, all[i].language, all[i].write);
        assert_status(r, OP_STATUS_OK);
        assert_int_equal(r->out_len, 4000001);
        assert_int_equal(r->err_len, 4000001);
        assert_status(run(f, all[i].language, all[i].leave), OP_STATUS_OK);
        r = run(f, all[i].language, all[i].program);
        assert_status(r, OP_STATUS_OK);
        assert_int_equal(r->out_len, 4000000);
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    }
}

/* What the run itself wrote is not lost either. */
static void output_that_found_its_pipe_nonblocking_arrives_with_its_run(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python",
                                 "import os, sys\nos.set_blocking(1, False)\n"
                                 "try:\n"
                                 "    while True: os.write(1, b'x' * 65536)\n"
                                 "except BlockingIOError: pass\n"
                                 "sys.stdout.write('the end')\nNone");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out + r->out_len - 7, "the end");
    assert_string_equal(run(f, "python", "1")->out, "");
}

static void streams_that_code_puts_something_in_place_of_come_back(void **state)
{
    static const struct {
        const char *language, *leave, *write;
    } all[] = {
        {"python",
         "import os, sys\nlog = os.open('log', os.O_CREAT | os.O_WRONLY)\n"
         "os.dup2(log, 1); os.dup2(log, 2)\nNone",
         "print('out'); print('err', file=sys.stderr)"},
        {"javascript",
         "for (const n of [1, 2]) { fs.closeSync(n); fs.openSync('/proc/self/mounts'); }",
         "console.log('out'); console.error('err')"},
        {"javascript", "fs.closeSync(1); fs.closeSync(2)",
         "console.log('out'); console.error('err')"},
        {"bash", "exec >log 2>&1", "echo out; echo err >&2"},
    };
    struct fixture *f = fixture_of(state);
    run(f, "javascript", "var fs = require('fs')");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_status(run(f, all[i].language, all[i].leave), OP_STATUS_OK);
        struct agent_result *r = run(f, all[i].language, all[i].write);
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, "out\n");
        assert_string_equal(r->err, "err\n");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    }
}

static void stdin_that_code_closes_comes_back(void **state)
{
    static const struct {
        const char *language, *leave, *read, *look, *nothing;
    } all[] = {
        {"python", "import os, subprocess, sys\nos.close(0)",
         "print(repr(sys.stdin.read())); os.close(0)",
         "print(repr(sys.stdin.read()) + "
         "repr(subprocess.getoutput('cat; readlink /proc/self/fd/0')))",
         "'''/dev/null'\n"},
        {"javascript", "const fs = require('fs'); fs.closeSync(0)",
         "console.log(`'${fs.readFileSync(0)}'`); fs.closeSync(0)",
         "console.log(`'${fs.readFileSync(0)}'`)", "''\n"},
        {"bash", "exec <&-", "echo \"'$(cat)'\"; exec <&-",
         "echo \"'$(cat)''$(readlink /proc/self/fd/0)'\"", "'''/dev/null'\n"},
    };
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_status(run(f, all[i].language, all[i].leave), OP_STATUS_OK);
        for (int again = 0; again < 2; again++) {
            struct msg_start s = agent_code(&f->link, all[i].language, all[i].read);
            s.has_stdin = true;
            s.stdin_data = view_of("input");
            struct agent_result *r = run_start(f, &s);
            assert_status(r, OP_STATUS_OK);
            assert_string_equal(r->out, "'input'\n");
            assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
        }
        struct agent_result *r = run(f, all[i].language, all[i].look);
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, all[i].nothing);
    }
}

/* ---- what is shown between two runs ---------------------------------------------------------- */

/* It belongs to the next run, whose own follows it. */
static void what_a_timer_shows_between_two_runs_ends_no_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    assert_status(run(f, "javascript",
                      "display('first'); display('second');\n"
                      "function later() {\n"
                      "    if (!fs.existsSync('ended')) return setTimeout(later, 5);\n"
                      "    for (let i = 0; i < 100; i++) display('between');\n"
                      "    fs.unlinkSync('ended');\n"
                      "}\n"
                      "later(); 0"),
                  OP_STATUS_OK);
    assert_status(run(f, "bash", "touch ended; while test -e ended; do sleep 0.01; done"),
                  OP_STATUS_OK);
    struct agent_result *r =
        run(f, "javascript", "for (let i = 0; i < 100; i++) display('in the run'); 'end'");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->result, "'end'");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    assert_int_equal(r->display_count, LIMIT_DISPLAYS);
    assert_contains(r->err, "the rest of this run is left out");
    r = run(f, "javascript", "display('once')");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->display_count, 1);
}

/* ---- a shell in which code has replaced commands --------------------------------------------- */

/* Runs code in a new agent's shell, and tells what a later run comes to. */
static void left_in_bash(const char *leave, bool works)
{
    void *mine = NULL;
    assert_int_equal(fixture_start(&mine), 0);
    struct fixture *f = fixture_of(&mine);
    struct agent_result *r = run(f, "bash", leave);
    if (works) {
        assert_status(r, OP_STATUS_OK);
    }
    if (r->last.status == OP_STATUS_OK) {
        struct view env[] = {view_of("FROM=run")};
        struct msg_start s =
            agent_code(&f->link, "bash", "command echo $FROM $1; command printf ''");
        struct view args[] = {view_of("here")};
        s.env = (struct view_list){env, 1};
        s.args = (struct view_list){args, 1};
        r = run_start(f, &s);
    }
    if (works) {
        assert_status(r, OP_STATUS_OK);
        assert_contains(r->out, "run here\n");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
        r = run(f, "bash", "command echo and $((6 * 7))");
        assert_contains(r->out, "and 42\n");
    } else {
        assert_status(r, OP_STATUS_CRASHED);
        assert_contains(r->message, "it could not report the end of the code");
        r = run(f, "bash", "echo new");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->out, "new\n");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    }
    fixture_stop(&mine);
}

static void what_code_replaces_in_a_shell_does_not_stop_later_runs(void **state)
{
    (void)state;
    static const char *const leave[] = {
        "enable -n echo",
        "enable -n printf return trap kill wait",
        "enable -n . eval set",
        "readonly __cloister_left",
        "for n in . set echo printf return trap kill wait unset exec test eval; do "
        "eval \"$n() { :; }\"; done",
        "for n in . builtin eval set echo return trap kill wait; do alias $n=:; done",
        "trap 'command echo debug' DEBUG",
        "set -T; trap 'command echo debug' DEBUG",
        "set -e",
        "set -euo pipefail",
        "set -xvCf; shopt -s failglob xpg_echo lastpipe",
        "set -o posix",
        "IFS=0; PS1='$(exit 1)'; PS4='$('",
        "PROMPT_COMMAND=(a b)",
        "readonly PROMPT_COMMAND",
        "exec 0<&- 1>&- 2>&-",
    };
    for (size_t i = 0; i < sizeof(leave) / sizeof(leave[0]); i++) {
        left_in_bash(leave[i], true);
    }
}

static void a_debug_trap_of_a_shell_sees_its_own_run_and_not_the_driver(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "bash", "trap 'echo debug' DEBUG\ntrue\n(exit 3)");
    assert_int_equal(r->last.exit_code, 3);
    assert_string_equal(r->out,
                        "debug\n"); /* for `true`: a subshell is no command that it is called for */
    assert_string_equal(run(f, "bash", "echo one")->out, "one\n");
    r = run(f, "bash", "trap 'echo debug' DEBUG; return 4");
    assert_int_equal(r->last.exit_code, 4);
    assert_string_equal(r->out, "debug\n");
    r = run(f, "bash", "echo two; trap -p DEBUG");
    assert_string_equal(r->out, "two\n");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void a_shell_that_cannot_report_is_ended_with_the_reason(void **state)
{
    (void)state;
    static const char *const leave[] = {
        "enable -n builtin",
        "builtin() { :; }",
        "alias {=:",
        "alias [[=:",
        "enable -n . enable",
        "readonly __cloister_status",
        "readonly __cloister_report",
        "set -r",
        "shopt -s extdebug; trap false DEBUG",
    };
    for (size_t i = 0; i < sizeof(leave) / sizeof(leave[0]); i++) {
        left_in_bash(leave[i], false);
    }
}

/* Where the shell passes over the blanks of all looks. */
static void code_that_lasts_is_not_taken_for_ended(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "bash", "v=1; sleep 0.4; (sleep 0.4); sleep 0.4 & wait; echo end");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "end\n");
    r = run(f, "bash", "echo $v");
    assert_string_equal(r->out, "1\n");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

/* It ends after its next command: with the first run, between the two, or when it should begin the
 * second. */
static void a_shell_that_ends_before_it_begins_says_so(void **state)
{
    struct fixture *f = fixture_of(state);
    for (int i = 0; i < 20; i++) {
        assert_status(run(f, "bash", "set -t"), OP_STATUS_OK);
        struct agent_result *r = run(f, "bash", "echo ran");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
        if (strcmp(r->out, "ran\n") != 0) {
            assert_status(r, OP_STATUS_CRASHED);
            assert_true(r->message[0] != '\0');
        }
    }
}

/* ---- functions that see every call ----------------------------------------------------------- */

static void a_trace_function_sees_code_and_not_the_driver(void **state)
{
    struct fixture *f = fixture_of(state);
    static const char *const hooks[] = {"trace", "profile"};
    for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++) {
        char *code = alloc_printf("import sys\nseen = set()\n"
                                  "def hook(frame, event, arg):\n"
                                  "    seen.add(frame.f_code.co_name)\n"
                                  "def mine(): return 'mine'\n"
                                  "sys.set%s(hook)",
                                  hooks[i]);
        assert_status(run(f, "python", code), OP_STATUS_OK);
        free(code);
        assert_string_equal(run(f, "python", "mine()")->result, "'mine'");
        code = alloc_printf("sys.set%s(None)\n"
                            "'mine' in seen, seen & {'run_once', 'read_request', 'send', 'flush'}",
                            hooks[i]);
        assert_string_equal(run(f, "python", code)->result, "(True, set())");
        free(code);
        /* one that raises wherever it is called */
        code = alloc_printf("def bad(*_): raise RuntimeError('from the hook')\nsys.set%s(bad)",
                            hooks[i]);
        run(f, "python", code);
        free(code);
        struct agent_result *r = run(f, "python", "mine()");
        assert_true(r->last.status == OP_STATUS_OK || strstr(r->message, "from the hook") != NULL);
        r = run(f, "python", "mine()");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "'mine'");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
    }
}

/* ---- what code does to its language ---------------------------------------------------------- */

/* Later runs work, or end with a reason, and the one after that works again. */
static void what_code_breaks_in_its_language_ends_no_run_in_silence(void **state)
{
    (void)state;
    static const struct {
        const char *language, *leave;
    } all[] = {
        {"python", "import sys; sys.addaudithook(lambda *_: 1 / 0)"},
        {"python", "import sys; sys.setrecursionlimit(25)"},
        {"python", "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"},
        {"python", "import signal; [signal.signal(s, signal.SIG_IGN) for s in (2, 13, 17, 23)]"},
        {"python", "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))"},
        {"python", "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"},
        {"python", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"},
        {"python", "import sys; sys.modules['os'] = sys.modules['io'] = None"},
        {"python", "import builtins\nfor n in ('getattr', 'isinstance', 'repr', 'OSError', "
                   "'BaseException'): setattr(builtins, n, None)"},
        {"python", "import io; io.FileIO = io.TextIOWrapper = None"},
        {"javascript", "WeakMap.prototype.get = Map.prototype.get = Reflect.apply = null"},
        {"javascript", "Promise.prototype.then = Function.prototype.call = null"},
        {"javascript", "Array.prototype[Symbol.iterator] = null"},
        {"javascript", "process.removeAllListeners(); process.emit = process.kill = null"},
        {"javascript", "require('fs').closeSync(3)"},
        {"javascript", "Object.prototype.value = 2; Object.prototype.error = {}"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        void *mine = NULL;
        assert_int_equal(fixture_start(&mine), 0);
        struct fixture *f = fixture_of(&mine);
        bool python = strcmp(all[i].language, "python") == 0;
        run(f, all[i].language, all[i].leave);
        bool worked = false;
        for (int k = 0; k < 3 && !worked; k++) {
            struct msg_start s =
                agent_code(&f->link, all[i].language,
                           python ? "[n for n in (42,)][0]"
                                  : "await new Promise((r) => setTimeout(r, 1)); 6 * 7");
            s.has_stdin = true;
            s.stdin_data = view_of("input");
            struct agent_result *r = run_start(f, &s);
            worked = r->last.status == OP_STATUS_OK;
            assert_true(worked || r->message[0] != '\0' || r->err[0] != '\0');
            if (worked) {
                assert_string_equal(r->result, "42");
            } else if (r->last.interpreter == OP_INTERPRETER_KEPT) {
                break; /* an error of the language, which says what code has broken */
            }
        }
        fixture_stop(&mine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_without_end_end_the_interpreter),
        cmocka_unit_test(reports_without_end_after_a_run_do_too),
        cmocka_unit_test(reports_without_end_outlive_no_interrupt),
        cmocka_unit_test(a_program_that_makes_pipes_nonblocking_costs_later_runs_nothing),
        cmocka_unit_test(output_that_found_its_pipe_nonblocking_arrives_with_its_run),
        cmocka_unit_test(streams_that_code_puts_something_in_place_of_come_back),
        cmocka_unit_test(stdin_that_code_closes_comes_back),
        cmocka_unit_test(what_a_timer_shows_between_two_runs_ends_no_interpreter),
        cmocka_unit_test(what_code_replaces_in_a_shell_does_not_stop_later_runs),
        cmocka_unit_test(a_debug_trap_of_a_shell_sees_its_own_run_and_not_the_driver),
        cmocka_unit_test(a_shell_that_cannot_report_is_ended_with_the_reason),
        cmocka_unit_test(code_that_lasts_is_not_taken_for_ended),
        cmocka_unit_test(a_shell_that_ends_before_it_begins_says_so),
        cmocka_unit_test(a_trace_function_sees_code_and_not_the_driver),
        cmocka_unit_test(what_code_breaks_in_its_language_ends_no_run_in_silence),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
