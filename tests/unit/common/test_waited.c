/*
 * What counts of the time that a process takes, by canned files of /proc and by a process that
 * waits for a disk as far as the kernel tells.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fd.h"
#include "common/kernel/waited.h"

#define LOOK_MS 250

static char root[64];

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/cloister-waited-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return dir_remove(root, NULL);
}

static void put(const char *path, const char *text)
{
    assert_int_equal(file_replace(path, text, strlen(text), 0600, NULL), 0);
}

/* Thread `tid` of process `pid`, which is what /proc tells at this moment. */
static void tell(int pid, int tid, int parent, char state, uint64_t ran_ms, uint64_t delayed_ms)
{
    char path[256], text[128];
    snprintf(path, sizeof(path), "%s/proc/%d/task/%d", root, pid, tid);
    assert_int_equal(dir_make(path, 0700, NULL), 0);
    snprintf(text, sizeof(text), "%d (a ) R 7) %c %d 1 1\n", tid, state, parent);
    snprintf(path, sizeof(path), "%s/proc/%d/task/%d/stat", root, pid, tid);
    put(path, text);
    snprintf(path, sizeof(path), "%s/proc/%d/stat", root, pid);
    put(path, text);
    snprintf(path, sizeof(path), "%s/proc/%d/task/%d/schedstat", root, pid, tid);
    snprintf(text, sizeof(text), "%llu000000 %llu000000 3\n", (unsigned long long)ran_ms,
             (unsigned long long)delayed_ms);
    put(path, text);
}

static void sleep_and_work_count_and_waits_for_a_cpu_do_not(void **state)
{
    struct waited w;
    (void)state;
    tell(10, 10, 1, 'S', 5, 100);
    waited_begin(&w, root, 10, false, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 250); /* it slept */
    tell(10, 10, 1, 'S', 5, 300);
    assert_int_equal(waited_look(&w, 1500, LOOK_MS), 300); /* it was ready for 200 of 250 */
    tell(10, 10, 1, 'S', 5, 9000);
    assert_int_equal(waited_look(&w, 1750, LOOK_MS), 300);
    tell(10, 10, 1, 'R', 255, 9000);
    assert_int_equal(waited_look(&w, 2000, LOOK_MS), 550); /* it worked */
    tell(10, 10, 1, 'R', 505, 9000);
    assert_int_equal(waited_look(&w, 2250, LOOK_MS), 800); /* still; a circle, perhaps */
    assert_int_equal(w.worked_ms, 500);
}

static void only_the_main_thread_is_said_to_work(void **state)
{
    struct waited w;
    (void)state;
    tell(10, 10, 1, 'R', 5, 0);
    tell(10, 11, 1, 'R', 5, 0);
    tell(20, 20, 10, 'R', 5, 0);
    waited_begin(&w, root, 10, true, 1000);
    tell(10, 10, 1, 'R', 6, 0);
    tell(10, 11, 1, 'R', 255, 0);
    tell(20, 20, 10, 'R', 255, 0);
    waited_look(&w, 1250, LOOK_MS);
    assert_int_equal(w.worked_ms, 1);
    tell(10, 10, 1, 'R', 206, 0);
    waited_look(&w, 1500, LOOK_MS);
    assert_int_equal(w.worked_ms, 201);
}

static void a_wait_that_goes_on_shows_by_its_state(void **state)
{
    static const char states[] = {'R', 'D'};
    (void)state;
    for (size_t i = 0; i < sizeof(states); i++) {
        struct waited w;
        tell(10, 10, 1, states[i], 5, 0);
        waited_begin(&w, root, 10, false, 1000);
        for (uint64_t now_ms = 1250; now_ms < 60000; now_ms += LOOK_MS) {
            assert_int_equal(waited_look(&w, now_ms, LOOK_MS), 0);
        }
    }
}

static void a_stopped_process_counts(void **state)
{
    struct waited w;
    (void)state;
    tell(10, 10, 1, 'T', 5, 0);
    waited_begin(&w, root, 10, false, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 250);
}

static void our_own_lateness_does_not_count(void **state)
{
    struct waited w;
    (void)state;
    tell(10, 10, 1, 'S', 5, 0);
    waited_begin(&w, root, 10, false, 1000);
    assert_int_equal(waited_look(&w, 9000, LOOK_MS), 250);
}

static void any_thread_and_with_family_any_descendant_is_enough(void **state)
{
    struct waited w;
    (void)state;
    tell(10, 10, 1, 'S', 5, 0);
    tell(10, 11, 1, 'D', 5, 0);
    waited_begin(&w, root, 10, false, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 0);

    tell(10, 11, 1, 'S', 5, 0);
    tell(20, 20, 10, 'D', 5, 0);
    waited_begin(&w, root, 10, false, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 250);
    waited_begin(&w, root, 10, true, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 250); /* it was not seen before */
    assert_int_equal(waited_look(&w, 1500, LOOK_MS), 250);

    tell(20, 20, 1, 'D', 5, 0); /* somebody else's */
    waited_begin(&w, root, 10, true, 1000);
    waited_look(&w, 1250, LOOK_MS);
    assert_int_equal(waited_look(&w, 1500, LOOK_MS), 500);
}

static void what_is_gone_or_nonsense_counts(void **state)
{
    struct waited w;
    char path[256];
    (void)state;
    waited_begin(&w, root, 10, true, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 250);
    tell(10, 10, 1, 'D', 5, 0);
    snprintf(path, sizeof(path), "%s/proc/10/task/10/stat", root);
    put(path, "10 (no end");
    snprintf(path, sizeof(path), "%s/proc/10/task/10/schedstat", root);
    put(path, "-");
    waited_begin(&w, root, 10, true, 1000);
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 250);
}

static void who_looks_does_not_wait(void **state)
{
    struct waited w;
    (void)state;
    waited_begin(&w, "", getpid(), false, 1000);
    assert_false(w.waits);
}

/* Who waits for the end of a vfork() is in state D. */
static void the_kernel_tells_it_of_real_processes(void **state)
{
    int ready[2];
    pid_t child = 0;
    struct waited w;
    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t parent = fork();
    if (parent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if a check fails */
        if (vfork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pid_t self = getpid();
            (void)!write(ready[1], &self, sizeof(self));
            pause();
            _exit(0);
        }
        _exit(0);
    }
    assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
    bool waits = false;
    while (!waits) { /* the child runs before its parent's state is set */
        waited_begin(&w, "", parent, false, 1000);
        waits = w.waits;
    }
    assert_int_equal(waited_look(&w, 1250, LOOK_MS), 0);
    waited_begin(&w, "", getpid(), true, 1000);
    waited_look(&w, 1250, LOOK_MS);
    assert_true(w.waits);
    kill(parent, SIGKILL);
    kill(child, SIGKILL);
    waitpid(parent, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sleep_and_work_count_and_waits_for_a_cpu_do_not, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_the_main_thread_is_said_to_work, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_that_goes_on_shows_by_its_state, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_process_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(our_own_lateness_does_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(any_thread_and_with_family_any_descendant_is_enough, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_gone_or_nonsense_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(who_looks_does_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(the_kernel_tells_it_of_real_processes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
