/* The note of a container's first process names its control group, in which all of the container is
 * killed at once. A child in a group with a name like a container's stands for the container. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/fd.h"
#include "worker/backend/docker/first.h"

#define OTHER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char place[] = "/tmp/clodfirst-XXXXXX";

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

static void end_child(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* The directory of a new group with this process; NULL if this system lets us make none. */
static char *group_with(pid_t pid, const char *name)
{
    static const char *const tops[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/pids",
                                       "/sys/fs/cgroup/freezer"};
    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
        CLEANUP_FREE char *dir = alloc_printf("%s/%s", tops[i], name);
        CLEANUP_FREE char *list = alloc_printf("%s/cgroup.procs", dir);
        CLEANUP_FREE char *text = alloc_printf("%d", pid);
        if (mkdir(dir, 0755) < 0) {
            continue;
        }
        CLEANUP_FD int fd = open(list, O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && fd_write_all(fd, text, strlen(text), NULL) == 0) {
            return STEAL_PTR(dir);
        }
        rmdir(dir);
    }
    return NULL;
}

static void note(const char *id, pid_t pid)
{
    cJSON *inspected = cJSON_CreateObject();
    cJSON_AddStringToObject(inspected, "Id", id);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(inspected, "State"), "Pid", pid);
    docker_first_note(inspected, place);
    cJSON_Delete(inspected);
}

static void the_group_of_a_container_is_noted(void **state)
{
    (void)state;
    char id[65];
    struct ending_first first;
    pid_t pid = child();
    snprintf(id, sizeof(id), "%064d", (int)getpid());
    CLEANUP_FREE char *group = group_with(pid, id);
    if (group == NULL) {
        end_child(pid);
        skip();
    }
    note(id, pid);
    assert_true(ending_read_first(place, &first));
    assert_int_equal(first.pid, pid);
    assert_string_equal(first.group, group);
    end_child(pid);
    assert_int_equal(rmdir(group), 0);
    CLEANUP_FREE char *path = alloc_printf("%s/" ENDING_FIRST, place);
    assert_int_equal(unlink(path), 0);
}

/* The engine may be on another computer, where the pid means another process. */
static void a_process_that_is_not_in_the_container_is_not_noted(void **state)
{
    (void)state;
    struct ending_first first;
    pid_t pid = child();
    note(OTHER, pid);
    assert_false(ending_read_first(place, &first));
    end_child(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_group_of_a_container_is_noted),
        cmocka_unit_test(a_process_that_is_not_in_the_container_is_not_noted),
    };
    return cmocka_run_group_tests_name("docker-first", tests, make_place, remove_place);
}
