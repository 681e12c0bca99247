/*
 * The outcome of a run names the files that the run has created or changed.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"

/* The names of changed files, sorted, each after a space. */
static const char *changed(const struct agent_result *r)
{
    static char text[LIMIT_CHANGED * 64];
    const char *last = "";
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < r->file_count; i++) {
        const char *next = NULL;
        for (size_t k = 0; k < r->file_count; k++) {
            const char *path = r->files[k].path;
            if (strcmp(path, last) > 0 && (next == NULL || strcmp(path, next) < 0)) {
                next = path;
            }
        }
        if (next == NULL) {
            break;
        }
        at += (size_t)snprintf(text + at, sizeof(text) - at, " %s", next);
        last = next;
    }
    return text;
}

static struct agent_result *must_run(struct fixture *f, const char *language, const char *code)
{
    struct agent_result *r = run(f, language, code);
    assert_status(r, OP_STATUS_OK);
    return r;
}

static void what_a_run_creates_or_changes_is_told(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = must_run(f, "bash",
                                      "printf one > a.txt; mkdir -p out/deep; "
                                      "printf three > out/deep/b.csv");
    assert_string_equal(changed(r), " a.txt out/deep/b.csv");
    assert_false(r->last.files_more);
    assert_int_equal(r->files[0].size + r->files[1].size, 8);
    r = must_run(f, "bash", "cat a.txt out/deep/b.csv");
    assert_string_equal(changed(r), "");
    r = must_run(f, "python", "open('out/deep/b.csv', 'a').write('x')");
    assert_string_equal(changed(r), " out/deep/b.csv");
    r = must_run(f, "bash", "mv a.txt c.txt; rm out/deep/b.csv");
    assert_string_equal(changed(r), " c.txt");
}

/* A directory that is made and filled within one run, and one inside it, must never be missed. */
static void a_directory_made_and_filled_in_one_run_is_never_missed(void **state)
{
    struct fixture *f = fixture_of(state);
    char code[256], wanted[64];
    for (int i = 0; i < 20; i++) {
        snprintf(code, sizeof(code), "mkdir n%d n%d/x; echo > n%d/x/first", i, i, i);
        snprintf(wanted, sizeof(wanted), " n%d/x/first", i);
        assert_string_equal(changed(must_run(f, "bash", code)), wanted);
        snprintf(code, sizeof(code), "echo > n%d/x/second", i);
        snprintf(wanted, sizeof(wanted), " n%d/x/second", i);
        assert_string_equal(changed(must_run(f, "bash", code)), wanted);
    }
    /* made between two runs, when nothing is watched */
    must_run(f, "bash", "{ sleep 0.05; mkdir late; echo > late/first; } >/dev/null 2>&1 & disown");
    must_run(f, "python",
             "import os, time\nwhile not os.path.exists('late/first'): time.sleep(.01)");
    assert_string_equal(changed(must_run(f, "bash", "echo > late/second")), " late/second");
}

static void hidden_and_generated_files_are_left_out(void **state)
{
    struct fixture *f = fixture_of(state);
    must_run(f, "bash", "mkdir keep .hidden node_modules __pycache__");
    struct agent_result *r =
        must_run(f, "bash",
                 "for d in .hidden node_modules __pycache__ keep; do echo > $d/file; "
                 "done; echo > .dot; mkfifo keep/pipe; ln -s file keep/link");
    assert_string_equal(changed(r), " keep/file");
}

/* A run that fails reports its changes as well. */
static void runs_that_fail_tell_their_changes_too(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = run(f, "python", "open('before', 'w').close()\n1/0");
    assert_status(r, OP_STATUS_ERROR);
    assert_string_equal(changed(r), " before");
    r = run(f, "python", "import os\nopen('crash', 'w').close()\nos._exit(3)");
    assert_status(r, OP_STATUS_CRASHED);
    assert_string_equal(changed(r), " crash");
    must_run(f, "python", "1");
    r = run_interrupted(f, "python",
                        "import time\nopen('stopped', 'w').close()\nprint(1)\ntime.sleep(60)", 0);
    assert_string_equal(changed(r), " stopped");
}

/* Runs code whose scan takes long, until one was not cut short: on a machine that does not run it
 * for a second it is, and the result says so. */
static struct agent_result *run_and_see_all(struct fixture *f, const char *language,
                                            const char *code)
{
    struct agent_result *r = must_run(f, language, code);
    for (int i = 0; r->last.files_more && i < 50; i++) {
        r = must_run(f, language, code);
    }
    assert_false(r->last.files_more);
    return r;
}

static void of_many_changes_the_newest_are_told(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r =
        must_run(f, "python",
                 "import time\n"
                 "for i in range(130):\n"
                 "  open(f'many{i:03}', 'w').close()\n"
                 "time.sleep(.05)\n" /* longer than a tick of the file system's clock */
                 "open('newest', 'w').close()");
    assert_int_equal(r->file_count, LIMIT_CHANGED);
    assert_true(r->last.files_more);
    assert_string_equal(r->files[0].path, "newest");
    /* more directories than watches: the result is still right */
    must_run(f, "python", "import os\nfor i in range(1100): os.makedirs(f'w/{i}')");
    r = run_and_see_all(f, "python", "open('w/1099/new', 'w').close()");
    assert_string_equal(changed(r), " w/1099/new");
    assert_string_equal(changed(run_and_see_all(f, "bash", "echo > w/7/again")), " w/7/again");
    assert_string_equal(changed(run_and_see_all(f, "bash", "echo > w/1070/again")),
                        " w/1070/again");
    assert_string_equal(changed(must_run(f, "bash", "true")), "");
    must_run(f, "bash", "rm -r w many*");
}

/* Runs of two languages in parallel, each with the changes during its time. */
static void runs_side_by_side_tell_what_changed_in_their_time(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start slow = agent_code(&f->link, "bash", "echo up; until [ -e go ]; do :; done");
    start_only(f, &slow, AGENT_CLIENT_WAIT_MS);
    struct agent_result *r = must_run(f, "python", "open('meanwhile', 'w').close()");
    assert_string_equal(changed(r), " meanwhile");
    r = must_run(f, "python", "open('go', 'w').close()");
    assert_string_equal(changed(r), " go");
    r = follow(f, slow.op.data);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(changed(r), " go meanwhile");
}

/* The same outcome is given to a later caller, over another link. */
static void a_later_worker_gets_the_same_changes(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "bash", "echo > over; echo > there");
    start_only(f, &s, 0);
    reconnect(f, 2);
    struct agent_result *r = follow(f, s.op.data);
    assert_string_equal(changed(r), " over there");
    reconnect(f, 3);
    assert_string_equal(changed(follow(f, s.op.data)), " over there");
}

static void odd_workspaces_fail_no_run(void **state)
{
    struct fixture *f = fixture_of(state);
    /* accessible to its user only: the agent itself needs no access */
    struct agent_result *r =
        must_run(f, "bash", "chmod 700 .; mkdir own; chmod 700 own; echo > own/file");
    assert_string_equal(changed(r), " own/file");
    /* not accessible to its user either: no list, but no failure */
    must_run(f, "bash", "mkdir shut; echo > shut/file; chmod 0 shut");
    must_run(f, "bash", "chmod 700 shut");
    /* a loop of symlinks, and one that leads outside */
    r = must_run(f, "bash", "ln -s . loop; ln -s / root; echo > beside");
    assert_string_equal(changed(r), " beside");
    /* removed */
    r = must_run(f, "bash", "rm -rf -- * .hidden .dot");
    assert_string_equal(changed(r), "");
}

/* A file that an operation has written just before a run may have the time of the run, and is not
 * among its changes; a file that the run writes is. */
static void what_was_written_just_before_is_no_change(void **state)
{
    struct fixture *f = fixture_of(state);
    must_run(f, "bash", "echo > written"); /* starts the interpreter */
    for (int i = 0; i < 60; i++) {
        struct msg_start s = agent_code(&f->link, "", "by a tool");
        s.kind = OP_FILE_WRITE;
        s.path = view_of("written");
        struct agent_result *r = run_start(f, &s);
        assert_status(r, OP_STATUS_OK);
        if (i % 10 == 9) {
            assert_string_equal(changed(must_run(f, "bash", "echo >> written")), " written");
        } else { /* something has changed, so directories are read */
            assert_string_equal(changed(must_run(f, "bash", "echo > other")), " other");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_run_creates_or_changes_is_told),
        cmocka_unit_test(a_directory_made_and_filled_in_one_run_is_never_missed),
        cmocka_unit_test(hidden_and_generated_files_are_left_out),
        cmocka_unit_test(runs_that_fail_tell_their_changes_too),
        cmocka_unit_test(of_many_changes_the_newest_are_told),
        cmocka_unit_test(runs_side_by_side_tell_what_changed_in_their_time),
        cmocka_unit_test(a_later_worker_gets_the_same_changes),
        cmocka_unit_test(odd_workspaces_fail_no_run),
        cmocka_unit_test(what_was_written_just_before_is_no_change),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
