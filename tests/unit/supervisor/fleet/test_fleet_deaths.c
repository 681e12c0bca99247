/* Workers that die, hang, send garbage or do not start: what callers can still rely on. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/unit/supervisor/fleet/fixture.h"

static int pid_of(struct fixture *f, const char *id)
{
    struct answer a;
    get_status(f, id, &a);
    int pid = a.pid;
    answer_finish(&a);
    assert_true(process_exists(pid));
    return pid;
}

/* The code prints 40 lines, and the worker is killed again and again between them. */
static void a_call_survives_its_workers(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char expected[4096] = "";
    struct answer a;
    struct answer other;
    fixture_start(f);
    open_one(f, NULL, id);
    for (int i = 0; i < 40; i++) {
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof(expected) - used, "line %d\n", i);
    }
    begin_run(f, id, "slow 40 20", &a);
    for (int kills = 0; kills < 3; kills++) {
        wait_begun(f, id, kills + 1);
        begin_run(f, id, "echo between", &other); /* a success between the deaths */
        wait_times(f, &other, 1);
        answer_finish(&other);
        kill(pid_of(f, id), SIGKILL);
    }
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.status, OP_STATUS_OK);
    assert_true(out_is(&a, expected));
    assert_int_equal(a.out_bytes, strlen(expected));
    answer_finish(&a);
    check_run(f, id, "gen", "4");
    check_run(f, id, "runs", "6"); /* each operation ran once: one slow, three echo, gen and runs */
    get_status(f, id, &a);
    assert_int_equal(a.restarts, 3);
    answer_finish(&a);
}

static void a_killed_worker_is_replaced_at_once(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    int pid = pid_of(f, id);
    begin_run(f, id, "sleep 50", &a);
    wait_times(f, &a, 1);
    answer_finish(&a);
    struct buf log;
    fixture_log_begin(f);
    kill(pid, SIGKILL);
    begin_run(f, id, "gen", &a); /* now, since the first worker could be quick enough to answer */
    wait_times(f, &a, 1);
    fixture_log_end(f, &log);
    assert_int_equal(a.rc, 0);
    /* Its death was seen, not its silence. */
    check_log(&log, "worker ended: killed by signal 9", true);
    buf_finish(&log);
    answer_finish(&a);
}

static void misbehaving_workers_are_replaced(void **state)
{
    static const char *const words[] = {"crash",  "garbage", "other-type", "other-seq",
                                        "exit 0", "exit 69", "bad-offset"};
    struct fixture *f = *state;
    fixture_start(f);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char id[FLEET_ID_SIZE];
        open_one(f, NULL, id);
        check_run(f, id, words[i], "survived");
        check_run(f, id, "gen", "2");
        check_run(f, id, "runs", "3");
        close_one(f, id);
        wait_state(f, id, NULL);
    }
}

/* One call waits forever, the other one is busy forever. */
static void a_hanging_worker_is_found_and_replaced(void **state)
{
    struct fixture *f = *state;
    char ids[2][FLEET_ID_SIZE];
    struct answer a[2];
    fixture_start(f);
    open_one(f, NULL, ids[0]);
    open_one(f, NULL, ids[1]);
    begin_run(f, ids[0], "hang", &a[0]);
    begin_run(f, ids[1], "spin", &a[1]);
    uint64_t begin_ms = clock_ms();
    for (int i = 0; i < 2; i++) {
        wait_times(f, &a[i], 1);
        assert_true(out_is(&a[i], "survived"));
        assert_true(clock_ms() - begin_ms >= 3000);
        answer_finish(&a[i]);
    }
}

/* SIGSTOP of the worker itself, as a debugger or an overloaded host would do it. */
static void a_stopped_worker_is_replaced(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    int pid = pid_of(f, id);
    kill(pid, SIGSTOP);
    begin_run(f, id, "gen", &a);
    wait_times(f, &a, 1);
    assert_true(out_is(&a, "2"));
    assert_false(process_exists(pid));
    answer_finish(&a);
}

static void an_idle_worker_that_dies_is_replaced_too(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    kill(pid_of(f, id), SIGKILL);
    wait_state(f, id, "recovering");
    wait_state(f, id, "ready");
    check_run(f, id, "gen", "2");
}

static void a_worker_that_keeps_dying_parks_its_sandbox_only(void **state)
{
    struct fixture *f = *state;
    char good[FLEET_ID_SIZE];
    char bad[FLEET_ID_SIZE];
    struct answer a;
    struct answer waiting;
    fixture_start(f);
    open_one(f, NULL, good);
    open_one(f, NULL, bad);
    begin_run(f, bad, "wait", &waiting);
    begin_run(f, bad, "crash-always", &a);
    check_run(f, good, "echo fine", "fine");
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    assert_non_null(strstr(a.err.text, "keeps dying"));
    assert_non_null(strstr(a.hint, "new sandbox"));
    wait_times(f, &waiting, 1);
    assert_int_equal(waiting.rc, -ERR_GONE);
    answer_finish(&a);
    answer_finish(&waiting);

    get_status(f, bad, &a);
    assert_string_equal(a.state, "failed");
    assert_non_null(strstr(a.reason, "signal 9"));
    answer_finish(&a);
    begin_run(f, bad, "echo", &a); /* later calls fail with the reason as well */
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    answer_finish(&a);
    check_run(f, good, "gen", "1");
    /* Its remains are swept, while the sandbox itself stays listed to give the reason. */
    char path[160];
    char *dir = instance_dir(f);
    snprintf(path, sizeof(path), "%s/sandboxes", dir);
    wait_entries(f, path, 1);
    snprintf(path, sizeof(path), "%s/%s", f->sweeps, bad);
    assert_int_equal(access(path, F_OK), 0);
    free(dir);
    close_one(f, bad);
    wait_state(f, bad, NULL);
}

static void adopting_in_vain_parks_the_sandbox(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, "attach-crashes", id);
    begin_run(f, id, "crash", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    answer_finish(&a);
}

static void a_sandbox_that_ended_is_reported(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    struct answer b;
    fixture_start(f);
    open_one(f, NULL, id);
    begin_run(f, id, "wait", &b);
    begin_run(f, id, "gone", &a);
    wait_times(f, &a, 1);
    wait_times(f, &b, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    assert_int_equal(b.rc, -ERR_GONE);
    assert_non_null(strstr(a.err.text, "killed from outside"));
    answer_finish(&a);
    answer_finish(&b);
    wait_state(f, id, "failed");

    open_one(f, "attach-gone", id);
    begin_run(f, id, "crash", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    assert_non_null(strstr(a.err.text, "nothing there to adopt"));
    answer_finish(&a);

    open_one(f, NULL, id);
    begin_run(f, id, "exit 66", &a); /* the exit code alone gives the reason as well */
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    answer_finish(&a);
}

/* Closes a sandbox in the turn of the loop in which the end of its removal is reported, just before
 * that report. */
struct closer {
    struct fixture *f;
    uv_work_t work;
    bool working;
    char *dir;
    const char *id;
    struct answer closed;
    bool asked;
};

static void on_nothing(uv_work_t *work)
{
    (void)work;
}

static void on_turn(uv_work_t *work, int status)
{
    struct closer *c = work->data;
    (void)status;
    c->working = false;
    if (access(c->dir, F_OK) != 0) {
        c->asked = true;
        fleet_close(c->f->fleet, c->id, on_done, &c->closed);
    }
}

static void a_failed_sandbox_is_closed_in_the_moment_of_its_last_removal(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char path[256];
    fixture_start(f);
    for (int round = 0; round < 5; round++) {
        struct closer c = {.f = f, .id = id};
        struct answer a;
        open_one(f, NULL, id);
        char *dir = instance_dir(f);
        snprintf(path, sizeof(path), "%s/sandboxes/%s", dir, id);
        free(dir);
        c.dir = path;
        c.work.data = &c;
        answer_init(&c.closed);
        begin_run(f, id, "gone", &a);
        for (int i = 0; i < 5000 && !c.asked; i++) {
            c.working = true;
            assert_int_equal(uv_queue_work(&f->loop, &c.work, on_nothing, on_turn), 0);
            usleep(2000); /* for both to be done, this one first; if not, only this round is vain */
            while (c.working) {
                uv_run(&f->loop, UV_RUN_ONCE);
            }
        }
        assert_true(c.asked);
        wait_times(f, &c.closed, 1);
        assert_int_equal(a.rc, -ERR_GONE);
        answer_finish(&a);
        answer_finish(&c.closed);
        wait_state(f, id, NULL);
    }
}

static void creation_fails_with_a_reason(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_open(f, NULL, "open-fails", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_IMAGE);
    assert_string_equal(a.hint, "choose one that exists");
    begin_open(f, NULL, "open-crashes", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "signal 9"));
    begin_open(f, NULL, "open-hangs", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "no sign of life"));
    /* A half-made sandbox may exist, so it is swept. */
    wait_entries(f, f->sweeps, 3);
    char id[FLEET_ID_SIZE];
    check_run(f, open_one(f, NULL, id), "echo fine", "fine");
}

static void no_worker_no_sandbox(void **state)
{
    static const char *const behaviours[] = {"hello-crash", "hello-version", "hello-pid"};
    static const char *const reasons[] = {"signal 9", "version 999", "another process"};
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    char id[FLEET_ID_SIZE];
    open_one(f, NULL, id); /* so that the runtime is known */
    for (size_t i = 0; i < 3; i++) {
        setenv("WORKER_STUB", behaviours[i], 1);
        begin_open(f, NULL, NULL, &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, -ERR_ENGINE);
        if (strstr(a.err.text, reasons[i]) == NULL) {
            fail_msg("%s: %s", behaviours[i], a.err.text);
        }
        unsetenv("WORKER_STUB");
        check_run(f, id, "gen", "1");
    }
}

static void a_program_that_is_missing_is_named(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    free(f->config.worker_path);
    f->config.worker_path = strdup("/nonexistent/cloister-worker");
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "/nonexistent/cloister-worker"));
    assert_true(a.hint[0] != '\0');
    fixture_stop(f);

    /* A worker that cannot be executed is noticed when it is started, at the latest. */
    char path[96];
    snprintf(path, sizeof(path), "%s/not-a-program", f->sweeps);
    FILE *file = fopen(path, "w");
    fputs("#!/nonexistent/interpreter\n", file);
    fchmod(fileno(file), 0755);
    fclose(file);
    free(f->config.worker_path);
    f->config.worker_path = strdup(path);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "no sandbox runtime"));
}

static void no_runtime_says_why_and_what_to_do(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct answer b;
    fixture_start(f);
    setenv("WORKER_STUB", "probe-fails", 1);
    begin_open(f, NULL, NULL, &a);
    begin_open(f, NULL, NULL, &b);
    wait_times(f, &a, 1);
    wait_times(f, &b, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_int_equal(b.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "runc: it says no"));
    assert_non_null(strstr(a.err.text, "crun: it says no"));
    assert_non_null(strstr(a.hint, "apt install runc"));
    /* A failed discovery is not cached; the second candidate works as well. */
    setenv("WORKER_STUB", "probe-second", 1);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.runtime, "crun");
}

static void out_of_descriptors_fails_the_call_not_the_server(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    struct rlimit before;
    fixture_start(f);
    open_one(f, NULL, id);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(a.rc < 0);
    check_run(f, id, "echo fine", "fine");
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
}

static void a_flood_of_log_lines_is_cut(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char path[96];
    char line[4096];
    unsigned lines = 0;
    unsigned labelled = 0;
    fixture_start(f);
    open_one(f, NULL, id);
    snprintf(path, sizeof(path), "%s/log", f->sweeps);
    fflush(stderr);
    int saved = dup(2);
    assert_non_null(freopen(path, "w", stderr));
    check_run(f, id, "flood-log", "survived");
    close_one(f, id);
    wait_state(f, id, NULL);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        lines++;
        if (strstr(line, "worker: flood") != NULL && strstr(line, id) != NULL) {
            assert_non_null(strstr(line, " error "));
            labelled++;
        }
    }
    fclose(file);
    assert_in_range(labelled, 150, 1000);
    assert_true(lines < 1000);
}

static void closing_never_depends_on_the_worker(void **state)
{
    static const char *const images[] = {"close-crashes", "close-fails", "close-stays",
                                         "close-hangs"};
    struct fixture *f = *state;
    fixture_start(f);
    for (size_t i = 0; i < 4; i++) {
        char id[FLEET_ID_SIZE];
        open_one(f, images[i], id);
        int pid = pid_of(f, id);
        close_one(f, id);
        wait_state(f, id, NULL);
        assert_false(process_exists(pid));
    }
    assert_int_equal(count_entries(f->sweeps), 3); /* all but the one that answered OK */
}

static void shutdown_is_in_time_whatever_the_workers_do(void **state)
{
    static const char *const images[] = {NULL, "close-hangs", "close-stays", "close-crashes"};
    struct fixture *f = *state;
    struct answer runs[4];
    fixture_start(f);
    char ids[4][FLEET_ID_SIZE];
    int pids[4];
    for (size_t i = 0; i < 4; i++) {
        open_one(f, images[i], ids[i]);
        pids[i] = pid_of(f, ids[i]);
        begin_run(f, ids[i], "wait", &runs[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        wait_begun(f, ids[i], 1);
    }
    CLEANUP_BUF struct buf log;
    fixture_end_heard(f, FLEET_END_CLOSE, &log);
    /* each worker had its own time, and nothing had to wait until the shutdown ran out of it */
    check_log(&log, "did not answer close in time", true);
    check_log(&log, "did not exit after it was closed", true);
    check_log(&log, "out of time", false);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(runs[i].times, 1);
        assert_int_equal(runs[i].status, OP_STATUS_CANCELLED);
        assert_false(process_exists(pids[i]));
        answer_finish(&runs[i]);
    }
    assert_int_equal(count_entries(f->top), 0);
}

static void shutdown_in_the_middle_of_creating(void **state)
{
    static const char *const behaviours[] = {"", "probe-hangs", "hello-hang"};
    struct fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        struct answer a;
        fixture_start(f);
        setenv("WORKER_STUB", behaviours[i], 1);
        forget_notes(f);
        begin_open(f, NULL, "open-slow", &a);
        if (strcmp(behaviours[i], "probe-hangs") == 0) {
            wait_entries(f, f->sweeps, 1); /* the stub's note about its probe */
        } else if (strcmp(behaviours[i], "hello-hang") == 0) {
            wait_note(f, "hello");
        } else {
            wait_note(f, "open");
        }
        fixture_end_by_itself(f, FLEET_END_CLOSE, NULL);
        assert_int_equal(a.times, 1);
        assert_int_equal(a.rc, -ERR_SHUTTING_DOWN);
        assert_int_equal(count_entries(f->top), 0);
    }
    /* There is the note and the one trial that had begun; where no runtime was asked, nothing is
     * swept. */
    assert_int_equal(count_entries(f->sweeps), 2);
}

static void shutdown_hurries_what_was_being_closed(void **state)
{
    struct fixture *f = *state;
    struct answer closing;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, "close-hangs", id);
    answer_init(&closing);
    fleet_close(f->fleet, id, on_done, &closing);
    wait_note(f, "close"); /* now it has been asked, and has more time than a shutdown takes */
    CLEANUP_BUF struct buf log;
    fixture_end_heard(f, FLEET_END_CLOSE, &log);
    check_log(&log, "did not exit after it was closed", true);
    check_log(&log, "did not answer close in time", false); /* that would come later */
    check_log(&log, "out of time", false);
    assert_int_equal(closing.times, 1);
    assert_int_equal(count_entries(f->top), 0);
    assert_int_equal(count_entries(f->sweeps), 1);
    answer_finish(&closing);
}

static void shutdown_before_a_probe_begins_starts_none(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    setenv("WORKER_STUB", "probe-hangs", 1);
    begin_open(f, NULL, NULL, &a);
    fixture_end_by_itself(f, FLEET_END_CLOSE, NULL);
    assert_int_equal(a.rc, -ERR_SHUTTING_DOWN);
    assert_int_equal(count_entries(f->top), 0);
    assert_int_equal(count_entries(f->sweeps), 0);
}

static void the_last_words_of_a_worker_that_exits_at_once_are_heard(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    for (int i = 0; i < 50; i++) {
        begin_open(f, NULL, "open-fails-and-exits", &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, -ERR_IMAGE);
        assert_string_equal(a.err.text, "no such image");
        assert_string_equal(a.hint, "choose one that exists");
        answer_finish(&a);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(a_call_survives_its_workers),
        T(a_killed_worker_is_replaced_at_once),
        T(misbehaving_workers_are_replaced),
        T(a_hanging_worker_is_found_and_replaced),
        T(a_stopped_worker_is_replaced),
        T(an_idle_worker_that_dies_is_replaced_too),
        T(a_worker_that_keeps_dying_parks_its_sandbox_only),
        T(the_last_words_of_a_worker_that_exits_at_once_are_heard),
        T(adopting_in_vain_parks_the_sandbox),
        T(a_sandbox_that_ended_is_reported),
        T(a_failed_sandbox_is_closed_in_the_moment_of_its_last_removal),
        T(creation_fails_with_a_reason),
        T(no_worker_no_sandbox),
        T(a_program_that_is_missing_is_named),
        T(no_runtime_says_why_and_what_to_do),
        T(out_of_descriptors_fails_the_call_not_the_server),
        T(a_flood_of_log_lines_is_cut),
        T(closing_never_depends_on_the_worker),
        T(shutdown_is_in_time_whatever_the_workers_do),
        T(shutdown_in_the_middle_of_creating),
        T(shutdown_hurries_what_was_being_closed),
        T(shutdown_before_a_probe_begins_starts_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
