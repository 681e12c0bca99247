/*
 * Live bash, as callers of execute_code use it.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static void variables_functions_and_directory_live(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "bash", "x=5; f() { echo \"f $x $1\"; }; declare -a a=(1 2 3); cd /usr\necho set");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "set\n");
    assert_string_equal(r->err, "");
    r = run(f, "bash", "f you; pwd; echo ${a[1]}");
    assert_string_equal(r->out, "f 5 you\n/usr\n2\n");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void exit_codes_and_errors_are_those_of_bash(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "bash", "echo a; false");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 1);
    assert_string_equal(r->out, "a\n");
    r = run(f, "bash", "return 7");
    assert_int_equal(r->last.exit_code, 7);
    r = run(f, "bash", "nosuchcommand");
    assert_int_equal(r->last.exit_code, 127);
    assert_string_equal(r->err, "bash: nosuchcommand: command not found\n");
    r = run(f, "bash", "if then");
    assert_int_equal(r->last.exit_code, 2);
    assert_contains(r->err, "line 1: syntax error");
    r = run(f, "bash", "echo \"open");
    assert_status(r, OP_STATUS_ERROR);
    r = run(f, "bash", "echo ${unset_one:?is needed}; echo not here");
    assert_status(r, OP_STATUS_ERROR);
    assert_string_equal(r->out, "");
    r = run(f, "bash", "true");
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void a_shell_that_ends_is_replaced(void **state)
{
    struct fixture *f = fixture_of(state);
    static const struct {
        const char *code;
        int exit_code;
        const char *out;
    } ends[] = {
        {"echo bye; exit 3", 3, "bye\n"},
        {"exit", 0, ""},
        {"set -e; echo before; false; echo after", 1, "before\n"},
        {"exec sh -c 'echo other; exit 4'", 4, "other\n"},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        run(f, "bash", "lost=1");
        struct agent_result *r = run(f, "bash", ends[i].code);
        assert_status(r, ends[i].exit_code == 0 ? OP_STATUS_OK : OP_STATUS_ERROR);
        assert_int_equal(r->last.exit_code, ends[i].exit_code);
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
        assert_string_equal(r->out, ends[i].out);
        assert_string_equal(r->err, ""); /* an interactive shell would print "exit" */
        r = run(f, "bash", "echo ${lost:-gone}");
        assert_string_equal(r->out, "gone\n");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    }
    struct agent_result *r = run(f, "bash", "kill -9 $$; sleep 5");
    assert_status(r, OP_STATUS_CRASHED);
    assert_int_equal(r->last.exit_code, 128 + 9);
}

static void stdin_arguments_and_environment_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    struct view args[] = {view_of("a b"), view_of("it's"), view_of("-n")};
    struct view env[] = {view_of("CL_TEST=x 'y' $HOME")};
    struct msg_start s = agent_code(&f->link, "bash",
                                    "read -r l; echo \"$l|$#|$1|$2|$3|$CL_TEST\"; cat\n"
                                    "printenv CL_TEST");
    s.has_stdin = true;
    s.stdin_data = view_of("first\nsecond\n");
    s.args = (struct view_list){args, 3};
    s.env = (struct view_list){env, 1};
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "first|3|a b|it's|-n|x 'y' $HOME\nsecond\nx 'y' $HOME\n");
    r = run(f, "bash", "echo \"$#|$CL_TEST|$(cat)|\"");
    assert_string_equal(r->out, "0|||\n");
}

/* Quotes at both ends, one after the other, and more of them than are written at once. */
static void quotes_in_code_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    char code[1024] = "'printf' '[%s]' 'a''b' \"it's\" ''";
    for (size_t i = 0; i < 100; i++) {
        strcat(code, " 'x'");
    }
    char expected[1024] = "[ab][it's][]";
    for (size_t i = 0; i < 100; i++) {
        strcat(expected, "[x]");
    }
    assert_string_equal(run(f, "bash", code)->out, expected);
    assert_string_equal(run(f, "bash", "echo one\necho 'end'")->out, "one\nend\n");
    assert_status(run(f, "bash", ""), OP_STATUS_OK);
}

static void nothing_of_ours_shows_in_the_shell(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "bash", "sleep 0.05 & echo started; wait; history | wc -l; echo \"a!b\"");
    assert_string_equal(r->out, "started\n0\na!b\n");
    assert_string_equal(r->err, "");
    r = run(f, "bash", "ls /proc/self/fd | wc -l"); /* 0 1 2 and the directory itself */
    assert_string_equal(r->out, "4\n");
    r = run(f, "bash", "echo err >/dev/stderr; echo out >/dev/stdout; cat /dev/stdin");
    assert_string_equal(r->out, "out\n");
    assert_string_equal(r->err, "err\n");
    r = run(f, "bash", "set -x; echo traced; set +x");
    assert_contains(r->err, "echo traced\n");
    r = run(f, "bash", "echo $LINENO");
    assert_string_equal(r->out, "1\n");
}

static void a_job_in_the_background_holds_nobody_up(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "bash", "sleep 600 & echo started");
    assert_status(r, OP_STATUS_OK);
    r = run(f, "bash", "kill %1; wait %1; echo $?"); /* the job is still there */
    assert_contains(r->out, "143\n");
}

static void an_interrupt_keeps_the_state(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "kept=still");
    static const char *const codes[] = {
        "echo in; sleep 60; echo not here",
        "echo in; while :; do :; done",
        "g() { echo in; sleep 60; }; g; echo not here",
        "echo in | cat; (sleep 60); echo not here",
        "echo in; read -r x < <(sleep 60)",
        "sleep 60 & echo in; wait; echo not here",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct agent_result *r = run_interrupted(f, "bash", codes[i], 0);
        assert_int_equal(r->last.exit_code, 130);
        assert_string_equal(r->out, "in\n");
        assert_string_equal(r->err, "");
        r = run(f, "bash", "echo $kept");
        assert_string_equal(r->out, "still\n");
    }
}

/* Between two programs a shell is busy forking, or is being told that one has ended: an interrupt
 * must not get lost then, and must not only end one program. */
static void an_interrupt_between_two_forks_is_not_lost(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "kept=still; f() { echo \"f $kept\"; }; cd /usr");
    static const char *const codes[] = {
        "echo in; for i in $(seq 1 100000); do /bin/true; done; echo after",
        "echo in; for i in {1..100000}; do ( : ); done; echo after",
        "echo in; for i in {1..100000}; do x=$(echo $i); done; echo after",
        "echo in; for i in {1..100000}; do echo $i | cat >/dev/null; done; echo after",
        "echo in; for i in {1..100000}; do /bin/true & wait; done; echo after",
        "echo in; while /bin/true && ! /bin/false; do :; done; echo after",
    };
    const unsigned count = sizeof(codes) / sizeof(codes[0]);
    for (unsigned i = 0; i < 12 * count; i++) {
        struct agent_result *r = run_interrupted(f, "bash", codes[i % count], i * 331 % 5000);
        assert_int_equal(r->last.exit_code, 130);
        assert_string_equal(r->out, "in\n");
        assert_string_equal(r->err, "");
        r = run(f, "bash", "f; pwd; sleep 0.005 & wait $! && echo waited");
        assert_string_equal(r->out, "f still\n/usr\nwaited\n");
    }
}

/* A subshell may have to be interrupted more than once, but rarely enough that it need not be
 * killed. */
static void subshells_are_interrupted_too(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "kept=still");
    static const char *const codes[] = {
        "echo in; (for i in {1..100000}; do /bin/true; done; echo after); echo after",
        "echo in; for i in {1..100000}; do /bin/true; done | cat; echo after",
        "echo in; x=$(for i in {1..100000}; do /bin/true; done); echo after",
        "echo in; bash -c 'while :; do /bin/true; done'; echo after",
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct agent_result *r = run_interrupted(f, "bash", codes[i], 0);
        assert_int_equal(r->last.exit_code, 130);
        assert_string_equal(r->out, "in\n");
        r = run(f, "bash", "echo $kept");
        assert_string_equal(r->out, "still\n");
    }
}

static void an_interrupt_at_any_time_hits_its_run_only(void **state)
{
    struct fixture *f = fixture_of(state);
    static const char *const codes[] = {"sleep 600", "true", "sleep 0.002"};
    run(f, "bash", "kept=still");
    interrupt_any_time(f, "bash", codes, "echo $kept");
}

static void megabytes_of_code_arrive(void **state)
{
    struct fixture *f = fixture_of(state);
    size_t size = 3u << 20;
    char *code = alloc_array(size + 64, 1);
    memcpy(code, "s=", 2);
    memset(code + 2, 'x', size);
    memcpy(code + 2 + size, "; echo ${#s}", 13);
    struct agent_result *r = run(f, "bash", code);
    assert_string_equal(r->out, "3145728\n");
    free(code);
}

static void processor_time_and_memory_are_told(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "bash", "for ((i = 0; i < 200000; i++)); do :; done");
    assert_true(r->last.cpu_us > 20000);
    assert_true(r->last.cpu_us <= r->last.duration_us + 50000);
    assert_true(r->last.max_rss_kb > 1000);
    r = run(f, "bash", "sleep 0.1");
    assert_true(r->last.duration_us >= 100000);
    assert_true(r->last.cpu_us < r->last.duration_us / 2);
}

/* The interrupt comes when the interpreter has hardly begun to start. */
static void an_interrupt_while_the_shell_starts_is_not_lost(void **state)
{
    struct fixture *f = fixture_of(state);
    interrupt_at_start(f, "bash", "exit 3", "sleep 600", ":");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_functions_and_directory_live),
        cmocka_unit_test(exit_codes_and_errors_are_those_of_bash),
        cmocka_unit_test(a_shell_that_ends_is_replaced),
        cmocka_unit_test(stdin_arguments_and_environment_arrive),
        cmocka_unit_test(quotes_in_code_arrive),
        cmocka_unit_test(nothing_of_ours_shows_in_the_shell),
        cmocka_unit_test(a_job_in_the_background_holds_nobody_up),
        cmocka_unit_test(an_interrupt_keeps_the_state),
        cmocka_unit_test(an_interrupt_between_two_forks_is_not_lost),
        cmocka_unit_test(subshells_are_interrupted_too),
        cmocka_unit_test(an_interrupt_at_any_time_hits_its_run_only),
        cmocka_unit_test(megabytes_of_code_arrive),
        cmocka_unit_test(processor_time_and_memory_are_told),
        cmocka_unit_test(an_interrupt_while_the_shell_starts_is_not_lost),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
