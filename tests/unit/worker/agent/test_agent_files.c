/*
 * File operations: reading, writing and listing, and what they refuse.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "proto/codec.h"

static struct msg_start file_op(struct fixture *f, enum op_kind kind, const char *path)
{
    struct msg_start s = agent_code(&f->link, "", "");
    s.kind = kind;
    s.path = view_of(path);
    return s;
}

static struct agent_result *read_file(struct fixture *f, const char *path, uint64_t offset,
                                      uint64_t length)
{
    struct msg_start s = file_op(f, OP_FILE_READ, path);
    s.offset = offset;
    s.length = length;
    return run_start(f, &s);
}

static struct agent_result *write_file(struct fixture *f, const char *path, const char *text,
                                       uint64_t mode, uint64_t flags)
{
    struct msg_start s = file_op(f, OP_FILE_WRITE, path);
    s.data = view_of(text);
    s.mode = mode;
    s.flags = flags;
    return run_start(f, &s);
}

/* "type path size" per line */
static char *list_files(struct fixture *f, const char *path, uint64_t flags, uint64_t length)
{
    struct msg_start s = file_op(f, OP_FILE_LIST, path);
    s.flags = flags;
    s.length = length;
    struct agent_result *r = run_start(f, &s);
    assert_status(r, OP_STATUS_OK);
    char *lines = alloc_strdup("");
    size_t count = 0;
    for (size_t at = 0; at < r->out_len; count++) {
        struct view payload;
        struct msg m;
        struct err err = ERR_INIT;
        size_t used = 0;
        assert_int_equal(
            frame_next(r->out + at, r->out_len - at, LIMIT_PATH * 2, &payload, &used, &err), 1);
        assert_int_equal(msg_decode(MSG_LINK_A, payload.data, payload.len, &m, &err), 0);
        char *more = alloc_printf("%s%s %.*s %d\n", lines, file_type_name(m.entry.type),
                                  VIEW_ARG(m.entry.path), (int)m.entry.size);
        free(lines);
        lines = more;
        at += used;
    }
    assert_int_equal(r->last.file_size, count);
    return lines;
}

static char *in_workspace(struct fixture *f, const char *name)
{
    return alloc_printf("%s/%s", f->agent.workspace, name);
}

static void what_is_written_is_read(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = write_file(f, "a/b/c.txt", "hello", 0, 0);
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->last.file_size, 5);
    r = read_file(f, "a/b/c.txt", 0, 0);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "hello");
    assert_int_equal(r->last.file_size, 5);
    assert_int_equal(r->last.file_type, FILE_TYPE_FILE);
    assert_false(r->last.truncated);
    r = read_file(f, "a/b/c.txt", 1, 3);
    assert_string_equal(r->out, "ell");
    assert_true(r->last.truncated);
    assert_int_equal(r->last.file_size, 5);
    r = read_file(f, "a/b/c.txt", 2, 3);
    assert_string_equal(r->out, "llo");
    assert_false(r->last.truncated);
    r = read_file(f, "a/b/c.txt", 50, 3);
    assert_status(r, OP_STATUS_OK);
    assert_string_equal(r->out, "");
    r = write_file(f, "a/b/c.txt", " more", 0, OP_FLAG_APPEND);
    assert_int_equal(r->last.file_size, 10);
    r = run(f, "bash", "cat $HOME/a/b/c.txt; stat -c ' %a %u' $HOME/a/b/c.txt | tr -d '\\n'");
    char *expected = alloc_printf("hello more 644 %u", (unsigned)f->agent.user);
    assert_string_equal(r->out, expected);
    free(expected);
    char *path = in_workspace(f, "a/b/c.txt");
    assert_string_equal(read_file(f, path, 0, 0)->out, "hello more");
    free(path);
}

static void modes_are_set_or_kept(void **state)
{
    struct fixture *f = fixture_of(state);
    struct stat st;
    char *path = in_workspace(f, "script.sh");
    write_file(f, "script.sh", "echo hi", 0755, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    write_file(f, "script.sh", "echo again", 0, 0); /* keeps the mode */
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    write_file(f, "script.sh", "echo again", 0600, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    free(path);
}

static void megabytes_are_written_and_read(void **state)
{
    struct fixture *f = fixture_of(state);
    size_t size = 8u << 20;
    char *text = alloc_array(size + 1, 1);
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)('a' + i % 26);
    }
    struct agent_result *r = write_file(f, "large", text, 0, 0);
    assert_int_equal(r->last.file_size, size);
    r = read_file(f, "large", 0, 0);
    assert_int_equal(r->out_len, size);
    assert_memory_equal(r->out, text, size);
    free(text);
}

static void assert_fails(struct agent_result *r, int code, const char *part)
{
    if (r->last.fail_code != (uint64_t)code) {
        print_error("%s\n", r->message);
    }
    assert_status(r, OP_STATUS_FAILED);
    assert_int_equal(r->last.fail_code, code);
    assert_contains(r->message, part);
}

static void what_is_no_file_is_refused_and_says_why(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash",
        "cd; mkfifo fifo; mkdir -p dir locked; ln -s loop loop; echo x > file\n"
        "chmod 000 locked");
    assert_fails(read_file(f, "absent", 0, 0), ERR_FILE_NOT_FOUND, "absent");
    assert_fails(read_file(f, "fifo", 0, 0), ERR_PATH, "not a regular file");
    assert_fails(read_file(f, "/dev/zero", 0, 10), ERR_PATH, "/dev/zero");
    assert_fails(read_file(f, "dir", 0, 0), ERR_PATH, "is a directory");
    assert_fails(read_file(f, "loop", 0, 0), ERR_PATH, "loop");
    assert_fails(read_file(f, "file/x", 0, 0), ERR_PATH, "file/x");
    assert_fails(read_file(f, "", 0, 0), ERR_FILE_NOT_FOUND, "");
    assert_fails(write_file(f, "dir", "x", 0, 0), ERR_PATH, "is a directory");
    assert_fails(write_file(f, "dir/", "x", 0, 0), ERR_PATH, "names a directory");
    assert_fails(write_file(f, "", "x", 0, 0), ERR_PATH, "empty path");
    assert_fails(write_file(f, "fifo", "x", 0, 0), ERR_PATH, "not a regular file");
    assert_fails(write_file(f, "fifo", "x", 0, OP_FLAG_APPEND), ERR_PATH, "not a regular file");
    assert_fails(write_file(f, "file/x/y", "x", 0, 0), ERR_PATH, "file");
    assert_fails(write_file(f, "loop", "x", 0, 0), ERR_PATH, "loop");
    assert_fails(write_file(f, "/proc/nothing", "x", 0, 0), ERR_FILE_NOT_FOUND, "/proc/nothing");
    struct msg_start s = file_op(f, OP_FILE_LIST, "file");
    assert_fails(run_start(f, &s), ERR_PATH, "is not a directory");
    s = file_op(f, OP_FILE_LIST, "absent");
    assert_fails(run_start(f, &s), ERR_FILE_NOT_FOUND, "absent");
    if (geteuid() == 0) {
        /* the agent is root; the process of the operation is not */
        assert_fails(read_file(f, "/etc/shadow", 0, 0), ERR_DENIED, "/etc/shadow");
        assert_fails(write_file(f, "/etc/cloister-test", "x", 0, 0), ERR_DENIED, "/etc");
    }
    assert_fails(read_file(f, "locked/x", 0, 0), ERR_DENIED, "locked");
    char *name = alloc_array(400, 1);
    memset(name, 'n', 300);
    assert_fails(write_file(f, name, "x", 0, 0), ERR_PATH, "nnn");
    free(name);
    run(f, "bash", "cd; chmod 700 locked; ls -A");
    assert_null(strstr(f->r.out, ".cloister-")); /* no temporary file is left */
    run(f, "bash", "cd; rm -r fifo dir loop file locked");
}

static void links_are_followed(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash",
        "cd; mkdir real; echo old > real/target; ln -s real/target link\n"
        "ln -s nowhere/new dangling; ln -s real realdir");
    assert_string_equal(read_file(f, "link", 0, 0)->out, "old\n");
    assert_status(write_file(f, "link", "new", 0, 0), OP_STATUS_OK);
    assert_string_equal(run(f, "bash", "cd; readlink link; cat real/target")->out,
                        "real/target\nnew");
    assert_status(write_file(f, "dangling", "made", 0, 0), OP_STATUS_OK);
    assert_string_equal(read_file(f, "nowhere/new", 0, 0)->out, "made");
    assert_status(write_file(f, "realdir/other", "o", 0, 0), OP_STATUS_OK);
    char *list = list_files(f, "real", 0, 0);
    assert_string_equal(list, "file other 1\nfile target 3\n");
    free(list);
    run(f, "bash", "cd; rm -r real link nowhere dangling realdir");
}

static void directories_are_listed_in_order_up_to_a_limit(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash",
        "cd; mkdir -p l/b/deep l/a; echo 1 > l/b/x; echo 22 > l/b/deep/y; touch l/c l/.h\n"
        "ln -s /usr l/up; mkfifo l/z; printf n > $'l/\\xff'");
    char *list = list_files(f, "l", 0, 0);
    assert_contains(list, "file .h 0\ndirectory a ");
    assert_contains(list, "\nfile c 0\nsymlink up 4\nother z 0\nfile \xff 1\n");
    assert_null(strstr(list, "deep"));
    free(list);
    list = list_files(f, "l", OP_FLAG_RECURSIVE, 0);
    assert_contains(list, " b/deep ");
    assert_contains(list, "\nfile b/deep/y 3\nfile b/x 2\nfile c 0\nsymlink up 4\n");
    assert_null(strstr(list, "up/"));
    free(list);
    list = list_files(f, "l", OP_FLAG_RECURSIVE, 2);
    assert_true(f->r.last.truncated);
    assert_contains(list, "file .h 0\ndirectory a ");
    free(list);
    list = list_files(f, "l/a", OP_FLAG_RECURSIVE, 0);
    assert_string_equal(list, "");
    assert_false(f->r.last.truncated);
    free(list);
    run(f, "bash", "cd; rm -r l; mkdir many; cd many; seq -w 1 11000 | xargs touch");
    list = list_files(f, "many", 0, 0);
    assert_int_equal(f->r.last.file_size, LIMIT_ENTRIES);
    assert_true(f->r.last.truncated);
    assert_int_equal(strncmp(list, "file 00001 0\nfile 00002 0\n", 26), 0);
    assert_contains(list, "file 10000 0\n");
    free(list);
    list = list_files(f, "", 0, 0); /* the workspace itself */
    assert_contains(list, "directory many ");
    free(list);
    run(f, "bash", "rm -r many; cd");
}

static void files_are_written_while_code_runs(void **state)
{
    struct fixture *f = fixture_of(state);
    /* if the file waited for the end of the code, both would wait for ever */
    struct msg_start busy =
        agent_code(&f->link, "bash", "until [ -e beside ]; do sleep 0.01; done");
    const char *op = busy.op.data;
    start_only(f, &busy, 0);
    struct agent_result *r = write_file(f, "beside", "x", 0, 0);
    assert_status(r, OP_STATUS_OK);
    assert_status(follow(f, op), OP_STATUS_OK);
}

static void a_read_can_be_cancelled(void **state)
{
    struct fixture *f = fixture_of(state);
    run(f, "bash", "head -c 3000000 /dev/zero > ~/zeros");
    struct msg_start s = file_op(f, OP_FILE_READ, "zeros");
    const char *op = s.op.data;
    start_only(f, &s, 0); /* it stops after the first bytes, because they are not acknowledged */
    cancel(f, op, OP_STOP_CANCEL, false);
    struct agent_result *r = follow(f, op);
    assert_status(r, OP_STATUS_CANCELLED);
    assert_true(r->out_len < 3000000);
}

/* Writes one piece of a file; with `text` NULL its pieces are dropped. */
static struct agent_result *write_part(struct fixture *f, const char *path, const char *word,
                                       uint64_t offset, const char *text, uint64_t flags)
{
    struct view words[] = {view_of(word)};
    struct msg_start s = file_op(f, OP_FILE_WRITE, path);
    s.data = view_of(text);
    s.offset = offset;
    s.args = (struct view_list){words, word != NULL ? 1 : 0};
    s.flags = OP_FLAG_PART | flags;
    return run_start(f, &s);
}

static void pieces_become_a_file_in_one_step(void **state)
{
    struct fixture *f = fixture_of(state);
    write_file(f, "p/target", "old", 0600, 0);
    assert_status(write_part(f, "p/target", "abc", 0, "one ", 0), OP_STATUS_OK);
    assert_status(read_file(f, "p/target", 0, 0), OP_STATUS_OK);
    assert_string_equal(f->r.out, "old");
    struct agent_result *r = write_part(f, "p/target", "abc", 4, "two", OP_FLAG_LAST);
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->last.file_size, 7);
    read_file(f, "p/target", 0, 0);
    assert_string_equal(f->r.out, "one two");
    run(f, "bash", "stat -c %a p/target; ls -A p");
    assert_string_equal(f->r.out, "600\ntarget\n");
}

static void pieces_that_do_not_fit_are_refused(void **state)
{
    struct fixture *f = fixture_of(state);
    const char *const words[] = {NULL, "", "../x", "a b", "abcdefghijklmnopqrstuvwxyz0123456789"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct agent_result *r = write_part(f, "q/target", words[i], 0, "x", OP_FLAG_LAST);
        assert_status(r, OP_STATUS_FAILED);
        assert_int_equal(r->last.fail_code, ERR_INVALID);
    }
    /* without the first piece, with a gap, with the first one twice: all pieces are dropped */
    assert_status(write_part(f, "q/target", "abc", 4, "x", 0), OP_STATUS_FAILED);
    assert_status(write_part(f, "q/target", "abc", 0, "x", 0), OP_STATUS_OK);
    assert_status(write_part(f, "q/target", "abc", 2, "x", 0), OP_STATUS_FAILED);
    assert_status(write_part(f, "q/target", "abc", 0, "x", 0), OP_STATUS_OK);
    assert_status(write_part(f, "q/target", "abc", 0, "x", 0), OP_STATUS_FAILED);
    assert_status(write_part(f, "q/target", "abc", 0, "x", 0), OP_STATUS_OK);
    assert_status(write_part(f, "q/target", "abc", 0, NULL, OP_FLAG_DROP), OP_STATUS_OK);
    assert_status(write_part(f, "q/target", "abc", 0, NULL, OP_FLAG_DROP), OP_STATUS_OK);
    run(f, "bash", "ls -A q");
    assert_string_equal(f->r.out, "");
    /* a link in its place is not followed */
    run(f, "bash", "ln -s ../elsewhere q/.cloister-abc.tmp");
    assert_status(write_part(f, "q/target", "abc", 0, "x", 0), OP_STATUS_FAILED);
    run(f, "bash", "ls elsewhere q/target 2>&1 | grep -c .; rm -r q");
    assert_string_equal(f->r.out, "2\n"); /* both error messages */
}

static void a_changed_file_has_another_stamp(void **state)
{
    struct fixture *f = fixture_of(state);
    write_file(f, "stamped", "one", 0, 0);
    uint64_t first = read_file(f, "stamped", 0, 1)->last.file_stamp;
    assert_true(first != 0);
    assert_int_equal(read_file(f, "stamped", 1, 2)->last.file_stamp, first);
    write_file(f, "stamped", "two", 0, 0);
    uint64_t second = read_file(f, "stamped", 0, 0)->last.file_stamp;
    assert_true(second != first);
    run(f, "bash", "printf x | dd of=stamped conv=notrunc status=none");
    uint64_t third = read_file(f, "stamped", 0, 0)->last.file_stamp;
    assert_true(third != second);
    run(f, "bash",
        "cp -p stamped as; printf y | dd of=stamped conv=notrunc status=none; "
        "touch -r as stamped; rm as");
    assert_true(read_file(f, "stamped", 0, 0)->last.file_stamp != third);
}

/* Files in /proc report a size of 0. */
static void a_file_that_lies_about_its_size_is_read(void **state)
{
    struct fixture *f = fixture_of(state);
    struct agent_result *r = read_file(f, "/proc/self/status", 0, 10);
    assert_status(r, OP_STATUS_OK);
    assert_int_equal(r->out_len, 10);
    assert_int_equal(r->last.truncated, 1);
    assert_true(r->last.file_size > 10);
    r = read_file(f, "/proc/self/status", 0, 1u << 20);
    assert_int_equal(r->last.truncated, 0);
    assert_int_equal(r->last.file_size, r->out_len);
    write_file(f, "ten", "0123456789", 0, 0);
    r = read_file(f, "ten", 0, 10);
    assert_int_equal(r->last.truncated, 0);
    assert_int_equal(r->last.file_size, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(modes_are_set_or_kept),
        cmocka_unit_test(megabytes_are_written_and_read),
        cmocka_unit_test(what_is_no_file_is_refused_and_says_why),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(directories_are_listed_in_order_up_to_a_limit),
        cmocka_unit_test(files_are_written_while_code_runs),
        cmocka_unit_test(a_read_can_be_cancelled),
        cmocka_unit_test(pieces_become_a_file_in_one_step),
        cmocka_unit_test(pieces_that_do_not_fit_are_refused),
        cmocka_unit_test(a_changed_file_has_another_stamp),
        cmocka_unit_test(a_file_that_lies_about_its_size_is_read),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
