/*
 * Languages whose code is run by programs, and runs of a single program. The programs are shells,
 * since the test is about how they are run.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/clock.h"
#include "proto/codec.h"

#define WORDS_MAX 40

struct words {
    struct view items[WORDS_MAX];
    size_t count;
};

static struct words words_of(const char *const *words)
{
    struct words w = {.count = 0};
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        w.items[w.count++] = view_of(words[i]);
    }
    return w;
}

struct row {
    const char *language, *file;
    const char *const *compile, *const *run, *const *needs;
};

#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* Encoded rows; owns their bytes. */
struct runners {
    struct buf bytes[8];
    struct view items[8];
    size_t count;
};

static void add_runner(struct runners *r, struct row row)
{
    struct msg m = {.type = MSG_RUNNER};
    struct words compile = words_of(row.compile);
    struct words run = words_of(row.run);
    struct words needs = words_of(row.needs);
    m.runner.language = view_of(row.language);
    m.runner.file = view_of(row.file);
    m.runner.compile = (struct view_list){compile.items, compile.count};
    m.runner.run = (struct view_list){run.items, run.count};
    m.runner.needs = (struct view_list){needs.items, needs.count};
    buf_init(&r->bytes[r->count], LIMIT_ITEM);
    assert_int_equal(msg_encode(&r->bytes[r->count], &m, NULL), 0);
    r->items[r->count] = view_bytes(r->bytes[r->count].data, r->bytes[r->count].len);
    r->count++;
}

static struct msg hello(struct fixture *f, struct view_list runners)
{
    struct err err = ERR_INIT;
    struct msg reply;
    struct msg m = agent_hello_message(1);
    m.hello.runners = runners;
    assert_int_equal(agent_connect(&f->link, &f->agent, &err), 0);
    assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
    return reply;
}

/* An invalid table is refused with a reason, and the next HELLO counts as the first. */
static void refuse_malformed(struct fixture *f)
{
    static const char *const sh[] = {"sh", NULL};
    static const char *const none[] = {"env", "A=b", NULL};
    static const char *const empty[] = {"sh", "", NULL};
    const char *many[WORDS_MAX] = {NULL};
    for (size_t i = 0; i <= LIMIT_RUNNER_WORDS; i++) {
        many[i] = "x";
    }
    char *long_word = alloc_array(LIMIT_RUNNER_BYTES + 2, 1);
    memset(long_word, 'x', LIMIT_RUNNER_BYTES + 1);
    const char *const large[] = {"sh", long_word, NULL};
    const struct row rows[] = {
        {"", "f", NULL, sh, NULL},        {"l", "", NULL, sh, NULL},
        {"l", "..", NULL, sh, NULL},      {"l", "a/b", NULL, sh, NULL},
        {"l", "program", NULL, sh, NULL}, {"l", "f", NULL, NULL, NULL},
        {"l", "f", none, sh, NULL},       {"l", "f", NULL, none, NULL},
        {"l", "f", NULL, empty, NULL},    {"l", "f", many, sh, NULL},
        {"l", "f", NULL, sh, large},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) + 2; i++) {
        struct runners r = {.count = 0};
        struct view other[LIMIT_RUNNERS + 1];
        struct view_list list = {r.items, 1};
        if (i < sizeof(rows) / sizeof(rows[0])) {
            add_runner(&r, rows[i]);
        } else {
            add_runner(&r, (struct row){"l", "f", NULL, sh, NULL});
            for (size_t k = 0; k <= LIMIT_RUNNERS; k++) {
                other[k] = i % 2 == 0 ? view_of("no message") : r.items[0];
            }
            list = (struct view_list){other, LIMIT_RUNNERS + 1 - (i % 2 == 0)};
        }
        struct msg reply = hello(f, list);
        assert_int_equal(reply.type, MSG_FAILED);
        assert_int_equal(reply.failed.code, ERR_PROTOCOL);
        msg_finish(&reply);
        agent_disconnect(&f->link);
        buf_finish(&r.bytes[0]);
    }
    free(long_word);
}

static int setup(void **state)
{
    struct err err = ERR_INIT;
    struct fixture *f = alloc_one(struct fixture);
    struct runners r = {.count = 0};
    *state = f;
    f->link.fd = -1;
    const struct agent_options o = {.program = getenv("CLOISTER_AGENT")};
    if (o.program == NULL || agent_start(&f->agent, &o, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    refuse_malformed(f);
    add_runner(&r, (struct row){"shell", "main.sh", NULL, WORDS("sh", "{file}"), NULL});
    add_runner(&r, (struct row){"two", "code",
                                WORDS("env", "KIND=in {dir}", "PATH=/usr/bin:/bin", "sh", "{file}",
                                      "made:{exe}"),
                                WORDS("sh", "{exe}"), NULL});
    add_runner(&r, (struct row){"absent", "x", NULL, WORDS("no-such-program", "{file}"), NULL});
    add_runner(&r, (struct row){"absent", "x", NULL, WORDS("sh"), WORDS("no-such-program")});
    add_runner(&r, (struct row){"either", "x", NULL, WORDS("no-such-program"), NULL});
    add_runner(&r, (struct row){"either", "x", NULL, WORDS("sh", "{file}"), WORDS("env")});
    add_runner(&r, (struct row){"either", "x", NULL, WORDS("false"), NULL});
    add_runner(&r, (struct row){"python", "x", NULL, WORDS("false"), NULL});
    struct msg reply = hello(f, (struct view_list){r.items, r.count});
    static const char *const wanted[] = {"python", "bash", "shell", "two", "either"};
    assert_int_equal(reply.type, MSG_HELLO_OK);
    size_t at = 0;
    for (size_t i = 0; i < reply.hello_ok.languages.count; i++) {
        if (at < 5 && view_is(reply.hello_ok.languages.items[i], wanted[at])) {
            at++;
        } /* live languages are listed between them */
    }
    assert_int_equal(at, 5);
    msg_finish(&reply);
    for (size_t i = 0; i < r.count; i++) {
        buf_finish(&r.bytes[i]);
    }
    return 0;
}

static struct msg_start program(struct fixture *f, const struct words *argv)
{
    struct msg_start s = agent_code(&f->link, "", "");
    s.kind = OP_RUN;
    s.args = (struct view_list){argv->items, argv->count};
    return s;
}

/* ---- one run --------------------------------------------------------------------------------- */

static void the_languages_of_the_first_hello_stay(void **state)
{
    struct fixture *f = fixture_of(state);
    reconnect(f, 2); /* without runners: those of the first HELLO stay */
    struct agent_result *r = run(f, "shell", "echo still");
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "still\n");
}

static void a_program_gets_its_arguments_environment_and_input(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s =
        agent_code(&f->link, "shell", "echo \"$#:$1:$2:$NAME:$(pwd)\"; cat; echo oops >&2; exit 5");
    struct words args = words_of(WORDS("a b", "-x"));
    struct words env = words_of(WORDS("NAME=value with = and 'quotes'"));
    s.args = (struct view_list){args.items, args.count};
    s.env = (struct view_list){env.items, env.count};
    s.has_stdin = true;
    s.stdin_data = view_of("from stdin");
    struct agent_result *r = run_start(f, &s);
    char wanted[512];
    snprintf(wanted, sizeof(wanted), "2:a b:-x:value with = and 'quotes':%s\nfrom stdin",
             f->agent.workspace);
    assert_string_equal(r->out, wanted);
    assert_string_equal(r->err, "oops\n");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 5);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_NONE);
    assert_true(r->last.max_rss_kb > 100);
    assert_true(r->last.duration_us > 0);
    r = run(f, "either", "read line; echo \"$?\""); /* without input there is none */
    assert_string_equal(r->out, "1\n");
    r = run(f, "shell", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    assert_true(r->last.cpu_us > 20000);
}

static void a_program_has_a_directory_that_goes_with_it(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(
        f, "shell", "echo ${0%/*}; mkdir ${0%/*}/more; touch ${0%/*}/more/file; ls -ld ${0%/*}");
    assert_status(r, OP_STATUS_OK);
    char *newline = strchr(r->out, '\n');
    *newline = '\0';
    assert_memory_equal(r->out, "/tmp/run-", 9);
    assert_contains(newline + 1, "drwx------");
    assert_int_equal(access(r->out, F_OK), -1);
    assert_int_equal(errno, ENOENT);
    /* even if it was killed */
    struct msg_start s = agent_code(&f->link, "shell", "trap '' INT; echo ${0%/*}; sleep 60");
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    cancel(f, s.op.data, OP_STOP_CANCEL, true);
    r = follow(f, s.op.data);
    *strchr(r->out, '\n') = '\0';
    assert_int_equal(access(r->out, F_OK), -1);
    /* a directory that cannot be removed does not affect the next run */
    r = run(f, "shell", "cd ${0%/*}; mkdir a; touch a/b; chmod 0 a; exit 0");
    assert_status(r, OP_STATUS_OK);
    assert_status(run(f, "shell", "chmod -R 700 /tmp/run-*; rm -rf /tmp/run-*/a"), OP_STATUS_OK);
}

/* The outcome waits for the removal of the directory, which takes some time and may go on
 * afterwards: so this is the last test. */
static void the_removal_is_no_part_of_the_duration(void **state)
{
    struct fixture *f = fixture_of(state);
    uint64_t before_us = clock_us();
    struct agent_result *r = run(f, "shell", "cd ${0%/*}; seq 4000 | xargs touch; ls | wc -l");
    uint64_t elapsed_us = clock_us() - before_us;
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "4001\n");
    assert_true(r->last.duration_us > 0);
    assert_true(elapsed_us - r->last.duration_us > 2000);
}

static void what_is_compiled_runs(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        run(f, "two", "echo \"$KIND\"; echo \"$1\" >&2; echo 'echo made; exit 2' >${1#made:}");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 2);
    assert_string_equal(r->out, "made\n");
    assert_memory_equal(r->err, "in /tmp/run-", 12);
    assert_contains(r->err, "made:/tmp/run-");
    assert_string_equal(r->name, "");
    r = run(f, "two", "echo on stdout; echo on stderr >&2; exit 7");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 7);
    assert_string_equal(r->out, "");
    assert_string_equal(r->err, "on stdout\non stderr\n");
    assert_string_equal(r->name, "CompileError");
    assert_contains(r->message, "sh ended with exit code 7");
    /* the client's arguments and input are the program's */
    struct msg_start s = agent_code(
        &f->link, "two", "echo \"$#$(cat)\"; echo 'echo \"$#$(cat) $KIND\"' >${1#made:}");
    struct words args = words_of(WORDS("1", "2"));
    s.args = (struct view_list){args.items, args.count};
    s.has_stdin = true;
    s.stdin_data = view_of("input");
    r = run_start(f, &s);
    assert_string_equal(r->err, "1\n");
    assert_string_equal(r->out, "2input \n");
}

static void a_program_that_is_killed_says_by_what(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "shell", "echo before; kill -SEGV $$");
    assert_status(r, OP_STATUS_ERROR);
    assert_int_equal(r->last.exit_code, 139);
    assert_string_equal(r->out, "before\n");
    assert_contains(r->message, "signal 11");
    r = run(f, "two", "kill -KILL $$");
    assert_int_equal(r->last.exit_code, 137);
    assert_string_equal(r->name, "CompileError");
}

static void a_language_that_is_absent_is_said(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "absent", "x");
    assert_int_equal(r->failed, ERR_LANGUAGE);
    r = run(f, "shell", "");
    assert_status(r, OP_STATUS_OK);
}

/* ---- a program without a language ------------------------------------------------------------ */

static void a_command_runs_without_a_shell(void **state)
{
    struct fixture *f = fixture_of(state);
    struct words argv = words_of(WORDS("printf", "%s|", "$HOME", "a b", "*", "{file}"));
    struct msg_start s = program(f, &argv);
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "$HOME|a b|*|{file}|");
    argv = words_of(WORDS("pwd"));
    s = program(f, &argv);
    s.path = view_of("/usr/bin");
    assert_string_equal(run_start(f, &s)->out, "/usr/bin\n");
    /* found in the PATH of the run */
    run(f, "shell",
        "mkdir -p bin; printf '#!/bin/sh\\necho mine' >bin/tool; chmod 755 bin/tool; "
        "echo x >bin/text; chmod 755 bin/text; echo x >bin/closed");
    char path[256];
    snprintf(path, sizeof(path), "PATH=/nowhere:%s/bin:/bin", f->agent.workspace);
    struct words env = words_of(WORDS(path));
    argv = words_of(WORDS("tool"));
    s = program(f, &argv);
    assert_int_equal(run_start(f, &s)->last.fail_code, ERR_FILE_NOT_FOUND);
    s = program(f, &argv);
    s.env = (struct view_list){env.items, env.count};
    assert_string_equal(run_start(f, &s)->out, "mine\n");
    argv = words_of(WORDS("bin/tool"));
    s = program(f, &argv);
    assert_string_equal(run_start(f, &s)->out, "mine\n");
}

static void a_command_that_cannot_run_says_why(void **state)
{
    struct fixture *f = fixture_of(state);
    const struct {
        const char *program, *path;
        uint64_t code;
        const char *message;
    } cases[] = {
        {"no-such-program", "", ERR_FILE_NOT_FOUND, "cannot run no-such-program"},
        {"bin/closed", "", ERR_DENIED, "cannot run bin/closed"},
        {"bin/text", "", ERR_INVALID,
         "cannot run bin/text"}, /* scripts without an interpreter line are not run by a shell */
        {"./bin", "", ERR_DENIED, "cannot run ./bin"},
        {"", "", ERR_FILE_NOT_FOUND, "cannot run"},
        {"true", "/no/such/place", ERR_FILE_NOT_FOUND, "cannot run in /no/such/place"},
        {"true", "bin/text", ERR_PATH, "cannot run in bin/text"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct words argv = words_of(WORDS(cases[i].program));
        struct msg_start s = program(f, &argv);
        s.path = view_of(cases[i].path);
        struct agent_result *r = run_start(f, &s);
        assert_status(r, OP_STATUS_FAILED);
        assert_int_equal(r->last.fail_code, cases[i].code);
        assert_contains(r->message, cases[i].message);
    }
    struct words argv = words_of(NULL);
    struct msg_start s = program(f, &argv);
    assert_int_equal(run_start(f, &s)->failed, ERR_INVALID);
    argv = words_of(WORDS("true"));
    argv.items[argv.count++] = view_bytes("a\0b", 3);
    s = program(f, &argv);
    assert_int_equal(run_start(f, &s)->failed, ERR_INVALID);
    s.kind = OP_PRELOAD + 1;
    s.op = view_of("unknown-kind");
    assert_int_equal(run_start(f, &s)->failed, ERR_INVALID);
}

/* ---- several --------------------------------------------------------------------------------- */

#define WAIT_FOR_GO "echo up; until [ -e go ]; do sleep 0.02; done; echo $1"

static void programs_run_side_by_side(void **state)
{
    struct fixture *f = fixture_of(state);
    const char *ids[LIMIT_PROGRAMS + 2];
    char numbers[LIMIT_PROGRAMS + 2][4];
    struct err err = ERR_INIT;
    run(f, "shell", "rm -f go");
    f->link.turns = 0;
    for (size_t i = 0; i < LIMIT_PROGRAMS + 2; i++) {
        bool queued = i >= LIMIT_PROGRAMS;
        snprintf(numbers[i], sizeof(numbers[i]), "%zu", i);
        struct msg m = {.type = MSG_START};
        struct msg reply;
        struct view arg = view_of(numbers[i]);
        m.start = agent_code(&f->link, i % 2 == 0 ? "shell" : "either", WAIT_FOR_GO);
        m.start.args = (struct view_list){&arg, 1};
        m.start.wait_ms = queued ? 0 : AGENT_CLIENT_WAIT_MS;
        ids[i] = m.start.op.data;
        assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
        assert_int_equal(reply.output.state, queued ? OP_QUEUED : OP_RUNNING);
        msg_finish(&reply);
    }
    assert_string_equal(run(f, "bash", "echo beside")->out, "beside\n");
    /* a queued one ends at once */
    cancel(f, ids[LIMIT_PROGRAMS], OP_STOP_CANCEL, false);
    assert_status(follow(f, ids[LIMIT_PROGRAMS]), OP_STATUS_CANCELLED);
    assert_int_equal(f->link.turns, 0);
    run(f, "bash", "touch go");
    for (size_t i = 0; i < LIMIT_PROGRAMS + 2; i++) {
        char wanted[16];
        snprintf(wanted, sizeof(wanted), "up\n%zu\n", i);
        if (i != LIMIT_PROGRAMS) {
            struct agent_result *r = follow(f, ids[i]);
            assert_status(r, OP_STATUS_OK);
            assert_string_equal(r->out, wanted);
        }
    }
    assert_int_equal(f->link.turns, 1);
}

static void all_output_of_a_program_arrives(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s =
        agent_code(&f->link, "shell",
                   "i=0; while [ $i -lt 3000 ]; do printf '%01023d\\n' $i; i=$((i+1)); done");
    const char *op = s.op.data;
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, 3000 * 1024);
    assert_memory_equal(r->out + r->out_len - 5, "2999\n", 5);
    /* another server can read it from the beginning */
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_WAIT};
    struct msg reply;
    reconnect(f, 3);
    m.wait.op = view_of(op);
    assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
    assert_int_equal(reply.output.out_from, 0);
    assert_int_equal(reply.output.out.len, LIMIT_OP_KEPT);
    msg_finish(&reply);
}

/* ---- the end of process trees ---------------------------------------------------------------- */

/* Prints its own pid, and that of a process that has left its session and process group. */
#define TREE                                                                                       \
    "setsid sh -c 'trap \"\" INT TERM HUP; echo $$; exec sleep 600' & "                            \
    "setsid setsid sleep 601 </dev/null >/dev/null 2>&1 & "                                        \
    "sleep 0.2; echo all; "

static void assert_tree_is_gone(const char *out)
{
    pid_t pid = (pid_t)strtol(out, NULL, 10);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void all_that_a_program_has_started_ends_with_it(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "shell", TREE "exit 0");
    assert_status(r, OP_STATUS_OK);
    assert_tree_is_gone(r->out);
    /* processes that a compiler leaves are ended before the program runs */
    r = run(f, "two", "(trap '' INT; sleep 600) & echo $!; echo 'echo after' >${1#made:}");
    assert_string_equal(r->out, "after\n");
    assert_tree_is_gone(r->err);
    /* An interrupt sends SIGINT, and processes that ignore it end with the program. A shell may
     * begin one more command before it checks for the signal, so all of them are short. */
    struct msg_start s = agent_code(
        &f->link, "shell", "trap 'echo caught; exit 9' INT; " TREE "while :; do sleep 0.1; done");
    for (int force = 0; force < 2; force++) {
        s.op = agent_code(&f->link, "", "").op;
        s.wait_ms = 0;
        start_only(f, &s, AGENT_CLIENT_WAIT_MS);
        struct err err = ERR_INIT;
        struct agent_result so_far = {0};
        struct msg m = {.type = MSG_WAIT};
        struct msg reply;
        do { /* waits until all of them are running */
            m.wait.op = s.op;
            m.wait.out_from = so_far.out_len;
            m.wait.wait_ms = AGENT_CLIENT_WAIT_MS;
            assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
            so_far.out_len += reply.output.out.len;
            bool all = reply.output.out.len >= 4 &&
                       memcmp(reply.output.out.data + reply.output.out.len - 4, "all\n", 4) == 0;
            msg_finish(&reply);
            if (all) {
                break;
            }
        } while (true);
        cancel(f, s.op.data, OP_STOP_TIMEOUT, force != 0);
        r = follow(f, s.op.data);
        assert_status(r, OP_STATUS_TIMEOUT);
        assert_tree_is_gone(r->out);
        assert_int_equal(strstr(r->out, "caught\n") != NULL, force == 0);
        assert_int_equal(r->last.exit_code, force == 0 ? 9 : 128 + SIGKILL);
    }
}

static void a_deadline_holds_without_a_worker(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "two", "trap '' INT; sleep 600");
    s.timeout_ms = 1;
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_TIMEOUT);
    assert_string_equal(r->name, "");
}

static void programs_are_listed_as_operations(void **state)
{
    struct fixture *f = fixture_of(state);
    struct err err = ERR_INIT;
    struct words argv = words_of(WORDS("sleep", "600"));
    struct msg_start s = program(f, &argv);
    struct msg m = {.type = MSG_OPS};
    struct msg reply;
    start_only(f, &s, 0);
    reconnect(f, 4);
    assert_int_equal(agent_ask(&f->link, &m, &reply, &err), 0);
    struct view last = reply.ops_ok.ops.items[reply.ops_ok.ops.count - 1];
    struct msg info;
    assert_int_equal(msg_decode(MSG_LINK_A, last.data, last.len, &info, &err), 0);
    assert_int_equal(info.op_info.kind, OP_RUN);
    assert_int_equal(info.op_info.state, OP_RUNNING);
    msg_finish(&info);
    msg_finish(&reply);
    cancel(f, s.op.data, OP_STOP_CANCEL, false);
    assert_status(follow(f, s.op.data), OP_STATUS_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_languages_of_the_first_hello_stay),
        cmocka_unit_test(a_program_gets_its_arguments_environment_and_input),
        cmocka_unit_test(a_program_has_a_directory_that_goes_with_it),
        cmocka_unit_test(what_is_compiled_runs),
        cmocka_unit_test(a_program_that_is_killed_says_by_what),
        cmocka_unit_test(a_language_that_is_absent_is_said),
        cmocka_unit_test(a_command_runs_without_a_shell),
        cmocka_unit_test(a_command_that_cannot_run_says_why),
        cmocka_unit_test(programs_run_side_by_side),
        cmocka_unit_test(all_output_of_a_program_arrives),
        cmocka_unit_test(all_that_a_program_has_started_ends_with_it),
        cmocka_unit_test(a_deadline_holds_without_a_worker),
        cmocka_unit_test(programs_are_listed_as_operations),
        cmocka_unit_test(the_removal_is_no_part_of_the_duration),
    };
    return cmocka_run_group_tests(tests, setup, fixture_stop);
}
