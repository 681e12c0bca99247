/* Instances: one lock each, and the sweep of those whose owner is dead. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "proto/exit_codes.h"
#include "supervisor/fleet/host/instance.h"
#include "tests/unit/supervisor/fleet/fixture.h"

/* ---- instances ---- */

static void an_instance_has_one_owner(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    struct instance *one;
    struct instance *two;
    rename_instance(f, "main");
    assert_int_equal(instance_open(&f->config, &one, &err), 0);
    assert_int_equal(instance_open(&f->config, &two, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "in use"));
    assert_int_equal(instance_claim(one->dir), -1);
    rename_instance(f, "");
    assert_int_equal(instance_open(&f->config, &two, &err), 0);
    assert_string_not_equal(one->dir, two->dir);
    instance_close(two);
    char *dir = alloc_strdup(one->dir);
    instance_close(one);
    int lock = instance_claim(dir);
    assert_true(lock >= 0);
    assert_int_equal(instance_claim(dir), -1);
    close(lock);
    free(dir);
    rename_instance(f, "../main");
    assert_int_equal(instance_open(&f->config, &one, &err), -ERR_CONFIG);
}

static void a_directory_that_others_can_touch_is_refused(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    struct instance *i;
    assert_int_equal(chmod(f->top, 0777), 0);
    assert_int_equal(instance_open(&f->config, &i, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "written to by other users"));
    assert_int_equal(chmod(f->top, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(f->top, 12345, 12345), 0);
        assert_int_equal(instance_open(&f->config, &i, &err), -ERR_CONFIG);
        assert_non_null(strstr(err.text, "another user"));
        assert_int_equal(chown(f->top, 0, 0), 0);
    }
    char link[96];
    snprintf(link, sizeof(link), "%s/link", f->sweeps);
    assert_int_equal(symlink(f->top, link), 0);
    free(f->config.runtime_dir);
    f->config.runtime_dir = alloc_strdup(link);
    assert_int_equal(instance_open(&f->config, &i, &err), -ERR_CONFIG);
    assert_non_null(strstr(err.text, "not a directory"));
}

static void a_path_too_long_for_sockets_is_explained(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    free(f->config.runtime_dir);
    f->config.runtime_dir = alloc_printf("%s/%080d", f->top, 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_CONFIG);
    assert_non_null(strstr(a.err.text, "too deep"));
    assert_non_null(strstr(a.hint, "--runtime-dir"));
}

/* ---- sweeping ---- */

struct victim {
    int pid;
    int worker_pid;
    char id[FLEET_ID_SIZE];
};

#define VICTIM_FD 9
#define MANY      1001

/* The other process is this program again, because nng does not survive a fork. */
static int run_victim(char **argv)
{
    void *state;
    struct answer a;
    struct victim v;
    memset(&v, 0, sizeof(v));
    fixture_setup(&state);
    struct fixture *f = state;
    err_ignore(dir_remove(f->top, NULL)); /* the parent's directory is used */
    err_ignore(dir_remove(f->sweeps, NULL));
    err_ignore(dir_remove(f->notes, NULL));
    unsetenv("WORKER_STUB_NOTES"); /* the parent cannot read our notes */
    free(f->config.runtime_dir);
    f->config.runtime_dir = alloc_strdup(argv[2]);
    rename_instance(f, argv[3]);
    if (argv[5][0] != '\0') {
        setenv("WORKER_STUB", "docker", 1);
        free(f->config.backend);
        f->config.backend = alloc_strdup("docker");
        free(f->config.engine);
        f->config.engine = alloc_strdup(argv[5]);
    }
    fixture_start(f);
    open_one(f, NULL, v.id);
    get_status(f, v.id, &a);
    v.worker_pid = a.pid;
    if (argv[4][0] == 's') {
        kill(a.pid, SIGSTOP);
    }
    if (write(VICTIM_FD, &v, sizeof(v)) == sizeof(v)) {
        raise(SIGKILL);
    }
    return EXIT_FAILURE;
}

/* Starts a server in a process of its own, with one sandbox, and kills it. With `stop_worker` its
 * worker cannot notice. `engine` "" is oci, else docker. */
static void make_victim_on(struct fixture *f, const char *engine, bool stop_worker,
                           struct victim *v)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    /* Its worker becomes our child, so that we can wait for its end. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(fds[1], VICTIM_FD);
        execl("/proc/self/exe", "test_sweep", "victim", f->config.runtime_dir, f->config.instance,
              stop_worker ? "stop" : "run", engine, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], v, sizeof(*v)), sizeof(*v));
    close(fds[0]);
    v->pid = pid;
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void make_victim(struct fixture *f, bool stop_worker, struct victim *v)
{
    make_victim_on(f, "", stop_worker, v);
}

static void check_swept_by(struct fixture *f, const struct victim *v, const char *how)
{
    char path[128];
    CLEANUP_BUF struct buf note;
    buf_init(&note, 100);
    snprintf(path, sizeof(path), "%s/%s", f->sweeps, v->id);
    assert_int_equal(file_read(path, &note, NULL), 0);
    assert_string_equal(buf_cstr(&note), how);
}

static void check_swept(struct fixture *f, const struct victim *v)
{
    check_swept_by(f, v, "oci runc");
}

static void what_a_dead_server_left_in_an_engine_is_swept_there(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    make_victim_on(f, "unix:///run/other.sock", false, &v);
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    fixture_start(f); /* on oci, without knowing any engine */
    open_one(f, NULL, id);
    wait_entries(f, f->sweeps, 1);
    wait_entries(f, f->top, 1);
    check_swept_by(f, &v, "docker  unix:///run/other.sock");
}

static void a_dead_server_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    int status;
    make_victim(f, false, &v);
    assert_int_equal(count_entries(f->top), 1);
    /* Its worker ends by itself, because its lifeline is closed. */
    assert_int_equal(waitpid(v.worker_pid, &status, 0), v.worker_pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_CODE_ORPHANED);
    fixture_start(f);
    open_one(f, NULL, id);
    wait_entries(f, f->top, 1);
    check_swept(f, &v);
    check_run(f, id, "echo fine", "fine");
}

static void a_worker_that_did_not_notice_is_killed(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    int status;
    make_victim(f, true, &v);
    fixture_start(f);
    open_one(f, NULL, id);
    assert_int_equal(waitpid(v.worker_pid, &status, 0), v.worker_pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    wait_entries(f, f->top, 1);
    check_swept(f, &v);
}

/* The note names a process with the same pid but another start time, which is not the worker. */
static void a_process_that_only_has_the_pid_lives(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    int status;
    make_victim(f, false, &v);
    assert_int_equal(waitpid(v.worker_pid, &status, 0), v.worker_pid);
    pid_t innocent = fork();
    if (innocent == 0) {
        pause();
        _exit(0);
    }
    char *dir = instance_dir(f);
    char *path = alloc_printf("%s/sandboxes/%s/worker", dir, v.id);
    char *text = alloc_printf("%d 12345 1\n", (int)innocent);
    assert_int_equal(file_replace(path, text, strlen(text), 0600, NULL), 0);
    fixture_start(f);
    open_one(f, NULL, id);
    wait_entries(f, f->top, 1);
    assert_int_equal(waitpid(innocent, &status, WNOHANG), 0);
    kill(innocent, SIGKILL);
    assert_int_equal(waitpid(innocent, &status, 0), innocent);
    free(dir);
    free(path);
    free(text);
}

static void what_cannot_be_swept_stays_findable(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    make_victim(f, false, &v);
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    setenv("WORKER_STUB", "sweep-fails", 1);
    fixture_start(f);
    forget_notes(f);
    open_one(f, NULL, id);
    wait_note(f, "sweep");
    assert_int_equal(count_entries(f->top), 2);
    fixture_stop(f);
    assert_int_equal(count_entries(f->top), 1);
    unsetenv("WORKER_STUB");
    fixture_start(f);
    open_one(f, NULL, id);
    wait_entries(f, f->top, 1);
    check_swept(f, &v);
}

/* As when an engine is too busy for a removal. The instance stays locked, so no other server sweeps
 * it in between. */
static void what_could_not_be_swept_is_swept_again_by_the_same_server(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    make_victim(f, false, &v);
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    char *dir = instance_dir(f);
    setenv("WORKER_STUB", "sweep-fails", 1);
    fixture_start(f);
    forget_notes(f);
    open_one(f, NULL, id);
    wait_note(f, "sweep");
    assert_int_equal(instance_claim(dir), -1);
    unsetenv("WORKER_STUB");
    wait_entries(f, f->top, 1);
    check_swept(f, &v);
    free(dir);
}

static void what_an_installer_writes_for_is_swept_behind_it(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    struct stat installer, target;
    char id[FLEET_ID_SIZE];
    make_victim(f, false, &v);
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    CLEANUP_FREE char *dir = instance_dir(f);
    CLEANUP_FREE char *path =
        alloc_printf("%s/sandboxes/%cinstaller", dir, INSTANCE_INSTALLER_MARK);
    assert_int_equal(dir_make_one(path, 0700, NULL), 0);
    setenv("WORKER_STUB", "installer-sweep-fails", 1);
    fixture_start(f);
    forget_notes(f);
    open_one(f, NULL, id);
    wait_note(f, "sweep"); /* in vain */
    unsetenv("WORKER_STUB");
    wait_entries(f, f->top, 1);
    CLEANUP_FREE char *first = alloc_printf("%s/%cinstaller", f->sweeps, INSTANCE_INSTALLER_MARK);
    CLEANUP_FREE char *second = alloc_printf("%s/%s", f->sweeps, v.id);
    assert_int_equal(stat(first, &installer), 0);
    assert_int_equal(stat(second, &target), 0);
    assert_true(installer.st_mtim.tv_sec < target.st_mtim.tv_sec ||
                (installer.st_mtim.tv_sec == target.st_mtim.tv_sec &&
                 installer.st_mtim.tv_nsec <= target.st_mtim.tv_nsec));
}

static void other_peoples_directories_are_no_instances(void **state)
{
    struct fixture *f = *state;
    char dir[96];
    char path[128];
    snprintf(dir, sizeof(dir), "%s/precious", f->top);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/lock", dir);
    assert_int_equal(instance_claim(dir), -1);
    assert_int_equal(file_replace(path, "", 0, 0600, NULL), 0);
    assert_int_equal(instance_claim(dir), -1);
    assert_int_equal(file_replace(path, "pid 4711\n", 9, 0600, NULL), 0);
    assert_int_equal(instance_claim(dir), -1);
    char id[FLEET_ID_SIZE];
    struct victim v;
    make_victim(f, false, &v); /* an instance to sweep, which shows that we have looked */
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    fixture_start(f);
    open_one(f, NULL, id);
    wait_entries(f, f->top, 2);
    check_swept(f, &v);
    assert_int_equal(access(path, F_OK), 0);
}

static void a_living_server_is_left_alone(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char other[FLEET_ID_SIZE];
    struct victim v;
    fixture_start(f);
    struct fleet *first = f->fleet;
    open_one(f, NULL, id);
    make_victim(f, false, &v); /* its sweep shows that the other has looked */
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    fixture_start(f);
    open_one(f, NULL, other);
    wait_entries(f, f->top, 2);
    assert_int_equal(count_entries(f->sweeps), 1);
    check_swept(f, &v);
    fixture_stop(f);
    f->fleet = first;
    check_run(f, id, "gen", "1");
}

/* In test_adopt.c its sandbox is taken over; here no server comes in time. */
static void a_named_instance_that_nobody_comes_for_is_swept_after_its_grace(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    int status;
    rename_instance(f, "main");
    make_victim(f, false, &v);
    rename_instance(f, "");
    fixture_start(f);
    open_one(f, NULL, id); /* this server sweeps, and finds a living worker */
    assert_int_equal(waitpid(v.worker_pid, &status, 0), v.worker_pid);
    open_one(f, NULL, id); /* another server makes no difference */
    assert_int_equal(count_entries(f->top), 2);
    fixture_stop(f);
    uint64_t begin_ms = clock_ms();
    fixture_start(f);
    open_one(f, NULL, id);
    assert_int_equal(count_entries(f->sweeps),
                     0); /* the server is dead, but a successor may come */
    assert_int_equal(count_entries(f->top), 2);
    wait_entries(f, f->top, 1);
    assert_true(clock_ms() - begin_ms >= 2000); /* its grace period of 1 s, and a margin */
    check_swept(f, &v);
}

/* Sandboxes without a worker, but with a record, since that has the grace they are given. */
static void make_many(const char *sandboxes, const char *name, const char *from)
{
    CLEANUP_FREE char *record = alloc_printf("%s/record", from);
    for (int i = 0; i < MANY; i++) {
        CLEANUP_FREE char *path = alloc_printf("%s/%s%d", sandboxes, name, i);
        CLEANUP_FREE char *copy = alloc_printf("%s/record", path);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(link(record, copy), 0);
    }
}

/* An instance has some thousands at most. The one with the worker is not among the first thousand
 * from either end, since this file system lists them in the order of their making. */
static void a_living_worker_is_found_among_however_many_sandboxes(void **state)
{
    struct fixture *f = *state;
    struct victim living, dead;
    char id[FLEET_ID_SIZE], memory[] = "/dev/shm/test_sweep.XXXXXX";
    assert_non_null(mkdtemp(memory));
    free(f->config.runtime_dir);
    f->config.runtime_dir = alloc_strdup(memory);
    CLEANUP_FREE char *main = alloc_printf("%s/main", memory);
    CLEANUP_FREE char *other = alloc_printf("%s/other", memory);
    CLEANUP_FREE char *sandboxes = alloc_printf("%s/sandboxes", main);
    rename_instance(f, "main");
    make_victim(f, true, &living);
    CLEANUP_FREE char *path = alloc_printf("%s/%s", sandboxes, living.id);
    CLEANUP_FREE char *aside = alloc_printf("%s/aside", main);
    assert_int_equal(rename(path, aside), 0);
    make_many(sandboxes, "before", aside);
    assert_int_equal(rename(aside, path), 0);
    make_many(sandboxes, "behind", path);
    rename_instance(f, "other");
    make_victim(f, false, &dead); /* its sweep shows that the time of the other is up, too */
    assert_int_equal(waitpid(dead.worker_pid, NULL, 0), dead.worker_pid);
    rename_instance(f, "");
    fixture_start(f);
    open_one(f, NULL, id);
    wait_entries(f, memory, 2);
    assert_int_equal(access(other, F_OK), -1);
    int lock = instance_claim(main); /* nobody has taken it to sweep */
    assert_true(lock >= 0);
    close(lock);
    assert_int_equal(waitpid(living.worker_pid, NULL, WNOHANG), 0);
    kill(living.worker_pid, SIGKILL);
    fixture_stop(f);
    assert_int_equal(dir_remove(memory, NULL), 0);
}

static void a_dead_server_without_records_is_swept_by_default(void **state)
{
    struct fixture *f = *state;
    struct victim v;
    char id[FLEET_ID_SIZE];
    make_victim(f, false, &v);
    assert_int_equal(waitpid(v.worker_pid, NULL, 0), v.worker_pid);
    char *dir = instance_dir(f);
    char *path = alloc_printf("%s/sandboxes/%s/record", dir, v.id);
    assert_int_equal(file_replace(path, "\x00\x00\x00\x05trunc", 9, 0600, NULL), 0);
    free(path);
    path = alloc_printf("%s/%s", f->sweeps, v.id);
    fixture_start(f);
    open_one(f, NULL, id);
    wait_entries(f, f->top, 1);
    CLEANUP_BUF struct buf note;
    buf_init(&note, 100);
    assert_int_equal(file_read(path, &note, NULL), 0);
    assert_string_equal(buf_cstr(&note), "oci ");
    free(dir);
    free(path);
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "victim") == 0) {
        return run_victim(argv);
    }
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(an_instance_has_one_owner),
        T(a_directory_that_others_can_touch_is_refused),
        T(a_path_too_long_for_sockets_is_explained),
        T(other_peoples_directories_are_no_instances),
        T(a_dead_server_leaves_nothing),
        T(what_a_dead_server_left_in_an_engine_is_swept_there),
        T(a_worker_that_did_not_notice_is_killed),
        T(a_process_that_only_has_the_pid_lives),
        T(what_cannot_be_swept_stays_findable),
        T(what_could_not_be_swept_is_swept_again_by_the_same_server),
        T(what_an_installer_writes_for_is_swept_behind_it),
        T(a_living_server_is_left_alone),
        T(a_named_instance_that_nobody_comes_for_is_swept_after_its_grace),
        T(a_living_worker_is_found_among_however_many_sandboxes),
        T(a_dead_server_without_records_is_swept_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
