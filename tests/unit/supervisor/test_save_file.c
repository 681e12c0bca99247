/* save_file: what it says when it fails, and that the loop does not wait for the disk. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "tests/unit/supervisor/client.h"

#define TO(local_path) "{'sandbox_id':'sb1','path':'f','local_path':'" local_path "'}"
#define ELSEWHERE      TO("/elsewhere")
#define WAIT_MS        30000

static pthread_t loop_thread;
static atomic_size_t removals;
static atomic_bool removed_on_loop;
static char top[64];

/* Takes the place of libc's in this program. */
int unlinkat(int dir, const char *name, int flags)
{
    int rc = (int)syscall(SYS_unlinkat, dir, name, flags);
    if (pthread_equal(pthread_self(), loop_thread)) {
        removed_on_loop = true;
    }
    removals++;
    return rc;
}

static int save_setup(void **state)
{
    snprintf(top, sizeof(top), "/tmp/cloister-save-XXXXXX");
    assert_non_null(mkdtemp(top));
    CLEANUP_FREE char *dirs = alloc_printf("%s:rw", top);
    setenv("CLOISTER_LOCAL_FILES", dirs, 1);
    client_setup(state);
    unsetenv("CLOISTER_LOCAL_FILES");
    client_tool(*state, "create_sandbox", "{}");
    loop_thread = pthread_self();
    removals = 0;
    removed_on_loop = false;
    return 0;
}

static int save_teardown(void **state)
{
    client_teardown(state);
    return dir_remove(top, NULL);
}

/* Runs the loop once, waiting a little for an event. */
static void turn(struct client *c, uint64_t until_ms)
{
    struct pollfd loop = {.fd = uv_backend_fd(&c->loop), .events = POLLIN};
    if (clock_ms() > until_ms) {
        fail_msg("nothing happened within %d ms", WAIT_MS);
    }
    if (uv_run(&c->loop, UV_RUN_NOWAIT) != 0) {
        poll(&loop, 1, 10);
    }
}

/* Sends the call; returns when it reads from the sandbox, or has an answer. */
static void begin_save(struct client *c, const char *arguments)
{
    size_t before = c->count;
    uint64_t until_ms = clock_ms() + WAIT_MS;
    client_call(c, false, "save_file", arguments);
    while (c->fleet->pending_count == 0 && c->count == before) {
        turn(c, until_ms);
    }
}

static const cJSON *end_save(struct client *c, size_t before)
{
    uint64_t until_ms = clock_ms() + WAIT_MS;
    while (c->count == before) {
        assert_int_equal(c->fleet->pending_count, 0); /* it asks for nothing more */
        turn(c, until_ms);
    }
    assert_false(removed_on_loop);
    assert_int_equal(c->count, before + 1);
    return at(client_last(c), "result");
}

/* The sandbox has answered: the call's result. */
static const cJSON *answer_save(struct client *c)
{
    size_t before = c->count;
    begin_save(c, TO("out"));
    assert_int_equal(c->fleet->pending_count, 1);
    fake_answer(c->fleet, 0);
    return end_save(c, before);
}

static const cJSON *fail_save(struct client *c, const char *arguments, const char *code)
{
    size_t before = c->count;
    begin_save(c, arguments);
    const cJSON *result = end_save(c, before);
    assert_failure(result, code, "local_path: ");
    return result;
}

static bool is_empty(void)
{
    return rmdir(top) == 0 && mkdir(top, 0700) == 0;
}

static void a_file_is_saved(void **state)
{
    struct client *c = *state;
    char text[8] = "";
    fake_set_output(c->fleet, "piece", 5);
    c->fleet->end.file_size = 5;
    const cJSON *result = answer_save(c);
    assert_null(at(result, "isError"));
    assert_int_equal(number_at(result, "structuredContent.size"), 5);
    CLEANUP_FREE char *path = alloc_printf("%s/out", top);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof(text), file), 5);
    assert_string_equal(text, "piece");
    fclose(file);
}

static void what_fails_is_removed_off_the_loop(void **state)
{
    struct client *c = *state;
    c->fleet->fail_code = ERR_GONE;
    c->fleet->fail_text = "the sandbox has ended";
    c->fleet->fail_hint = "make another";
    const cJSON *result = answer_save(c);
    assert_failure(result, "sandbox_not_found", "ended");
    assert_string_equal(text_at(result, "structuredContent.error.hint"), "make another");

    fake_set_output(c->fleet, "", 0);
    c->fleet->end.status = OP_STATUS_FAILED;
    c->fleet->end.fail_code = ERR_FILE_NOT_FOUND;
    c->fleet->end.error_message = view_of("there is no f");
    assert_failure(answer_save(c), "file_not_found", "there is no f");

    fake_set_output(c->fleet, "", 0);
    c->fleet->end.file_size = 5; /* more than there is */
    assert_failure(answer_save(c), "internal", "changed");
    fake_set_output(c->fleet, "short", 5);
    c->fleet->end.file_size = 4; /* less: it would never end */
    assert_failure(answer_save(c), "internal", "changed");

    fake_set_output(c->fleet, "", 0);
    c->fleet->end.file_size = UINT64_C(1) << 31;
    result = answer_save(c);
    assert_failure(result, "too_large", "1073741824");
    assert_non_null(strstr(text_at(result, "structuredContent.error.hint"), "split"));

    assert_int_equal(removals, 5);
    assert_true(is_empty());
}

static void cancel_save(struct client *c)
{
    client_send(c,
                "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':"
                "'call-%zu'}}",
                c->calls - 1);
}

static void what_is_cancelled_is_removed_off_the_loop(void **state)
{
    struct client *c = *state;
    begin_save(c, TO("out"));
    cancel_save(c);
    fake_answer(c->fleet, 0);
    client_call(c, false, "save_file", TO("out"));
    cancel_save(c); /* while the pool works on it */
    uint64_t until_ms = clock_ms() + WAIT_MS;
    while (removals < 2) {
        turn(c, until_ms);
    }
    fail_save(c, ELSEWHERE, "path_invalid"); /* the others are over when this is */
    assert_int_equal(removals, 2);
    assert_int_equal(c->fleet->pending_count, 0);
    assert_false(removed_on_loop);
    assert_true(is_empty());
}

static void a_hint_helps_where_it_fits(void **state)
{
    struct client *c = *state;
    CLEANUP_FREE char *path = alloc_printf("%s/dir", top);
    assert_int_equal(mkdir(path, 0700), 0);
    const cJSON *result = fail_save(c, TO("new/x"), "file_not_found");
    assert_non_null(strstr(text_at(result, "structuredContent.error.message"), "directory new"));
    assert_non_null(strstr(text_at(result, "structuredContent.error.hint"), "--local-files"));
    result = fail_save(c, ELSEWHERE, "path_invalid");
    assert_non_null(strstr(text_at(result, "structuredContent.error.hint"), "--local-files"));
    result = fail_save(c, TO("dir"), "path_invalid");
    assert_non_null(strstr(text_at(result, "structuredContent.error.hint"), "another local_path"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, save_setup, save_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_file_is_saved),
        TEST(what_fails_is_removed_off_the_loop),
        TEST(what_is_cancelled_is_removed_off_the_loop),
        TEST(a_hint_helps_where_it_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
