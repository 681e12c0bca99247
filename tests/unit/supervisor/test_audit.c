/* The audit log: what a line has, which files are taken, and what happens when a disk is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/audit/audit.h"
#include "supervisor/metrics/metrics.h"
#include "tests/lib/fault.h"

#define PATIENCE_MS 60000 /* only a hang takes so long */
#define LINES_MAX   16

static char directory[64];
static char path[96];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/cloister-audit-XXXXXX");
    if (mkdtemp(directory) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/log", directory);
    return 0;
}

static int remove_directory(void **state)
{
    static const char *const names[] = {"log", "log.1", "other"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CLEANUP_FREE char *name = alloc_printf("%s/%s", directory, names[i]);
        (void)unlink(name);
    }
    return rmdir(directory);
}

static struct audit *open_good(bool keep_code)
{
    struct audit *a = NULL;
    struct err err = ERR_INIT;
    int rc = audit_open(path, keep_code, &a, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(rc, 0);
    return a;
}

static void call_with(struct audit *a, const char *tool, struct view code)
{
    const struct audit_call call = {
        .principal = "alice",
        .session = "request",
        .tool = tool,
        .sandbox = "box",
        .execution = "",
        .language = "python",
        .code = code,
        .outcome = "ok",
        .duration_us = 1500,
        .run_ms = 0.5,
        .cpu_ms = -1,
    };
    audit_call(a, &call);
}

static uint64_t figure(struct audit *a, enum metric_id id, size_t label)
{
    audit_measure(a);
    return metrics_get(id, label, 0);
}

static uint64_t failed(struct audit *a)
{
    return figure(a, METRIC_AUDIT_DROPPED, METRIC_DROP_WRITE_FAILED);
}

/* Until the writer has nothing to do. */
static void settle(struct audit *a)
{
    uint64_t until_ms = clock_ms() + PATIENCE_MS;
    while (figure(a, METRIC_AUDIT_QUEUE, 0) > 0) {
        assert_true(clock_ms() < until_ms);
        (void)poll(NULL, 0, 2);
    }
}

/* The file's lines; `kept` has their bytes. */
static size_t read_lines(const char *name, struct buf *kept, char *lines[LINES_MAX])
{
    char part[4096];
    ssize_t n;
    size_t count = 0;
    CLEANUP_FD int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    buf_init(kept, 1 << 20);
    while ((n = read(fd, part, sizeof(part))) > 0) {
        assert_int_equal(buf_add(kept, part, (size_t)n, NULL), 0);
    }
    for (char *at = (char *)(uintptr_t)text_cstr(kept), *end; *at != '\0'; at = end + 1) {
        assert_true(count < LINES_MAX);
        lines[count++] = at;
        end = strchr(at, '\n');
        if (end == NULL) { /* a part of a line */
            break;
        }
        *end = '\0';
    }
    return count;
}

static cJSON *parsed(const char *line)
{
    cJSON *json = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(json_parse(line, strlen(line), 1 << 20, 8, &json, NULL, &err), 0);
    return json;
}

static void a_line_tells_who_did_what_and_no_code(void **state)
{
    CLEANUP_BUF struct buf kept;
    char *lines[LINES_MAX];
    struct stat st;
    struct audit *a = open_good(false);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    call_with(a, "execute_code", view_of("abc"));
    call_with(a, "read_file", view_bytes(NULL, 0));
    settle(a);
    audit_close(a);
    assert_int_equal(read_lines(path, &kept, lines), 2);
    cJSON *line = parsed(lines[0]);
    assert_string_equal(json_get_str(line, "principal"), "alice");
    assert_string_equal(json_get_str(line, "session"), "request");
    assert_string_equal(json_get_str(line, "tool"), "execute_code");
    assert_string_equal(json_get_str(line, "sandbox"), "box");
    assert_string_equal(json_get_str(line, "outcome"), "ok");
    assert_string_equal(json_get_str(line, "code_sha256"),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(json_get(line, "code_bytes")->valueint, 3);
    assert_true(json_get(line, "duration_ms")->valuedouble > 1.49);
    assert_true(json_get(line, "run_ms")->valuedouble > 0.49);
    assert_int_equal(json_get_str(line, "time")[strlen(json_get_str(line, "time")) - 1], 'Z');
    static const char *const absent[] = {"code", "cpu_ms", "execution", "error"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_null(json_get(line, absent[i]));
    }
    cJSON_Delete(line);
    line = parsed(lines[1]);
    assert_null(json_get(line, "code_sha256"));
    cJSON_Delete(line);
}

static void code_is_kept_if_asked_for_and_cut(void **state)
{
    CLEANUP_BUF struct buf kept;
    char *lines[LINES_MAX];
    CLEANUP_FREE char *text = alloc_block(3 * AUDIT_CODE_BYTES);
    memset(text, '"', 3 * AUDIT_CODE_BYTES); /* each takes two bytes in JSON */
    struct audit *a = open_good(true);
    call_with(a, "execute_code", view_of("print('a\nb')"));
    call_with(a, "execute_code", view_bytes(text, 3 * AUDIT_CODE_BYTES));
    settle(a);
    audit_close(a);
    assert_int_equal(read_lines(path, &kept, lines), 2);
    cJSON *line = parsed(lines[0]);
    assert_string_equal(json_get_str(line, "code"), "print('a\nb')");
    assert_null(json_get(line, "code_cut"));
    cJSON_Delete(line);
    line = parsed(lines[1]);
    assert_int_equal(strlen(json_get_str(line, "code")), AUDIT_CODE_BYTES / 2);
    assert_true(cJSON_IsTrue(json_get(line, "code_cut")));
    assert_int_equal(json_get(line, "code_bytes")->valueint, 3 * AUDIT_CODE_BYTES);
    cJSON_Delete(line);
}

static void refused(const char *name, const char *words)
{
    struct audit *a = NULL;
    struct err err = ERR_INIT;
    assert_int_equal(audit_open(name, false, &a, &err), -ERR_CONFIG);
    assert_null(a);
    assert_non_null(strstr(err.text, name));
    assert_non_null(strstr(err.text, words));
}

static void a_file_that_others_could_choose_or_read_is_refused(void **state)
{
    CLEANUP_FREE char *other = alloc_printf("%s/other", directory);
    struct err err = ERR_INIT;
    assert_int_equal(symlink("elsewhere", path), 0);
    refused(path, "symbolic link");
    assert_int_equal(unlink(path), 0);
    refused("/dev/null", "not a file");
    refused(directory, "directory");
    CLEANUP_FREE char *nowhere = alloc_printf("%s/no/log", directory);
    refused(nowhere, "No such file");
    assert_int_equal(mkfifo(other, 0600), 0);
    refused(other, "");
    assert_int_equal(unlink(other), 0);
    struct audit *a = open_good(false);
    audit_close(a);
    static const mode_t bad[] = {0604, 0602, 0620, 0666};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(chmod(path, bad[i]), 0);
        refused(path, "chmod 600");
    }
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(audit_open(path, false, &a, &err), 0);
    audit_close(a);
    if (geteuid() == 0) { /* only root can give a file away */
        assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
        refused(path, "belongs to user 12345");
    }
}

static void a_full_disk_costs_lines_which_are_counted_and_stops_nothing(void **state)
{
    CLEANUP_BUF struct buf kept;
    char *lines[LINES_MAX];
    struct audit *a = open_good(false);
    call_with(a, "one", view_bytes(NULL, 0));
    settle(a);
    fault_set(FAULT_WRITE, ENOSPC, 0, 1000); /* of the first one half is written */
    call_with(a, "two", view_bytes(NULL, 0));
    call_with(a, "three", view_bytes(NULL, 0));
    settle(a);
    assert_true(fault_end() >= 2);
    assert_int_equal(failed(a), 2);
    assert_int_equal(figure(a, METRIC_AUDIT_LINES, 0), 1);
    call_with(a, "four", view_bytes(NULL, 0));
    call_with(a, "five", view_bytes(NULL, 0));
    settle(a);
    assert_int_equal(failed(a), 2);
    audit_close(a);
    size_t count = read_lines(path, &kept, lines);
    static const char *const whole[] = {"one", "four", "five"};
    size_t found = 0;
    struct err err = ERR_INIT;
    assert_int_equal(count, 4); /* with the half of the second */
    for (size_t i = 0; i < count; i++) {
        cJSON *json = NULL;
        if (json_parse(lines[i], strlen(lines[i]), 1 << 20, 8, &json, NULL, &err) == 0) {
            assert_true(found < 3);
            assert_string_equal(json_get_str(json, "tool"), whole[found]);
            found++;
        }
        cJSON_Delete(json);
    }
    assert_int_equal(found, 3);
}

static void a_line_that_does_not_fit_into_the_queue_is_counted(void **state)
{
    CLEANUP_FREE char *text = alloc_block(AUDIT_QUEUE_BYTES + 1);
    memset(text, 'x', AUDIT_QUEUE_BYTES);
    text[AUDIT_QUEUE_BYTES] = '\0';
    struct audit *a = open_good(false);
    call_with(a, text, view_bytes(NULL, 0));
    assert_int_equal(figure(a, METRIC_AUDIT_DROPPED, METRIC_DROP_QUEUE_FULL), 1);
    call_with(a, "small", view_bytes(NULL, 0));
    settle(a);
    assert_int_equal(figure(a, METRIC_AUDIT_LINES, 0), 1);
    audit_close(a);
}

static void half_a_line_of_a_killed_server_is_ended(void **state)
{
    CLEANUP_BUF struct buf kept;
    char *lines[LINES_MAX];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(dprintf(fd, "{\"a\":1}\n{\"b"), 11);
    close(fd);
    struct audit *a = open_good(false);
    call_with(a, "one", view_bytes(NULL, 0));
    call_with(a, "two", view_bytes(NULL, 0));
    settle(a);
    audit_close(a);
    assert_int_equal(read_lines(path, &kept, lines), 4);
    assert_string_equal(lines[1], "{\"b");
    cJSON_Delete(parsed(lines[2]));
    cJSON_Delete(parsed(lines[3]));
}

/* After a rename lines go to a new file as soon as it is there; if it cannot be opened, the old one
 * stays. */
static void a_file_that_was_renamed_is_opened_anew(void **state)
{
    CLEANUP_BUF struct buf kept;
    CLEANUP_BUF struct buf old;
    char *lines[LINES_MAX];
    CLEANUP_FREE char *renamed = alloc_printf("%s/log.1", directory);
    struct audit *a = open_good(false);
    call_with(a, "before", view_bytes(NULL, 0));
    settle(a);
    assert_int_equal(rename(path, renamed), 0);
    assert_int_equal(symlink("log.1", path), 0);
    audit_reopen(a); /* refused: it is a symbolic link */
    call_with(a, "still", view_bytes(NULL, 0));
    settle(a);
    assert_int_equal(unlink(path), 0);
    audit_reopen(a);
    call_with(a, "after", view_bytes(NULL, 0));
    settle(a);
    audit_close(a);
    assert_int_equal(read_lines(renamed, &old, lines), 2);
    assert_non_null(strstr(lines[0], "before"));
    assert_non_null(strstr(lines[1], "still"));
    assert_int_equal(read_lines(path, &kept, lines), 1);
    assert_non_null(strstr(lines[0], "after"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        CASE(a_line_tells_who_did_what_and_no_code),
        CASE(code_is_kept_if_asked_for_and_cut),
        CASE(a_file_that_others_could_choose_or_read_is_refused),
        CASE(a_full_disk_costs_lines_which_are_counted_and_stops_nothing),
        CASE(half_a_line_of_a_killed_server_is_ended),
        CASE(a_line_that_does_not_fit_into_the_queue_is_counted),
        CASE(a_file_that_was_renamed_is_opened_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
