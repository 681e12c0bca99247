/* Files of this host below --local-files: which can be read, which can be written, and how. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "supervisor/base/local/file.h"

struct lab {
    char top[64];
    char *dirs; /* top/ro, top/rw:rw */
};

static char *lab_path(const struct lab *l, const char *rest)
{
    return alloc_printf("%s/%s", l->top, rest);
}

static void put(const struct lab *l, const char *rest, const char *text)
{
    CLEANUP_FREE char *path = lab_path(l, rest);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void expect_file(const struct lab *l, const char *rest, const char *text)
{
    CLEANUP_FREE char *path = lab_path(l, rest);
    CLEANUP_BUF struct buf b;
    struct err err = ERR_INIT;
    buf_init(&b, 1024);
    assert_int_equal(file_read(path, &b, &err), 0);
    assert_string_equal(buf_cstr(&b), text);
}

static int lab_setup(void **state)
{
    struct lab *l = alloc_one(struct lab);
    snprintf(l->top, sizeof(l->top), "/tmp/cloister-local-XXXXXX");
    assert_non_null(mkdtemp(l->top));
    static const char *const dirs[] = {"ro", "rw", "rw/in", "rw/taken"};
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        CLEANUP_FREE char *path = lab_path(l, dirs[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    CLEANUP_FREE char *link = lab_path(l, "rw/link");
    CLEANUP_FREE char *way = lab_path(l, "rw/way");
    assert_int_equal(symlink("../ro/old", link) + symlink("../ro", way), 0);
    put(l, "ro/old", "old");
    put(l, "rw/old", "old");
    l->dirs = alloc_printf("%s/ro,,%s/rw:rw", l->top, l->top);
    *state = l;
    return 0;
}

static int lab_teardown(void **state)
{
    struct lab *l = *state;
    struct err err = ERR_INIT;
    assert_int_equal(dir_remove(l->top, &err), 0);
    free(l->dirs);
    free(l);
    return 0;
}

/* Saves "new" under a path relative to the lab, or as it is if it begins with a colon. */
static int save(const struct lab *l, const char *rest, bool overwrite, struct err *err)
{
    struct local_save s;
    CLEANUP_FREE char *path = rest[0] == ':' ? alloc_strdup(rest + 1) : lab_path(l, rest);
    int rc = local_save_begin(l->dirs, path, overwrite, &s, err);
    rc = rc < 0 ? rc : local_save_add(&s, view_of("ne"), err);
    rc = rc < 0 ? rc : local_save_add(&s, view_of("w"), err);
    rc = rc < 0 ? rc : local_save_commit(&s, err);
    local_save_end(&s);
    return rc;
}

static size_t count_of(const struct lab *l, const char *rest)
{
    CLEANUP_FREE char *path = lab_path(l, rest);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return count;
}

static void the_list_says_where(void **state)
{
    const char *list = ",/a:rw,/b:ro,,/c:x,";
    struct view dir;
    bool writable;
    (void)state;
    assert_true(local_dirs_next(&list, &dir, &writable) && view_is(dir, "/a") && writable);
    assert_true(local_dirs_next(&list, &dir, &writable) && view_is(dir, "/b") && !writable);
    assert_true(local_dirs_next(&list, &dir, &writable) && view_is(dir, "/c:x") && !writable);
    assert_false(local_dirs_next(&list, &dir, &writable));
    assert_true(local_dirs_writable("/a,/b:rw"));
    assert_false(local_dirs_writable("/a,/b:ro"));
    assert_false(local_dirs_writable(""));
}

static void a_new_file_appears_whole(void **state)
{
    struct lab *l = *state;
    struct err err = ERR_INIT;
    struct stat st;
    mode_t before = umask(022);
    assert_int_equal(save(l, "rw/new", false, &err), 0);
    expect_file(l, "rw/new", "new");
    CLEANUP_FREE char *path = lab_path(l, "rw/new");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_nlink, 1); /* no temporary name is left */
    umask(before);
    assert_int_equal(save(l, "rw/in/new", false, &err), 0);
    assert_int_equal(save(l, ":in/other", false, &err), 0); /* relative: where one may write */
    expect_file(l, "rw/in/other", "new");
    assert_int_equal(count_of(l, "rw"), 6);

    struct local_save s; /* one that is given up */
    CLEANUP_FREE char *half = lab_path(l, "rw/half");
    assert_int_equal(local_save_begin(l->dirs, half, false, &s, &err), 0);
    assert_int_equal(local_save_add(&s, view_of("half"), &err), 0);
    local_save_end(&s);
    assert_int_equal(count_of(l, "rw"), 6);
    local_save_end(&s);
}

static void an_old_one_stays_unless_it_is_to_go(void **state)
{
    struct lab *l = *state;
    struct err err = ERR_INIT;
    assert_int_equal(save(l, "rw/old", false, &err), -ERR_PATH);
    assert_non_null(strstr(err.text, "overwrite: true"));
    expect_file(l, "rw/old", "old");

    struct local_save s; /* somebody is faster */
    CLEANUP_FREE char *path = lab_path(l, "rw/new");
    assert_int_equal(local_save_begin(l->dirs, path, false, &s, &err), 0);
    put(l, "rw/new", "theirs");
    assert_int_equal(local_save_commit(&s, &err), -ERR_PATH);
    local_save_end(&s);
    expect_file(l, "rw/new", "theirs");

    assert_int_equal(save(l, "rw/old", true, &err), 0);
    expect_file(l, "rw/old", "new");
    assert_int_equal(save(l, "rw/in/fresh", true, &err), 0);
}

static void nothing_else_is_written(void **state)
{
    static const struct {
        const char *rest;
        int rc;
    } rows[] = {
        {"ro/new", -ERR_PATH},
        {"new", -ERR_PATH},
        {"rw", -ERR_PATH},
        {"rw/", -ERR_PATH},
        {"rw/../new", -ERR_PATH},
        {"rw/in/../../ro/new", -ERR_PATH},
        {"rw/link", -ERR_PATH},
        {"rw/way/new", -ERR_PATH},
        {"rw/taken", -ERR_PATH},
        {"rw/in/.", -ERR_PATH},
        {"rw/gone/new", -ERR_FILE_NOT_FOUND},
        {":gone/new", -ERR_FILE_NOT_FOUND},
    };
    struct lab *l = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_INIT;
        int rc = save(l, rows[i].rest, true, &err);
        if (rc != rows[i].rc) {
            fail_msg("%s: %d %s", rows[i].rest, rc, err.text);
        }
    }
    expect_file(l, "ro/old", "old");
    assert_int_equal(count_of(l, "ro"), 1);
}

static void reading_needs_no_mark(void **state)
{
    struct lab *l = *state;
    struct err err = ERR_INIT;
    static const char *const good[] = {"ro/old", "rw/old"};
    static const char *const bad[] = {"rw/link", "rw/way/old", "ro", "ro/../rw/old"};
    uint64_t size = 0;
    int fd = -1;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CLEANUP_FREE char *path = lab_path(l, good[i]);
        assert_int_equal(local_file_open(l->dirs, path, &fd, &size, &err), 0);
        assert_int_equal(size, 3);
        close(fd);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CLEANUP_FREE char *path = lab_path(l, bad[i]);
        assert_int_equal(local_file_open(l->dirs, path, &fd, &size, &err), -ERR_PATH);
    }
    assert_int_equal(local_file_open(l->dirs, "old", &fd, &size, &err), 0);
    close(fd);
    assert_int_equal(local_file_open("", "old", &fd, &size, &err), -ERR_PATH);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_says_where),
        CASE(a_new_file_appears_whole),
        CASE(an_old_one_stays_unless_it_is_to_go),
        CASE(nothing_else_is_written),
        CASE(reading_needs_no_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
