/* The record of a container when calls fail: it is the old one or the new one, whatever fails
 * (tests/lib/fault.h), and a lack of memory does not make it a damaged one (tests/lib/heap.h). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "tests/lib/fault.h"
#include "tests/lib/heap.h"
#include "worker/backend/record.h"

static const struct need {
    enum fault_call call;
    int sys;
} needs[] = {
    {FAULT_OPEN, EMFILE},
    {FAULT_OPEN, ENOSPC},
    {FAULT_WRITE, ENOSPC},
    {FAULT_RENAME, ENOSPC},
};

struct place {
    char dir[64];
    char path[96];
    struct oci_record before, after;
};

static int setup(void **state)
{
    struct place *p = alloc_one(struct place);
    snprintf(p->dir, sizeof(p->dir), "/tmp/cloister-record-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof(p->path), "%s/record", p->dir);
    p->before = (struct oci_record){.pid = 2, .start = 3, .runtime = "/usr/bin/one"};
    p->after = (struct oci_record){.pid = 4, .start = 5, .runtime = "/usr/bin/two"};
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    err_ignore(dir_remove(p->dir, NULL));
    free(p);
    return 0;
}

static void check_record(const struct place *p, const struct oci_record *expected)
{
    struct oci_record *read = alloc_one(struct oci_record);
    struct err err = ERR_INIT;
    assert_int_equal(oci_record_read(p->path, read, &err), 0);
    assert_int_equal(read->pid, expected->pid);
    assert_int_equal(read->start, expected->start);
    assert_string_equal(read->runtime, expected->runtime);
    free(read);
}

static void a_record_that_cannot_be_written_is_the_one_before(void **state)
{
    struct place *p = *state;
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        struct err err = ERR_INIT;
        size_t hits = 1;
        for (size_t nth = 0; hits > 0; nth++) {
            assert_int_equal(oci_record_write(p->path, &p->before, &err), 0);
            fault_set(needs[i].call, needs[i].sys, nth, 1);
            int rc = oci_record_write(p->path, &p->after, &err);
            hits = fault_end();
            assert_int_equal(rc<0, hits> 0);
            assert_true(rc == 0 || err.sys == needs[i].sys);
            check_record(p, rc < 0 ? &p->before : &p->after);
        }
        assert_int_equal(oci_record_write(p->path, &p->after, &err), 0);
        check_record(p, &p->after);
    }
}

static void a_record_that_cannot_be_read_now_is_not_damaged(void **state)
{
    struct place *p = *state;
    struct oci_record *read = alloc_one(struct oci_record);
    struct err err = ERR_INIT;
    assert_int_equal(oci_record_write(p->path, &p->before, &err), 0);
    bool failed = true;
    for (size_t nth = 0; failed; nth++) {
        heap_fail(nth);
        int rc = oci_record_read(p->path, read, &err);
        heap_end();
        failed = heap_failed();
        assert_int_equal(rc, failed ? -ERR_NO_MEMORY : 0);
        check_record(p, &p->before);
    }
    size_t hits = 1;
    for (size_t nth = 0; hits > 0; nth++) {
        fault_set(FAULT_OPEN, EMFILE, nth, 1);
        int rc = oci_record_read(p->path, read, &err);
        hits = fault_end();
        assert_int_equal(rc, hits > 0 ? -ERR_IO : 0);
        check_record(p, &p->before);
    }
    free(read);
}

/* If it cannot be determined whether a container lives, it must not be taken as ended. */
static void a_process_that_cannot_be_looked_at_is_not_gone(void **state)
{
    uint64_t start;
    assert_true(oci_process_start(getpid(), &start));
    assert_true(oci_process_gone(getpid(), start + 1));
    fault_set(FAULT_OPEN, EMFILE, 0, 1);
    assert_false(oci_process_gone(getpid(), start + 1));
    assert_int_equal(fault_end(), 1);
    bool failed = true;
    for (size_t nth = 0; failed; nth++) {
        heap_fail(nth);
        bool gone = oci_process_gone(getpid(), start + 1);
        heap_end();
        failed = heap_failed();
        assert_int_equal(gone, !failed);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_record_that_cannot_be_written_is_the_one_before),
        CASE(a_record_that_cannot_be_read_now_is_not_damaged),
        cmocka_unit_test(a_process_that_cannot_be_looked_at_is_not_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
