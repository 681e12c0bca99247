/* upload_file from a directory of the host: a call that ends early leaves no hidden file. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "tests/unit/supervisor/client.h"

#define WAIT_MS 30000

static char top[64];

static int upload_setup(void **state)
{
    snprintf(top, sizeof(top), "/tmp/cloister-upload-XXXXXX");
    assert_non_null(mkdtemp(top));
    CLEANUP_FREE char *path = alloc_printf("%s/f", top);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite("piece", 1, 5, file), 5);
    assert_int_equal(fclose(file), 0);
    setenv("CLOISTER_LOCAL_FILES", top, 1);
    client_setup(state);
    unsetenv("CLOISTER_LOCAL_FILES");
    client_tool(*state, "create_sandbox", "{}");
    return 0;
}

static int upload_teardown(void **state)
{
    client_teardown(state);
    return dir_remove(top, NULL);
}

/* Runs the loop until the sandbox is asked for something, or the call has its answer. */
static const struct fleet_call *next_op(struct client *c, size_t before)
{
    uint64_t until_ms = clock_ms() + WAIT_MS;
    struct pollfd loop = {.fd = uv_backend_fd(&c->loop), .events = POLLIN};
    while (c->fleet->pending_count == 0 && c->count == before) {
        assert_true(clock_ms() < until_ms);
        if (uv_run(&c->loop, UV_RUN_NOWAIT) != 0) {
            poll(&loop, 1, 10);
        }
    }
    return c->fleet->pending_count > 0 ? &c->fleet->last : NULL;
}

static void begin_upload(struct client *c, const char *local)
{
    CLEANUP_FREE char *arguments =
        alloc_printf("{'sandbox_id':'sb1','path':'f','local_path':'%s'}", local);
    client_call(c, false, "upload_file", arguments);
}

static void a_file_comes_in_pieces(void **state)
{
    struct client *c = *state;
    size_t before = c->count;
    begin_upload(c, "f");
    const struct fleet_call *piece = next_op(c, before);
    assert_non_null(piece);
    assert_int_equal(piece->op.kind, OP_FILE_WRITE);
    assert_int_equal(piece->op.flags, OP_FLAG_PART | OP_FLAG_LAST);
    assert_string_equal(piece->data, "piece");
    fake_answer(c->fleet, 0);
    assert_null(next_op(c, before));
    assert_int_equal(number_at(client_last(c), "result.structuredContent.size"), 5);
}

/* The agent may have made the file before it stopped. */
static void a_first_piece_that_is_stopped_is_dropped(void **state)
{
    struct client *c = *state;
    size_t before = c->count;
    begin_upload(c, "f");
    const struct fleet_call *piece = next_op(c, before);
    assert_non_null(piece);
    CLEANUP_FREE char *word = alloc_strdup(piece->args);
    c->fleet->end.status = OP_STATUS_CANCELLED;
    fake_answer(c->fleet, 0);
    const struct fleet_call *drop = next_op(c, before);
    assert_non_null(drop);
    assert_int_equal(drop->op.flags, OP_FLAG_PART | OP_FLAG_DROP);
    assert_string_equal(drop->args, word);
    fake_answer(c->fleet, 0);
    assert_null(next_op(c, before));
    assert_non_null(strstr(text_at(client_last(c), "result.structuredContent.error.message"),
                           "writing f was stopped"));
}

static void what_never_began_leaves_nothing_to_drop(void **state)
{
    struct client *c = *state;
    size_t before = c->count;
    begin_upload(c, "missing");
    assert_null(next_op(c, before));
    assert_failure(at(client_last(c), "result"), "file_not_found", "local_path: ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, upload_setup, upload_teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_file_comes_in_pieces),
        TEST(a_first_piece_that_is_stopped_is_dropped),
        TEST(what_never_began_leaves_nothing_to_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
