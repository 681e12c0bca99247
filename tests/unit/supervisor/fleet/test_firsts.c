/* Kills all processes in the sandboxes of an instance, by control group and by first process, and
 * no others. Children of this process stand for the processes; a directory with canned files stands
 * for the control group. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cgroup.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/fd.h"
#include "supervisor/fleet/state/firsts.h"
#include "supervisor/fleet/workers/spawn.h"

static char place[] = "/tmp/clofirsts-XXXXXX"; /* directory of the instance */

static int make_place(void **state)
{
    (void)state;
    return mkdtemp(place) != NULL ? 0 : -1;
}

static int remove_place(void **state)
{
    (void)state;
    return dir_remove(place, NULL);
}

static void write_text(const char *path, const char *text)
{
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text), NULL), 0);
}

/* A process that waits to be killed. */
static pid_t child(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    return pid;
}

static void assert_was_killed(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void assert_lives(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_was_killed(pid);
}

static char *group_of(pid_t one, pid_t other)
{
    char *dir = alloc_printf("%s/group", place);
    CLEANUP_FREE char *path = alloc_printf("%s/cgroup.procs", dir);
    CLEANUP_FREE char *list = alloc_printf("%d\n0\n%d\n%d\n", one, getpid(), other);
    assert_int_equal(dir_make(dir, 0700, NULL), 0);
    write_text(path, list);
    return dir;
}

static void note(const char *name, pid_t pid, uint64_t start_time, const char *group)
{
    CLEANUP_FREE char *dir = alloc_printf("%s/sandboxes/%s", place, name);
    struct ending_first first = {.pid = pid, .start_time = start_time};
    snprintf(first.group, sizeof(first.group), "%s", group);
    assert_int_equal(dir_make(dir, 0700, NULL), 0);
    assert_int_equal(ending_note_first(dir, &first, NULL), 0);
}

static void all_of_a_group_is_killed_and_nobody_else(void **state)
{
    (void)state;
    pid_t one = child(), other = child(), first = child(), reused = child();
    CLEANUP_FREE char *group = group_of(one, other);
    CLEANUP_FREE char *gone = alloc_printf("%s/gone", place);
    note("bygroup", one, worker_process_start_time(one), group);
    note("byfirst", first, worker_process_start_time(first), "");
    note("nogroup", reused, worker_process_start_time(reused) + 1, gone);
    CLEANUP_FREE char *dir = alloc_printf("%s/sandboxes/cut", place);
    CLEANUP_FREE char *cut = alloc_printf("%s/" ENDING_FIRST, dir);
    assert_int_equal(dir_make(dir, 0700, NULL), 0);
    write_text(cut, "123456 7");

    assert_int_equal(firsts_kill(place), 2);
    assert_was_killed(one);
    assert_was_killed(other);
    assert_was_killed(first);
    assert_lives(reused); /* that pid belongs to another process now */
    assert_true(ending_has_begun(dir));
}

static void a_group_is_killed_by_its_file_where_it_has_one(void **state)
{
    (void)state;
    pid_t one = child(), other = child();
    CLEANUP_FREE char *group = group_of(one, other);
    CLEANUP_FREE char *file = alloc_printf("%s/cgroup.kill", group);
    write_text(file, "");
    assert_true(cgroup_kill(group));
    char written[4] = "";
    CLEANUP_FD int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, written, sizeof(written)), 1);
    assert_int_equal(written[0], '1');
    assert_lives(one); /* this file does not come from the kernel */
    assert_lives(other);
    assert_int_equal(unlink(file), 0);
    assert_false(cgroup_kill(group)); /* no process is left */
    assert_false(cgroup_kill(place));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_group_is_killed_and_nobody_else),
        cmocka_unit_test(a_group_is_killed_by_its_file_where_it_has_one),
    };
    return cmocka_run_group_tests_name("firsts", tests, make_place, remove_place);
}
