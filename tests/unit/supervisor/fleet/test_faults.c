/*
 * A host without descriptors, processes or disk space, at each call in turn that can fail
 * (tests/lib/fault.h). An error says why, earlier files on disk are intact, nothing is left behind,
 * and the same call succeeds when the host has recovered.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/record.h"
#include "tests/lib/fault.h"
#include "tests/unit/supervisor/fleet/fixture.h"

#define ENDLESS 1000 /* more calls than any step here makes */

static const struct need {
    enum fault_call call;
    int sys;
    const char *name;
} needs[] = {
    {FAULT_OPEN, EMFILE, "open: too many open files"},
    {FAULT_OPEN, ENOSPC, "open: no space"},
    {FAULT_WRITE, ENOSPC, "write: no space"},
    {FAULT_SYNC, EIO, "fsync: broken disk"},
    {FAULT_RENAME, ENOSPC, "rename: no space"},
    {FAULT_MKDIR, ENOSPC, "mkdir: no space"},
    {FAULT_PIPE, EMFILE, "pipe: too many open files"},
    {FAULT_SPAWN, EAGAIN, "fork: too many processes"},
    {FAULT_SPAWN, ENOMEM, "fork: no memory"},
};

#define NEEDS (sizeof(needs) / sizeof(needs[0]))

/* ---- files ---- */

static void check_text(const char *path, const char *text)
{
    struct buf b;
    struct err err = ERR_INIT;
    buf_init(&b, 4096);
    assert_int_equal(file_read(path, &b, &err), 0);
    assert_int_equal(b.len, strlen(text));
    assert_memory_equal(b.data, text, b.len);
    buf_finish(&b);
}

static void a_file_that_cannot_be_replaced_is_as_it_was(void **state)
{
    struct fixture *f = *state;
    char *path = alloc_printf("%s/file", f->top);
    struct err err = ERR_INIT;
    assert_int_equal(file_replace(path, "before", 6, 0600, &err), 0);
    for (size_t i = 0; i < NEEDS; i++) {
        size_t hits = 1;
        for (size_t nth = 0; hits > 0; nth++) {
            err = (struct err)ERR_INIT;
            fault_set(needs[i].call, needs[i].sys, nth, 1);
            int rc = file_replace(path, "afterwards", 10, 0600, &err);
            hits = fault_end();
            assert_int_equal(rc<0, hits> 0);
            assert_int_equal(err.sys, hits > 0 ? needs[i].sys : 0);
            check_text(path, rc < 0 ? "before" : "afterwards");
            assert_int_equal(count_entries(f->top), 1);
        }
        assert_int_equal(file_replace(path, "before", 6, 0600, &err), 0);
    }
    free(path);
}

static void the_note_of_a_worker_is_the_last_one_that_could_be_written(void **state)
{
    struct fixture *f = *state;
    struct record_worker note;
    struct err err = ERR_INIT;
    for (size_t i = 0; i < NEEDS; i++) {
        size_t hits = 1;
        assert_int_equal(record_save_worker(f->top, getpid(), 1, &err), 0);
        for (size_t nth = 0; hits > 0; nth++) {
            fault_set(needs[i].call, needs[i].sys, nth, 1);
            int rc = record_save_worker(f->top, getpid(), 2, &err);
            hits = fault_end();
            assert_int_equal(record_load_worker(f->top, &note, &err), 0);
            assert_int_equal(note.pid, getpid());
            assert_int_equal(note.generation, rc < 0 ? 1 : 2);
            assert_true(note.alive);
            assert_int_equal(record_save_worker(f->top, getpid(), 1, &err), 0);
        }
    }
}

static void an_instance_that_cannot_be_made_can_be_made_later(void **state)
{
    struct fixture *f = *state;
    struct instance *instance;
    rename_instance(f, "main");
    for (size_t i = 0; i < NEEDS; i++) {
        size_t hits = 1;
        for (size_t nth = 0; hits > 0; nth++) {
            struct err err = ERR_INIT;
            fault_set(needs[i].call, needs[i].sys, nth, 1);
            int rc = instance_open(&f->config, &instance, &err);
            hits = fault_end();
            if (rc < 0) {
                assert_true(hits > 0);
                assert_non_null(strstr(err.text, strerror(needs[i].sys)));
                assert_int_equal(instance_open(&f->config, &instance, &err), 0);
            }
            char *sandbox = alloc_printf("%s/one", instance->sandboxes);
            fault_set(needs[i].call, needs[i].sys, nth, 1);
            rc = instance_restore(instance, sandbox, &err);
            hits += fault_end();
            assert_true(rc == 0 || err.text[0] != '\0');
            assert_int_equal(instance_restore(instance, sandbox, &err), 0);
            struct stat st;
            assert_int_equal(stat(sandbox, &st), 0);
            free(sandbox);
            char *dir = alloc_strdup(instance->dir);
            instance_close(instance);
            assert_int_equal(dir_remove(dir, &err), 0);
            free(dir);
        }
    }
}

static void an_own_instance_that_cannot_be_made_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct instance *instance;
    for (size_t i = 0; i < NEEDS; i++) {
        size_t hits = 1;
        for (size_t nth = 0; hits > 0; nth++) {
            struct err err = ERR_INIT;
            fault_set(needs[i].call, needs[i].sys, nth, 1);
            int rc = instance_open(&f->config, &instance, &err);
            hits = fault_end();
            if (rc == 0) {
                instance_close(instance);
            }
            assert_int_equal(count_entries(f->top), 0);
        }
    }
}

static void a_named_instance_is_known_again_though_the_disk_was_full(void **state)
{
    struct fixture *f = *state;
    struct instance *instance;
    struct err err = ERR_INIT;
    rename_instance(f, "main");
    assert_int_equal(instance_open(&f->config, &instance, &err), 0);
    char *dir = alloc_strdup(instance->dir);
    instance_close(instance);
    fault_set(FAULT_WRITE, ENOSPC, 0, ENDLESS);
    assert_int_equal(instance_open(&f->config, &instance, &err), -ERR_IO);
    assert_true(fault_end() > 0);
    bool named = false;
    assert_true(instance_look(dir, &named));
    assert_true(named);
    free(dir);
}

/* ---- sandboxes ---- */

static char *sandboxes_dir(const struct fixture *f)
{
    char *instance = instance_dir(f);
    char *path = alloc_printf("%s/sandboxes", instance);
    free(instance);
    return path;
}

/* An open that is refused gives a reason and leaves nothing; one that succeeds anyway gives a
 * working sandbox. */
static void open_in_need(struct fixture *f, const struct need *need, size_t nth, size_t *ret_hits)
{
    struct answer a;
    fault_set(need->call, need->sys, nth, 1);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    *ret_hits = fault_end();
    if (a.rc < 0) {
        assert_true(*ret_hits > 0);
        if (strstr(a.err.text, strerror(need->sys)) == NULL) {
            fail_msg("%s, call %zu: \"%s\" does not say so", need->name, nth, a.err.text);
        }
    } else {
        assert_string_equal(a.state, "ready");
        check_run(f, a.id, "echo fine", "fine");
        close_one(f, a.id);
        wait_state(f, a.id, NULL);
    }
    answer_finish(&a);
}

static void a_sandbox_that_cannot_be_made_says_why_and_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id); /* makes the instance and discovers the engine */
    char *sandboxes = sandboxes_dir(f);
    for (size_t i = 0; i < NEEDS; i++) {
        size_t hits = 1;
        for (size_t nth = 0; hits > 0; nth++) {
            open_in_need(f, &needs[i], nth, &hits);
            wait_entries(f, sandboxes, 1);
        }
    }
    check_run(f, id, "echo still", "still");
    free(sandboxes);
}

static void a_worker_is_replaced_when_the_host_has_recovered(void **state)
{
    struct fixture *f = *state;
    static const struct need *const refused[] = {&needs[0], &needs[6], &needs[7]};
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        get_status(f, id, &a);
        fault_set(refused[i]->call, refused[i]->sys, 0, 2);
        kill(a.pid, SIGKILL);
        wait_state(f, id, "recovering");
        answer_finish(&a);
        check_run(f, id, "echo again",
                  "again"); /* the sandbox's worker is replaced after the failed starts */
        fault_end();
        get_status(f, id, &a);
        assert_string_equal(a.state, "ready");
        answer_finish(&a);
    }
}

static void a_sandbox_goes_away_whatever_fails_meanwhile(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    char *sandboxes = sandboxes_dir(f);
    for (size_t i = 0; i < NEEDS; i++) {
        fault_set(needs[i].call, needs[i].sys, 0, ENDLESS);
        answer_init(&a);
        fleet_close(f->fleet, id, on_done, &a);
        wait_times(f, &a, 1);
        fault_end();
        assert_int_equal(a.rc, 0);
        wait_state(f, id, NULL);
        wait_entries(f, sandboxes, 0);
        answer_finish(&a);
        open_one(f, NULL, id);
    }
    free(sandboxes);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(a_file_that_cannot_be_replaced_is_as_it_was),
        T(the_note_of_a_worker_is_the_last_one_that_could_be_written),
        T(an_instance_that_cannot_be_made_can_be_made_later),
        T(an_own_instance_that_cannot_be_made_leaves_nothing),
        T(a_named_instance_is_known_again_though_the_disk_was_full),
        T(a_sandbox_that_cannot_be_made_says_why_and_leaves_nothing),
        T(a_worker_is_replaced_when_the_host_has_recovered),
        T(a_sandbox_goes_away_whatever_fails_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
