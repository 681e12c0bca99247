/*
 * The promises about memory (tests/lib/heap.h): a failed allocation of a size from outside is
 * reported as an error; one of our own sizes ends the process with a line of log and a status of
 * its own.
 */
#include <setjmp.h>
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
#include "common/io/json.h"
#include "common/text.h"
#include "proto/codec.h"
#include "tests/lib/heap.h"

#define TEXT "a text that somebody has sent"

static void a_buffer_without_memory_reports_and_is_as_it_was(void **state)
{
    struct buf b;
    struct err err = ERR_INIT;
    char big[1000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    buf_init(&b, 4096);
    assert_int_equal(buf_add_str(&b, TEXT, &err), 0);
    heap_fail(0);
    assert_int_equal(buf_add(&b, big, sizeof(big), &err), -ERR_NO_MEMORY);
    assert_true(heap_failed());
    assert_int_equal(b.len, strlen(TEXT));
    assert_string_equal(buf_cstr(&b), TEXT);
    heap_fail(0);
    assert_int_equal(buf_printf(&b, &err, "%s", big), -ERR_NO_MEMORY);
    assert_string_equal(buf_cstr(&b), TEXT);
    heap_end();
    assert_int_equal(buf_add(&b, big, sizeof(big), &err), 0);
    buf_finish(&b);
}

/* Fills a message so that every list has two entries. */
static void fill_lists(struct msg *m, const struct msg_schema *s)
{
    static const struct view two[] = {{"one", 3}, {"two", 3}};
    memset(m, 0, sizeof(*m));
    m->type = s->type;
    for (size_t i = 0; i < s->field_count; i++) {
        if (s->fields[i].type == FIELD_LIST) {
            *(struct view_list *)(void *)((char *)m + s->fields[i].offset) =
                (struct view_list){two, 2};
        }
    }
}

static void messages_without_memory_are_reported_and_nobodys_fault(void **state)
{
    size_t failures = 0;
    for (size_t i = 0; i < msg_schema_count; i++) {
        const struct msg_schema *s = &msg_schemas[i];
        enum msg_link link = (s->links & MSG_LINK_W) != 0 ? MSG_LINK_W : MSG_LINK_A;
        struct msg sent;
        struct msg got;
        struct err err = ERR_INIT;
        struct buf wire;
        buf_init(&wire, LIMIT_FRAME);
        fill_lists(&sent, s);
        heap_fail(0);
        assert_int_equal(msg_encode(&wire, &sent, &err), -ERR_NO_MEMORY);
        heap_end();
        assert_int_equal(wire.len, 0);
        assert_int_equal(msg_encode(&wire, &sent, &err), 0);
        bool failed = true;
        for (size_t nth = 0; failed; nth++) {
            heap_fail(nth);
            int rc = msg_decode(link, wire.data, wire.len, &got, &err);
            heap_end();
            failed = heap_failed();
            failures += failed;
            assert_int_equal(rc, failed ? -ERR_NO_MEMORY : 0);
            assert_int_equal(got.type, failed ? MSG_NONE : s->type);
            msg_finish(&got);
        }
        buf_finish(&wire);
    }
    assert_true(failures > 0);
}

static void json_without_memory_is_not_called_broken(void **state)
{
    static const char text[] = "{\"a\": [1, \"two\", {\"three\": null}]}";
    struct err err = ERR_INIT;
    size_t failures = 0;
    for (bool failed = true; failed; failures += failed) {
        cJSON *json = NULL;
        err = (struct err)ERR_INIT;
        heap_fail(failures);
        int rc = json_parse(text, sizeof(text) - 1, 1000, 10, &json, NULL, &err);
        failed = heap_failed();
        heap_end();
        assert_int_equal(rc, failed ? -ERR_NO_MEMORY : 0);
        assert_int_equal(json == NULL, failed);
        assert_int_equal(failed, strstr(err.text, "no memory") != NULL);
        cJSON_Delete(json);
    }
    assert_true(failures > 5);
    cJSON *json = NULL;
    assert_int_equal(json_parse("{", 1, 1000, 10, &json, NULL, &err), -ERR_INVALID);
}

/* ---- allocations that end the process -------------------------------------------------------- */

static void array(void)
{
    free(alloc_array(2, 3));
}

static void copy(void)
{
    free(alloc_strdup(TEXT));
}

static void copy_of_view(void)
{
    free(alloc_viewdup(view_of(TEXT)));
}

static void text(void)
{
    struct buf b;
    buf_init(&b, 4096);
    text_add(&b, view_of(TEXT), 1000, false);
    buf_finish(&b);
}

static void text_as_string(void)
{
    struct buf b;
    buf_init(&b, 4096);
    text_cstr(&b);
    buf_finish(&b);
}

static int run_without_memory(void (*act)(void), char *said, size_t size)
{
    int out[2];
    int status;
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        heap_fail_any(0);
        act();
        _exit(0);
    }
    close(out[1]);
    ssize_t n = read(out[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void sizes_of_our_own_end_the_process_and_say_why(void **state)
{
    static void (*const acts[])(void) = {array, copy, copy_of_view, text, text_as_string};
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        char said[256];
        assert_int_equal(run_without_memory(acts[i], said, sizeof(said)), ALLOC_EXIT_CODE);
        assert_non_null(strstr(said, "out of memory"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_without_memory_reports_and_is_as_it_was),
        cmocka_unit_test(messages_without_memory_are_reported_and_nobodys_fault),
        cmocka_unit_test(json_without_memory_is_not_called_broken),
        cmocka_unit_test(sizes_of_our_own_end_the_process_and_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
