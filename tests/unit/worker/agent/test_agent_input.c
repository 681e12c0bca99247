/*
 * Stdin that comes while code runs: dialogues with live languages and with programs, in a pipe and
 * in a terminal.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "proto/codec.h"

/* A run and what it has written so far. */
struct talk {
    struct fixture *f;
    char op[LIMIT_NAME + 1];
    char out[8192];
    size_t len;
    size_t heard; /* bytes that hear() does not look at any more */
    size_t told;  /* bytes that were sent to it */
    uint64_t err_len;
    bool done;
};

static void begin(struct talk *t, struct fixture *f, struct msg_start s, enum op_flag how)
{
    *t = (struct talk){.f = f};
    snprintf(t->op, sizeof(t->op), "%.*s", VIEW_ARG(s.op));
    s.flags = how;
    start_only(f, &s, 0);
}

static void begin_code(struct talk *t, struct fixture *f, const char *language, const char *code)
{
    begin(t, f, agent_code(&f->link, language, code), OP_FLAG_STDIN_OPEN);
}

static struct msg ask_input(struct talk *t, struct msg_input in)
{
    struct err err = ERR_INIT;
    struct msg m = {.type = MSG_INPUT};
    struct msg reply;
    m.input = in;
    m.input.op = view_of(t->op);
    assert_int_equal(agent_ask(&t->f->link, &m, &reply, &err), 0);
    return reply;
}

static void say(struct talk *t, const char *text)
{
    struct msg r = ask_input(t, (struct msg_input){.at = t->told, .data = view_of(text)});
    t->told += strlen(text);
    assert_int_equal(r.type, MSG_INPUT_OK);
    assert_int_equal(r.input_ok.next, t->told);
}

static void end_input(struct talk *t)
{
    struct msg r = ask_input(t, (struct msg_input){.at = t->told, .eof = true});
    assert_int_equal(r.type, MSG_INPUT_OK);
}

static void expect_refusal(struct talk *t, struct msg_input in, enum err_code code,
                           const char *words)
{
    char text[LIMIT_TEXT + 1];
    struct msg r = ask_input(t, in);
    assert_int_equal(r.type, MSG_FAILED);
    assert_int_equal(r.failed.code, code);
    snprintf(text, sizeof(text), "%.*s", VIEW_ARG(r.failed.message));
    assert_contains(text, words);
}

/* Waits for output that contains this; NULL: for the end. */
static void hear(struct talk *t, const char *words)
{
    struct err err = ERR_INIT;
    uint64_t until_ms = clock_ms() + AGENT_CLIENT_WAIT_MS;
    while (words == NULL ? !t->done : strstr(t->out + t->heard, words) == NULL) {
        struct msg m = {.type = MSG_WAIT};
        struct msg r;
        m.wait.op = view_of(t->op);
        m.wait.out_from = t->len;
        m.wait.err_from = t->err_len;
        m.wait.wait_ms = 1000;
        assert_int_equal(agent_ask(&t->f->link, &m, &r, &err), 0);
        assert_int_equal(r.type, MSG_OUTPUT);
        assert_true(t->len + r.output.out.len < sizeof(t->out));
        if (r.output.out.len > 0) {
            memcpy(t->out + t->len, r.output.out.data, r.output.out.len);
        }
        t->len += r.output.out.len;
        t->err_len += r.output.err.len;
        t->out[t->len] = '\0';
        t->done = r.output.state == OP_DONE;
        msg_finish(&r);
        if (clock_ms() > until_ms ||
            (t->done && words != NULL && strstr(t->out + t->heard, words) == NULL)) {
            fail_msg("no \"%s\" in \"%s\"", words != NULL ? words : "end", t->out);
        }
    }
}

static struct agent_result *ended(struct talk *t, enum op_status status)
{
    struct agent_result *r = follow(t->f, t->op);
    assert_status(r, status);
    return r;
}

static void python_reads_what_is_said_to_it(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_code(&t, f, "python",
               "a = input('name? ')\nb = input('age? ')\nimport sys\n"
               "print(a, b, repr(sys.stdin.read()))");
    hear(&t, "name? ");
    say(&t, "Ada\n");
    hear(&t, "age? ");
    say(&t, "36\nmore");
    end_input(&t);
    struct agent_result *r = ended(&t, OP_STATUS_OK);
    assert_contains(r->out, "Ada 36 'more'\n");
    /* state stayed, and the next run has no stdin again */
    r = run(f, "python", "import sys; print(a, repr(sys.stdin.read()))");
    assert_string_equal(r->out, "Ada ''\n");
}

/* All who have a pipe share its flags. */
static void a_program_that_makes_stdin_nonblocking_does_so_for_its_run_only(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    const char *languages[] = {"python", "bash"};
    const char *leave[] = {"import os; os.set_blocking(0, False)",
                           "python3 -c 'import os; os.set_blocking(0, False)'"};
    const char *reads[] = {"print(input('name? '))", "echo 'name? '; read x; echo $x"};
    for (size_t i = 0; i < 2; i++) {
        begin_code(&t, f, languages[i], leave[i]);
        ended(&t, OP_STATUS_OK);
        begin_code(&t, f, languages[i], reads[i]);
        hear(&t, "name? ");
        say(&t, "Ada\n");
        assert_contains(ended(&t, OP_STATUS_OK)->out, "Ada\n");
    }
}

static void what_one_run_has_not_read_the_next_does_not_get(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    const char *languages[] = {"python", "bash"};
    const char *once[] = {"print(input())", "read x; echo $x"};
    for (size_t i = 0; i < 2; i++) {
        begin_code(&t, f, languages[i], once[i]);
        say(&t, "one\nleft\n");
        assert_string_equal(ended(&t, OP_STATUS_OK)->out, "one\n");
        begin_code(&t, f, languages[i], once[i]);
        say(&t, "two\n");
        assert_string_equal(ended(&t, OP_STATUS_OK)->out, "two\n");
    }
}

static void bash_and_its_programs_read_what_is_said_to_them(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_code(&t, f, "bash", "read a; echo \"1:$a\"; read b; echo \"2:$b\"; cat; echo end");
    say(&t, "x y\n");
    hear(&t, "1:x y\n");
    say(&t, "z\n");
    hear(&t, "2:z\n");
    say(&t, "to cat\n");
    hear(&t, "to cat\n");
    end_input(&t);
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "1:x y\n2:z\nto cat\nend\n");
    assert_string_equal(run(f, "bash", "cat; echo $a")->out, "x y\n");
}

static void input_given_at_the_start_comes_first(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "bash", "read a; read b; echo $a$b");
    s.has_stdin = true;
    s.stdin_data = view_of("from start ");
    begin(&t, f, s, OP_FLAG_STDIN_OPEN);
    say(&t, "and later\nlast\n");
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "from start and laterlast\n");
}

static void javascript_reads_what_is_said_to_it(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    if (run(f, "javascript", "1")->failed != 0) {
        skip();
    }
    begin_code(&t, f, "javascript",
               "const rl = require('readline').createInterface({input: process.stdin});\n"
               "for await (const line of rl) { console.log('got ' + line); }");
    say(&t, "one\n");
    hear(&t, "got one\n");
    say(&t, "two\n");
    hear(&t, "got two\n");
    end_input(&t);
    ended(&t, OP_STATUS_OK);
    begin_code(&t, f, "javascript", "console.log(require('fs').readFileSync(0, 'utf8'))");
    say(&t, "at once");
    end_input(&t);
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "at once\n");
    struct msg_start s =
        agent_code(&f->link, "javascript", "console.log(require('fs').readFileSync(0, 'utf8'))");
    for (int i = 0; i < 2; i++) { /* stdin that is complete, as ever */
        struct msg_start again = agent_code(&f->link, "javascript", s.data.data);
        again.has_stdin = true;
        again.stdin_data = view_of("whole");
        assert_string_equal(run_start(f, &again)->out, "whole\n");
    }
    assert_string_equal(run_start(f, &s)->out, "\n");
}

static void code_that_waits_for_input_is_interrupted(void **state)
{
    struct fixture *f = fixture_of(state);
    const char *languages[] = {"python", "bash"};
    const char *codes[] = {"kept = 1\nprint('up')\ninput()", "kept=1; echo up; read x"};
    const char *probes[] = {"print(kept)", "echo $kept"};
    for (size_t i = 0; i < 2; i++) {
        struct talk t;
        begin_code(&t, f, languages[i], codes[i]);
        hear(&t, "up\n");
        cancel(f, t.op, OP_STOP_CANCEL, false);
        ended(&t, OP_STATUS_CANCELLED);
        assert_string_equal(run(f, languages[i], probes[i])->out, "1\n");
    }
}

static void repeated_input_counts_once(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_code(&t, f, "bash", "cat");
    say(&t, "one\n");
    struct msg r = ask_input(&t, (struct msg_input){.at = 0, .data = view_of("one\n")});
    assert_int_equal(r.type, MSG_INPUT_OK);
    assert_int_equal(r.input_ok.next, 4);
    r = ask_input(&t, (struct msg_input){.at = 0, .data = view_of("one\ntwo\n"), .eof = true});
    assert_int_equal(r.input_ok.next, 8);
    r = ask_input(&t, (struct msg_input){.at = 0, .data = view_of("one\ntwo\n"), .eof = true});
    /* by now cat may have ended */
    assert_true(r.type == MSG_INPUT_OK || r.failed.code == ERR_INVALID);
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "one\ntwo\n");
}

static void an_end_before_what_came_already_is_an_end_after_it(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_code(&t, f, "bash", "cat");
    say(&t, "one\n");
    struct msg r = ask_input(&t, (struct msg_input){.data = view_of("on"), .eof = true});
    assert_int_equal(r.type, MSG_INPUT_OK);
    assert_int_equal(r.input_ok.next, 4);
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "one\n");
}

static void input_that_does_not_fit_is_refused_and_says_why(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    static char much[LIMIT_INPUT];
    memset(much, 'x', sizeof(much));
    begin_code(&t, f, "bash",
               "echo up; read -n 1 a < <(until [ -e go ]; do sleep 0.01; done); wc -c");
    hear(&t, "up\n");
    expect_refusal(&t, (struct msg_input){.at = 7, .data = view_of("x")}, ERR_INVALID,
                   "begin at 7");
    expect_refusal(&t, (struct msg_input){.rows = 10}, ERR_INVALID, "terminal");
    struct msg_input whole = {.data = view_bytes(much, sizeof(much))};
    size_t taken = 0;
    struct msg r;
    while ((r = ask_input(&t, whole)).type == MSG_INPUT_OK) { /* till nothing reads it any more */
        taken += sizeof(much);
        assert_true(taken < 8 * sizeof(much));
        whole.at = taken;
    }
    assert_true(taken >= sizeof(much));
    assert_int_equal(r.failed.code, ERR_TOO_BIG);
    run(f, "python", "open('go', 'w').close()");
    t.told = taken;
    end_input(&t);
    hear(&t, NULL);
    char count[32];
    snprintf(count, sizeof(count), "up\n%zu\n", taken); /* what was refused never came */
    assert_string_equal(t.out, count);
    expect_refusal(&t, (struct msg_input){.data = view_of("x")}, ERR_INVALID, "ended");
    snprintf(t.op, sizeof(t.op), "unknown");
    expect_refusal(&t, (struct msg_input){.data = view_of("x")}, ERR_EXECUTION_NOT_FOUND,
                   "no such");

    struct msg_start closed = agent_code(&f->link, "bash", "sleep 1000");
    begin(&t, f, closed, 0);
    expect_refusal(&t, (struct msg_input){.data = view_of("x")}, ERR_INVALID, "not left open");
    cancel(f, t.op, OP_STOP_CANCEL, true);
    ended(&t, OP_STATUS_CANCELLED);

    begin_code(&t, f, "bash", "cat > /dev/null; sleep 1000");
    end_input(&t);
    expect_refusal(&t, (struct msg_input){.data = view_of("x")}, ERR_INVALID, "has been ended");
    cancel(f, t.op, OP_STOP_CANCEL, true);
    ended(&t, OP_STATUS_CANCELLED);
}

static void begin_program(struct talk *t, struct fixture *f, const char *script, enum op_flag how)
{
    struct view words[] = {view_of("bash"), view_of("-c"), view_of(script)};
    struct msg_start s = agent_code(&f->link, "", "");
    s.kind = OP_RUN;
    s.args = (struct view_list){words, 3};
    begin(t, f, s, how);
}

static void a_program_reads_what_is_said_to_it(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_program(&t, f, "read a; echo \"got $a\"; cat", OP_FLAG_STDIN_OPEN);
    say(&t, "this\n");
    hear(&t, "got this\n");
    say(&t, "rest");
    end_input(&t);
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "got this\nrest");
    begin_program(&t, f, "exec <&-; echo shut; sleep 1000", OP_FLAG_STDIN_OPEN);
    hear(&t, "shut\n");
    for (int i = 0; i < 2; i++) { /* what was refused is not known when it is repeated */
        expect_refusal(&t, (struct msg_input){.data = view_of("x")}, ERR_INVALID,
                       "closed its stdin");
    }
    cancel(f, t.op, OP_STOP_CANCEL, true);
    ended(&t, OP_STATUS_CANCELLED);
}

static void a_program_in_a_terminal_sees_one(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_program(&t, f,
                  "test -t 0 && test -t 1 && test -t 2 && echo tty; echo $TERM; stty size; "
                  "read a; echo \"read $a\"; stty size; echo err >&2; cat; echo over",
                  OP_FLAG_TTY);
    hear(&t, "tty\r\nxterm-256color\r\n24 80\r\n");
    struct msg r = ask_input(&t, (struct msg_input){.rows = 40, .cols = 120});
    assert_int_equal(r.type, MSG_INPUT_OK);
    say(&t, "line\n");
    hear(&t, "read line\r\n40 120\r\nerr\r\n");
    say(&t, "part");
    end_input(&t); /* in a line, so it takes two */
    hear(&t, "over");
    assert_string_equal(ended(&t, OP_STATUS_OK)->err, "");
}

static void one_side_of_a_terminal_may_change_alone(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_program(&t, f, "echo up; while read a; do stty size; done", OP_FLAG_TTY);
    hear(&t, "up\r\n");
    struct msg r = ask_input(&t, (struct msg_input){.cols = 120});
    assert_int_equal(r.type, MSG_INPUT_OK);
    say(&t, "\n");
    hear(&t, "24 120\r\n");
    r = ask_input(&t, (struct msg_input){.at = t.told, .rows = 40});
    assert_int_equal(r.type, MSG_INPUT_OK);
    say(&t, "\n");
    hear(&t, "40 120\r\n");
    end_input(&t);
    ended(&t, OP_STATUS_OK);
}

/* The input of START counts, too, for whether the end comes within a line. */
static void an_end_within_a_first_line_ends_a_terminals_input(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    struct view words[] = {view_of("bash"), view_of("-c"), view_of("cat; echo over")};
    struct msg_start s = agent_code(&f->link, "", "");
    s.kind = OP_RUN;
    s.args = (struct view_list){words, 3};
    s.has_stdin = true;
    s.stdin_data = view_of("part");
    begin(&t, f, s, OP_FLAG_TTY);
    end_input(&t);
    hear(&t, "over");
    ended(&t, OP_STATUS_OK);
}

static void the_keys_of_a_terminal_interrupt_and_end(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    /* It waits for the signal itself: bash that is about to become a program, and Python that is
     * about to sleep, can take a signal and sleep nevertheless. */
    begin_program(&t, f,
                  "trap 'echo caught' INT; (trap - INT; exec python3 -c \"import os, signal as s; "
                  "s.pthread_sigmask(s.SIG_BLOCK, [2]); print('up', flush=True); s.sigwait([2]); "
                  "s.signal(2, s.SIG_DFL); s.pthread_sigmask(s.SIG_UNBLOCK, [2]); "
                  "os.kill(os.getpid(), 2)\"); echo next; cat; echo bye",
                  OP_FLAG_TTY);
    hear(&t, "up\r\n");
    say(&t, "\x03");
    hear(&t, "caught\r\nnext\r\n");
    say(&t, "\x04");
    hear(&t, "bye");
    ended(&t, OP_STATUS_OK);
    /* a shell in it has job control */
    begin_program(&t, f, "exec bash --norc -i", OP_FLAG_TTY);
    hear(&t, "$ ");
    say(&t, "[[ $- == *m* ]] && echo mon''itor\n");
    hear(&t, "monitor");
    say(&t, "exit\n");
    hear(&t, NULL);
}

static void all_that_a_terminal_shows_is_read(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_program(&t, f, "seq 20000", OP_FLAG_TTY);
    struct agent_result *r = ended(&t, OP_STATUS_OK);
    assert_contains(r->out + r->out_len - 16, "\n20000\r\n");
    assert_int_equal(r->out_len, 108894 + 20000);
}

static void live_languages_run_in_a_terminal(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    run(f, "python", "x = 6");
    begin(&t, f,
          agent_code(
              &f->link, "python",
              "import sys\nprint(sys.stdin.isatty(), 'x' in dir())\nx = input('? ')\nprint(x * 2)"),
          OP_FLAG_TTY);
    hear(&t, "True False\r\n? ");
    say(&t, "ab\n");
    hear(&t, "abab\r\n");
    ended(&t, OP_STATUS_OK);
    assert_string_equal(run(f, "python", "print(x)")->out, "6\n"); /* the live one is another */
    begin(&t, f, agent_code(&f->link, "bash", "tty -s && echo $0 $1; python3 -q"), OP_FLAG_TTY);
    hear(&t, ">>> ");
    say(&t, "print('a' + 'b')\n");
    hear(&t, "ab\r\n");
    t.heard = (size_t)(strstr(t.out, "ab\r\n") - t.out);
    hear(&t, ">>> "); /* an end of input before Python has set the terminal for its line is lost */
    end_input(&t);
    ended(&t, OP_STATUS_OK);
}

static void the_next_worker_goes_on_where_input_ended(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    begin_code(&t, f, "bash", "read a; echo $a; read b; echo $b");
    say(&t, "one\n");
    hear(&t, "one\n");
    reconnect(f, 2);
    struct msg r = ask_input(&t, (struct msg_input){.at = 0}); /* asks how far it is */
    assert_int_equal(r.input_ok.next, 4);
    r = ask_input(&t, (struct msg_input){.at = 0, .data = view_of("one\n")});
    assert_int_equal(r.input_ok.next, 4);
    say(&t, "two\n");
    assert_string_equal(ended(&t, OP_STATUS_OK)->out, "one\ntwo\n");
}

static bool has_descriptor(const struct fixture *f, unsigned long fd)
{
    char path[64], target[64];
    snprintf(path, sizeof(path), "/proc/%d/fd/%lu", (int)f->agent.pid, fd);
    return readlink(path, target, sizeof(target)) > 0;
}

/* How many entries the agent waits for in poll(); 0 if it does not wait. A kernel that does not say
 * it counts as one entry. */
static unsigned long polled_entries(const struct fixture *f)
{
    char path[64], line[256] = "";
    unsigned long entries = 0;
    snprintf(path, sizeof(path), "/proc/%d/syscall", (int)f->agent.pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 1;
    }
    bool told = fgets(line, sizeof(line), file) != NULL;
    bool waits = told && sscanf(line, "%*d %*x %lx", &entries) == 1; /* else "running" */
    fclose(file);
    if (!told) {
        return 1;
    }
    return waits ? entries : 0;
}

/* Lets the agent open no descriptor more; returns its limit. */
static struct rlimit use_up_descriptors(const struct fixture *f)
{
    struct rlimit usual, few;
    uint64_t until_ms = clock_ms() + AGENT_CLIENT_WAIT_MS;
    assert_int_equal(prlimit(f->agent.pid, RLIMIT_NOFILE, NULL, &usual), 0);
    few = usual;
    /* The kernel lets nobody poll more entries than the limit. So a number that is only free for a
     * moment, while the last run is tidied up, is not taken. */
    unsigned long entries;
    do {
        assert_true(clock_ms() < until_ms);
        few.rlim_cur = 0;
        while (has_descriptor(f, few.rlim_cur)) {
            few.rlim_cur++;
        }
        entries = polled_entries(f);
    } while (entries == 0 || few.rlim_cur < entries);
    assert_int_equal(prlimit(f->agent.pid, RLIMIT_NOFILE, &few, NULL), 0);
    return usual;
}

static void without_a_descriptor_for_input_the_run_fails_and_the_state_stays(void **state)
{
    struct talk t;
    struct fixture *f = fixture_of(state);
    if (!has_descriptor(f, 0)) { /* only root may look at the agent's */
        skip();
    }
    uint64_t until_ms = clock_ms() + AGENT_CLIENT_WAIT_MS;
    struct agent_result *r;
    /* A number that the tidying up of the last run frees late is enough for a pipe: then this one
     * begins, reads the end, and the next may find none. */
    do {
        assert_true(clock_ms() < until_ms);
        run(f, "bash", "kept=1");
        struct rlimit usual = use_up_descriptors(f);
        begin_code(&t, f, "bash", "read x");
        ask_input(&t, (struct msg_input){.eof = true}); /* is refused if it has failed */
        r = follow(f, t.op);
        assert_int_equal(prlimit(f->agent.pid, RLIMIT_NOFILE, &usual, NULL), 0);
    } while (r->last.status != OP_STATUS_FAILED);
    assert_contains(r->message, "open the pipe for stdin");
    r = run(f, "bash", "echo $kept"); /* the interpreter goes on */
    assert_string_equal(r->out, "1\n");
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_KEPT);
}

static void input_before_its_turn_waits_for_it(void **state)
{
    struct talk first, second;
    struct fixture *f = fixture_of(state);
    begin_code(&first, f, "bash", "read a; echo 1$a");
    begin_code(&second, f, "bash", "read a; echo 2$a");
    say(&second, "early\n");
    say(&first, "late\n");
    assert_string_equal(ended(&first, OP_STATUS_OK)->out, "1late\n");
    assert_string_equal(ended(&second, OP_STATUS_OK)->out, "2early\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_reads_what_is_said_to_it),
        cmocka_unit_test(a_program_that_makes_stdin_nonblocking_does_so_for_its_run_only),
        cmocka_unit_test(what_one_run_has_not_read_the_next_does_not_get),
        cmocka_unit_test(bash_and_its_programs_read_what_is_said_to_them),
        cmocka_unit_test(input_given_at_the_start_comes_first),
        cmocka_unit_test(javascript_reads_what_is_said_to_it),
        cmocka_unit_test(code_that_waits_for_input_is_interrupted),
        cmocka_unit_test(repeated_input_counts_once),
        cmocka_unit_test(an_end_before_what_came_already_is_an_end_after_it),
        cmocka_unit_test(input_that_does_not_fit_is_refused_and_says_why),
        cmocka_unit_test(a_program_reads_what_is_said_to_it),
        cmocka_unit_test(a_program_in_a_terminal_sees_one),
        cmocka_unit_test(one_side_of_a_terminal_may_change_alone),
        cmocka_unit_test(an_end_within_a_first_line_ends_a_terminals_input),
        cmocka_unit_test(the_keys_of_a_terminal_interrupt_and_end),
        cmocka_unit_test(all_that_a_terminal_shows_is_read),
        cmocka_unit_test(live_languages_run_in_a_terminal),
        cmocka_unit_test(without_a_descriptor_for_input_the_run_fails_and_the_state_stays),
        cmocka_unit_test(input_before_its_turn_waits_for_it),
        cmocka_unit_test(the_next_worker_goes_on_where_input_ended),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
