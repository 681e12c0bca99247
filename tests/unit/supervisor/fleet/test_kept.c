/* What a server has found by a trial, and when the next one uses it. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/fleet/internal.h"
#include "supervisor/fleet/state/record.h"
#include "tests/unit/supervisor/fleet/fixture.h"

#define OTHER_UID 4321
#define SHORT_MS  100

/* A directory of a file system that is gone: who looks at it hangs until it comes back. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    const char *path;
    int hanging;
    int settled; /* unfinished files that were put in their place, or removed */
} gone = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

/* In place of the C library's. */
int stat(const char *path, struct stat *ret)
{
    pthread_mutex_lock(&gone.lock);
    bool hangs = gone.path != NULL && strcmp(path, gone.path) == 0;
    gone.hanging += hangs ? 1 : 0;
    pthread_cond_broadcast(&gone.change);
    while (gone.path != NULL && strcmp(path, gone.path) == 0) {
        pthread_cond_wait(&gone.change, &gone.lock);
    }
    gone.hanging -= hangs ? 1 : 0;
    pthread_mutex_unlock(&gone.lock);
    return fstatat(AT_FDCWD, path, ret, 0);
}

static void note_settled(const char *path)
{
    if (strstr(path, "/.trial-") != NULL && strstr(path, ".next") != NULL) {
        pthread_mutex_lock(&gone.lock);
        gone.settled++;
        pthread_cond_broadcast(&gone.change);
        pthread_mutex_unlock(&gone.lock);
    }
}

int unlink(const char *path)
{
    int rc = unlinkat(AT_FDCWD, path, 0);
    note_settled(path);
    return rc;
}

int rename(const char *from, const char *to)
{
    int rc = renameat(AT_FDCWD, from, AT_FDCWD, to);
    note_settled(from);
    return rc;
}

static void let_hang(const char *path)
{
    pthread_mutex_lock(&gone.lock);
    gone.path = path;
    gone.settled = 0;
    pthread_mutex_unlock(&gone.lock);
}

/* As soon as so many hang. */
static void let_go(int hanging)
{
    pthread_mutex_lock(&gone.lock);
    while (gone.hanging < hanging) {
        pthread_cond_wait(&gone.change, &gone.lock);
    }
    gone.path = NULL;
    pthread_cond_broadcast(&gone.change);
    pthread_mutex_unlock(&gone.lock);
}

/* Who notes has done so, or not. */
static void wait_until_settled(void)
{
    pthread_mutex_lock(&gone.lock);
    while (gone.settled == 0) {
        pthread_cond_wait(&gone.change, &gone.lock);
    }
    pthread_mutex_unlock(&gone.lock);
}

/* The runtime is a link to an old program, since nothing is kept of what has just changed. */
static void point_runtime(const char *program)
{
    const char *link = getenv("WORKER_STUB_RUNTIME");
    (void)unlink(link);
    assert_int_equal(symlink(program, link), 0);
}

/* Nor is anything where a program of ours was built in this second. */
static void outlive_build(void)
{
    struct stat stub, own;
    assert_int_equal(stat(getenv("WORKER_STUB_PATH"), &stub), 0);
    assert_int_equal(stat("/proc/self/exe", &own), 0);
    while (time(NULL) <= stub.st_ctime || time(NULL) <= own.st_ctime) {
        (void)poll(NULL, 0, 10);
    }
}

static int setup(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *f = *state;
    CLEANUP_FREE char *runtime = alloc_printf("%s.runtime", f->top);
    free(f->config.backend);
    f->config.backend = alloc_strdup("oci");
    free(f->config.runtime);
    f->config.runtime = alloc_strdup("a-runtime");
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("WORKER_STUB", "lasts", 1);
    setenv("WORKER_STUB_RUNTIME", runtime, 1);
    point_runtime("/bin/sh");
    outlive_build();
    return rc;
}

static int teardown(void **state)
{
    (void)unlink(getenv("WORKER_STUB_RUNTIME"));
    unsetenv("WORKER_STUB");
    return fixture_teardown(state);
}

static bool has_probed(const struct fixture *f)
{
    CLEANUP_FREE char *path = alloc_printf("%s/probe", f->notes);
    return access(path, F_OK) == 0;
}

static void turn_again(uv_timer_t *timer)
{
    (void)timer;
}

/* What it keeps for the next server is written by a thread, which may wait for a CPU. */
static void wait_until_kept(struct fixture *f)
{
    uv_timer_t turn;
    uv_timer_init(&f->loop, &turn);
    uv_timer_start(&turn, turn_again, 10, 10);
    while (!LIST_EMPTY(&f->fleet->host.kept_jobs)) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&turn, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* The whole life of a server that makes one sandbox; whether it has tried the runtime for that. It
 * gives up what it looks at after `late_ms`; 0: as always. */
static bool serve_with_patience(struct fixture *f, uint64_t late_ms)
{
    struct answer a;
    forget_notes(f);
    fixture_start(f);
    f->fleet->host.kept_late_ms = late_ms;
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.runtime, getenv("WORKER_STUB_RUNTIME"));
    answer_finish(&a);
    wait_until_kept(f);
    fixture_stop(f);
    return has_probed(f);
}

static bool serve_once(struct fixture *f)
{
    return serve_with_patience(f, 0);
}

/* The file with what was found; NULL if there is none. Free with free(). */
static char *find_kept(const struct fixture *f)
{
    for (int i = 0; i < 8; i++) {
        CLEANUP_FREE char *path = alloc_printf("%s/.trial-%d", f->top, i);
        struct stat st;
        if (lstat(path, &st) == 0) {
            return STEAL_PTR(path);
        }
    }
    return NULL;
}

static void the_next_server_tries_nothing(void **state)
{
    struct fixture *f = *state;
    assert_true(serve_once(f));
    CLEANUP_FREE char *path = find_kept(f);
    struct stat st;
    assert_non_null(path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_false(serve_once(f));
    assert_false(serve_once(f));
}

static void a_directory_that_hangs_holds_up_nobody(void **state)
{
    struct fixture *f = *state;
    setenv("PATH", "/usr/bin:/a-dead-place:/bin", 1);
    assert_true(serve_once(f));
    assert_false(serve_once(f));
    let_hang("/a-dead-place");
    assert_true(serve_with_patience(f, SHORT_MS));
    let_go(2); /* who looked, and who noted */
    wait_until_settled();
    assert_false(serve_once(f));
}

static void what_was_given_up_writes_nothing_later(void **state)
{
    struct fixture *f = *state;
    setenv("PATH", "/usr/bin:/a-dead-place:/bin", 1);
    let_hang("/a-dead-place");
    assert_true(serve_with_patience(f, SHORT_MS));
    let_go(1);
    wait_until_settled();
    assert_null(find_kept(f));
    assert_true(serve_once(f));
    assert_false(serve_once(f));
}

static void another_runtime_path_or_question_is_tried(void **state)
{
    struct fixture *f = *state;
    assert_true(serve_once(f));
    point_runtime("/bin/cat");
    assert_true(serve_once(f));
    assert_false(serve_once(f));
    setenv("PATH", "/bin:/usr/bin", 1);
    assert_true(serve_once(f));
    assert_false(serve_once(f));
    f->config.io_iops = 17;
    assert_true(serve_once(f));
    assert_false(serve_once(f));
}

static void replace_kept(const char *path, const void *data, size_t len)
{
    assert_int_equal(file_replace(path, data, len, 0600, NULL), 0);
}

static void what_is_not_this_boot_s_or_not_whole_is_tried(void **state)
{
    struct fixture *f = *state;
    assert_true(serve_once(f));
    CLEANUP_FREE char *path = find_kept(f);
    assert_non_null(path);
    CLEANUP_BUF struct buf good;
    buf_init(&good, 1 << 20);
    assert_int_equal(file_read(path, &good, NULL), 0);
    const char *boot = record_boot();
    uint8_t *at = memmem(good.data, good.len, boot, strlen(boot));
    assert_non_null(at);
    *at ^= 1;
    replace_kept(path, good.data, good.len);
    assert_true(serve_once(f));
    *at ^= 1;
    replace_kept(path, good.data, good.len);
    assert_false(serve_once(f));
    replace_kept(path, good.data, good.len - 1);
    assert_true(serve_once(f));
    replace_kept(path, "", 0);
    assert_true(serve_once(f));
    replace_kept(path, "garbage", strlen("garbage"));
    assert_true(serve_once(f));
    assert_false(serve_once(f));
}

static void a_file_that_others_could_have_written_is_not_read(void **state)
{
    struct fixture *f = *state;
    assert_true(serve_once(f));
    CLEANUP_FREE char *path = find_kept(f);
    CLEANUP_FREE char *aside = alloc_printf("%s.aside", f->top);
    assert_non_null(path);
    assert_int_equal(chmod(path, 0644), 0);
    assert_true(serve_once(f));
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    assert_true(serve_once(f));
    assert_false(serve_once(f)); /* the link was replaced, not what it led to */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(aside, path), 0);
    assert_true(serve_once(f));
    assert_int_equal(unlink(aside), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, OTHER_UID, OTHER_UID), 0);
        assert_true(serve_once(f));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(serve_once(f));
    assert_false(serve_once(f));
}

static void behind_a_creation_that_fails_there_is_a_trial(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    assert_true(serve_once(f));
    setenv("WORKER_STUB", "lasts-moved", 1);
    forget_notes(f);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_false(has_probed(f));
    answer_finish(&a);
    fixture_stop(f);
    assert_true(serve_once(f));
    assert_false(serve_once(f)); /* what that trial has found */
}

static void what_fails_in_spite_of_a_trial_is_forgotten(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    forget_notes(f);
    fixture_start(f);
    begin_open(f, NULL, "open-no-engine", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_true(has_probed(f));
    answer_finish(&a);
    fixture_stop(f);
    assert_true(serve_once(f));
}

static void what_is_forgotten_while_it_is_noted_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    setenv("PATH", "/usr/bin:/a-dead-place:/bin", 1);
    let_hang("/a-dead-place");
    fixture_start(f);
    begin_open(f, NULL, "open-no-engine", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    answer_finish(&a);
    let_go(1);
    wait_until_kept(f);
    wait_until_settled();
    assert_null(find_kept(f));
    fixture_stop(f);
}

static void count_candidate(void *arg, const char *backend, const struct msg_probed *p)
{
    unsigned *usable = arg;
    (void)backend;
    *usable += p->usable ? 1 : 0;
}

static void end_survey(void *arg)
{
    (void)arg;
}

static void a_survey_tries_for_real(void **state)
{
    struct fixture *f = *state;
    unsigned usable = 0;
    assert_true(serve_once(f));
    forget_notes(f);
    fixture_start(f);
    fleet_doctor(f->fleet, count_candidate, end_survey, &usable);
    wait_count(f, &usable, 1);
    fixture_stop(f);
    assert_true(has_probed(f));
}

static void what_may_be_mended_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    setenv("WORKER_STUB", "none-enforces-all", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    answer_finish(&a);
    fixture_stop(f);
    assert_null(find_kept(f));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_server_tries_nothing),
        TEST(a_directory_that_hangs_holds_up_nobody),
        TEST(what_was_given_up_writes_nothing_later),
        TEST(another_runtime_path_or_question_is_tried),
        TEST(what_is_not_this_boot_s_or_not_whole_is_tried),
        TEST(a_file_that_others_could_have_written_is_not_read),
        TEST(behind_a_creation_that_fails_there_is_a_trial),
        TEST(what_fails_in_spite_of_a_trial_is_forgotten),
        TEST(what_is_forgotten_while_it_is_noted_is_not_kept),
        TEST(a_survey_tries_for_real),
        TEST(what_may_be_mended_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
