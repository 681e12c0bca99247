/* Results: output, displays and files of code within the limit of size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/results/stream.h"
#include "tests/unit/supervisor/client.h"

#define MIB (1u << 20)
#define PNG "\x89PNG\r\n\x1a\n"

/* ---- streams -------------------------------------------------------------------------------- */

static struct result_stream stream(const char *head, const char *tail, uint64_t total, bool over)
{
    return (struct result_stream){
        .execution = "ex",
        .argument = "offset",
        .head = view_of(head),
        .tail = view_of(tail),
        .total = total,
        .over = over,
    };
}

static void check_summary(const struct result_stream *s, size_t cost, const char *expected,
                          uint64_t next, bool cut)
{
    struct result_part p;
    result_stream_summary(&p, s, cost);
    assert_string_equal(text_cstr(&p.text), expected);
    assert_int_equal(p.next, next);
    assert_int_equal(p.cut, cut);
    result_part_finish(&p);
}

static void a_summary_is_head_and_tail(void **state)
{
    (void)state;
    struct result_stream s = stream("all of it", "", 9, true);
    check_summary(&s, 9, "all of it", 9, false);
    check_summary(&s, 6,
                  "all \n[... 3 bytes left out; get_execution with execution_id ex and offset 4 "
                  "shows them ...]\nit",
                  4, true);
    s = stream("", "", 0, true);
    check_summary(&s, 6, "", 0, false);
    s = stream("begin", "the end", 1000, true);
    check_summary(&s, 30, "begin\n[... 988 bytes left out; they are not kept ...]\nthe end", 5,
                  true);
    check_summary(&s, 6,
                  "begi\n[... 994 bytes left out, 6 of which are kept: get_execution with "
                  "execution_id ex and offset 4 shows those ...]\nnd",
                  4, true);
    s = stream("a\xe2\x82", "\xac\xff\xff!", 100,
               true); /* characters torn on both sides of the gap */
    check_summary(&s, 60,
                  "a\n[... 96 bytes left out, 2 of which are kept: get_execution with execution_id "
                  "ex and offset 1 shows those ...]\n\xef\xbf\xbd\xef\xbf\xbd!",
                  1, true);
    s = stream("so far\xe2\x82", "", 8, false); /* half a character waits for its rest */
    check_summary(&s, 60, "so far", 6, false);
}

/* Reads every page from the beginning, at most `cost` each, and from every other byte. */
static void check_pages(const struct result_stream *s, size_t cost)
{
    uint64_t next = 0;
    uint64_t shown = 0;
    struct result_part p;
    uint64_t gap = s->tail.len > 0 ? s->total - s->tail.len - s->head.len : 0;
    do {
        result_stream_page(&p, s, next, cost);
        assert_true(p.from >= next || next - p.from < 4);
        assert_true(p.from - next <= gap + 6);
        assert_true(p.text.len <= 3 * cost);
        shown += p.next - p.from;
        assert_true(p.next > next || !p.cut);
        next = p.next;
        result_part_finish(&p);
    } while (p.cut);
    assert_int_equal(next, s->total);
    assert_true(shown + gap + 6 >= s->total && shown <= s->total - gap);
    for (uint64_t from = 0; from <= s->total; from += from == 5 && s->total > 90 ? 60 : 1) {
        result_stream_page(&p, s, from, cost);
        assert_true(p.from + 4 > from && p.next >= p.from && p.next <= s->total);
        result_part_finish(&p);
    }
}

static void pages_go_through_all_that_is_kept(void **state)
{
    (void)state;
    static const char *const heads[] = {"", "abcdef", "a\xe2\x82\xac\xe2\x82", "\xff\xfe\xfd",
                                        "\n\"\\"};
    static const char *const tails[] = {"", "xyz", "\x82\xac!", "\xac", "\xf0\x9f\x98\x80\xf0\x9f"};
    for (size_t h = 0; h < sizeof(heads) / sizeof(heads[0]); h++) {
        for (size_t t = 0; t < sizeof(tails) / sizeof(tails[0]); t++) {
            size_t kept = strlen(heads[h]) + strlen(tails[t]);
            struct result_stream s =
                stream(heads[h], tails[t], kept + (tails[t][0] != '\0' ? 50 : 0), true);
            for (size_t cost = 12; cost < 40; cost += 9) {
                check_pages(&s, cost);
            }
        }
    }
}

static void the_end_of_a_text_is_cut_by_what_it_costs(void **state)
{
    (void)state;
    assert_int_equal(text_fit_end(view_of("abcdef"), 4), 2);
    assert_int_equal(text_fit_end(view_of("abcdef"), 0), 6);
    assert_int_equal(text_fit_end(view_of(""), 4), 0);
    assert_int_equal(text_fit_end(view_of("a\"b\n"), 4), 2);
    assert_int_equal(text_fit_end(view_of("\x01\x01\x01"), 13), 1);
    assert_int_equal(text_fit_end(view_of("\xc3\xa9\xc3\xa9"), 3), 2);
    assert_int_equal(text_fit_end(view_of("\xff\xff\xff"), 7), 1);
    CLEANUP_FREE char *bytes = alloc_array(3000, 1);
    for (unsigned i = 0; i < 3000; i++) {
        bytes[i] = (char)((i * 2654435761u) >> (i % 20));
    }
    for (size_t cost = 0; cost < 3000; cost += 7) {
        struct view v = view_bytes(bytes, 3000);
        size_t from = text_fit_end(v, cost);
        struct view end = view_bytes(bytes + from, 3000 - from);
        assert_true(text_cost(end) <= cost);
        assert_true(from == 0 || text_cost(view_bytes(bytes + from - 1, 3001 - from)) + 6 > cost);
        assert_int_equal(text_char_start(v, from, false), from);
    }
}

/* ---- displays and files --------------------------------------------------------------------- */

/* Sets these for the next outcome; the test keeps the ownership. */
static void set_displays(struct client *c, const struct fleet_display *displays, size_t count)
{
    c->fleet->outcome.displays = displays;
    c->fleet->outcome.display_count = count;
}

static void pictures_are_shown_in_order_and_texts_as_text(void **state)
{
    struct client *c = *state;
    const struct fleet_display displays[] = {
        {1, "text/plain", "/d/1.txt", 9, view_of("<Figure 1>")},
        {1, "image/png", "/d/1.png", 11, view_of(PNG "one")},
        {2, "image/jpeg", "/d/2.jpg", 6, view_of("\xff\xd8\xffjpg")},
        {3, "text/html", "/d/3.html", 12, view_of("<b>table</b>")},
        {3, "text/plain", "/d/3.txt", 5, view_of("table")},
        {4, "text/markdown", "/d/4.md", 7, view_of("# Title")},
        {5, "image/svg+xml", "/d/5.svg", 6, view_of("<svg/>")},
        {6, "image/png", "/d/6.png", 4000000, view_of("")},
        {7, "image/png", "/d/7.png", 9, view_of("not a png")},
        {8, "text/html", "/d/8.html", 300000, view_of("")},
    };
    client_tool(c, "create_sandbox", "{'name':'s'}");
    fake_set_output(c->fleet, "out\n", 4);
    set_displays(c, displays, sizeof(displays) / sizeof(displays[0]));
    c->fleet->end.has_result = true;
    c->fleet->end.result = view_of("42");
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1','sandbox_id':'s'}");
    assert_text(result, "out\ntable\n# Title\n42");
    assert_string_equal(text_at(result, "content.1.type"), "image");
    assert_string_equal(text_at(result, "content.1.mimeType"), "image/png");
    assert_string_equal(text_at(result, "content.1.data"), "iVBORw0KGgpvbmU=");
    assert_string_equal(text_at(result, "content.2.mimeType"), "image/jpeg");
    static const char *const uris[] = {"sandbox://sb1/d/5.svg", "sandbox://sb1/d/6.png",
                                       "sandbox://sb1/d/7.png", "sandbox://sb1/d/8.html"};
    for (int i = 0; i < 4; i++) {
        CLEANUP_FREE char *type = alloc_printf("content.%d.type", 3 + i);
        CLEANUP_FREE char *uri = alloc_printf("content.%d.uri", 3 + i);
        assert_string_equal(text_at(result, type), "resource_link");
        assert_string_equal(text_at(result, uri), uris[i]);
    }
    assert_null(at(result, "content.7"));
    const cJSON *list = at(result, "structuredContent.displays");
    CLEANUP_FREE char *text = cJSON_PrintUnformatted(list);
    assert_string_equal(
        text, "[{\"text/plain\":\"<Figure 1>\",\"image/png\":{\"uri\":\"sandbox://sb1/d/1.png\","
              "\"size\":11}},{\"image/jpeg\":{\"uri\":\"sandbox://sb1/d/2.jpg\",\"size\":6}},"
              "{\"text/html\":\"<b>table</b>\",\"text/plain\":\"table\"},"
              "{\"text/markdown\":\"# Title\"},"
              "{\"image/svg+xml\":{\"uri\":\"sandbox://sb1/d/5.svg\",\"size\":6}},"
              "{\"image/png\":{\"uri\":\"sandbox://sb1/d/6.png\",\"size\":4000000}},"
              "{\"image/png\":{\"uri\":\"sandbox://sb1/d/7.png\",\"size\":9}},"
              "{\"text/html\":{\"uri\":\"sandbox://sb1/d/8.html\",\"size\":300000}}]");
    assert_null(at(result, "structuredContent.displays_truncated"));
}

static void a_value_shown_richly_is_not_shown_twice(void **state)
{
    struct client *c = *state;
    const struct fleet_display displays[] = {
        {1, "text/plain", "/d/1.txt", 4, view_of("a  b")},
        {1, "text/html", "/d/1.html", 4, view_of("<p/>")},
    };
    fake_set_output(c->fleet, "", 0);
    set_displays(c, displays, 2);
    c->fleet->end.has_result = true;
    c->fleet->end.result = view_of("a  b");
    assert_text(client_tool(c, "execute_code", "{'code':'1'}"), "a  b");
}

static void files_are_linked_with_their_type(void **state)
{
    struct client *c = *state;
    const struct fleet_file files[] = {
        {view_of("plot.png"), 1234},
        {view_of("out/t\xc3\xa4st.csv"), 5},
        {view_of("bad\xff.txt"), 6},
    };
    fake_set_output(c->fleet, "", 0);
    c->fleet->outcome.files = files;
    c->fleet->outcome.file_count = 3;
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    CLEANUP_FREE char *text = cJSON_PrintUnformatted(at(result, "structuredContent.files"));
    assert_string_equal(text,
                        "[{\"path\":\"plot.png\",\"size\":1234,\"mime\":\"image/png\","
                        "\"uri\":\"sandbox://sb1/workspace/plot.png\"},"
                        "{\"path\":\"out/t\xc3\xa4st.csv\",\"size\":5,\"mime\":\"text/csv\","
                        "\"uri\":\"sandbox://sb1/workspace/out/t%C3%A4st.csv\"},"
                        "{\"path\":\"bad\xef\xbf\xbd.txt\",\"size\":6,\"mime\":\"text/plain\"}]");
    assert_null(at(result, "structuredContent.files_truncated"));
    assert_string_equal(text_at(result, "content.0.uri"), "sandbox://sb1/workspace/plot.png");
    assert_string_equal(text_at(result, "content.0.mimeType"), "image/png");
    assert_int_equal(cJSON_GetArraySize(at(result, "content")), 2);

    /* the sandbox is gone: what is kept is shown, and there are no links */
    const struct fleet_display displays[] = {{1, "image/png", "/d/1.png", 11, view_of(PNG "one")},
                                             {2, "image/png", "/d/2.png", 99, view_of("")}};
    set_displays(c, displays, 2);
    fake_lose(c->fleet, "sb1");
    result = client_tool(c, "get_execution", "{'execution_id':'ex-1'}");
    assert_text(result, "[display 2 of type image/png, 99 bytes, is not kept]");
    assert_string_equal(text_at(result, "content.1.type"), "image");
    assert_null(at(result, "content.2"));
    assert_null(at(result, "structuredContent.files.0.uri"));
    assert_null(at(result, "structuredContent.displays.0.image/png.uri"));
}

static void a_throw_away_sandbox_shows_its_plots_and_links_nothing(void **state)
{
    struct client *c = *state;
    const struct fleet_display displays[] = {{1, "image/png", "/d/1.png", 11, view_of(PNG "one")}};
    const struct fleet_file files[] = {{view_of("plot.png"), 1234}};
    fake_set_output(c->fleet, "", 0);
    set_displays(c, displays, 1);
    c->fleet->outcome.files = files;
    c->fleet->outcome.file_count = 1;
    const cJSON *result = client_tool(c, "create_run_close", "{'code':'1'}");
    assert_string_equal(text_at(result, "content.0.type"), "image");
    assert_null(at(result, "content.1"));
    assert_string_equal(text_at(result, "structuredContent.files.0.path"), "plot.png");
    assert_null(at(result, "structuredContent.files.0.uri"));
}

static void links_are_few_and_the_rest_is_counted(void **state)
{
    struct client *c = *state;
    struct fleet_file files[100];
    struct fleet_display displays[40];
    for (size_t i = 0; i < 100; i++) {
        files[i] = (struct fleet_file){view_of("some/file.txt"), i};
    }
    for (size_t i = 0; i < 40; i++) {
        displays[i] = (struct fleet_display){i, "image/png", "/d/x.png", 999999, view_of("")};
    }
    fake_set_output(c->fleet, "", 0);
    c->fleet->outcome.files = files;
    c->fleet->outcome.file_count = 100;
    c->fleet->outcome.files_more = true;
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_text(result, "[80 more files or displays are not linked here; list_files shows files]");
    assert_int_equal(cJSON_GetArraySize(at(result, "content")), 21);
    assert_true(cJSON_IsTrue(at(result, "structuredContent.files_truncated")));
    assert_int_equal(cJSON_GetArraySize(at(result, "structuredContent.files")), 100);
    set_displays(c, displays, 40);
    result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_text(result, "[120 more files or displays are not linked here; list_files shows files]");
    assert_int_equal(cJSON_GetArraySize(at(result, "content")), 21);
}

/* ---- the bound ------------------------------------------------------------------------------ */

struct nasty {
    char *bytes, *image, *path;
    struct fleet_display displays[LIMIT_LIST];
    struct fleet_file files[100];
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static const char *const stuffs[] = {"\x01", "\xff", "\"", "x", "\n", "\xe2\x82\xac", "\x7f"};

static void fill(char *to, size_t size, const char *stuff)
{
    size_t n = strlen(stuff);
    for (size_t i = 0; i + n <= size; i += n) {
        memcpy(to + i, stuff, n);
    }
}

/* A size of any order of magnitude. */
static size_t some_size(uint64_t *seed, size_t most)
{
    return (size_t)(next_random(seed) % most) >> (next_random(seed) % 12);
}

static void make_nasty(struct nasty *n, struct fleet_outcome *o, struct msg_output *end,
                       uint64_t *seed)
{
    fill(n->bytes, MIB, stuffs[next_random(seed) % 7]);
    fill(n->path, LIMIT_PATH - 60, stuffs[3 + next_random(seed) % 4]);
    memcpy(n->path, "/d/", 3);
    memcpy(n->image, PNG, 8);
    size_t count = some_size(seed, LIMIT_LIST);
    static const char *const mimes[] = {"image/png", "text/html", "text/markdown", "text/plain",
                                        "image/svg+xml"};
    for (size_t i = 0; i < count; i++) {
        size_t kind = next_random(seed) % 5;
        size_t size = some_size(seed, kind == 0 ? 700u << 10 : 128u << 10);
        struct view data = view_bytes(kind == 0 ? n->image : n->bytes, size);
        n->displays[i] =
            (struct fleet_display){i / (1 + kind % 3), mimes[kind], n->path, size, data};
    }
    for (size_t i = 0; i < 100; i++) {
        n->files[i] = (struct fleet_file){view_of(n->path + 1), UINT64_MAX};
    }
    o->displays = n->displays;
    o->display_count = count;
    o->files = n->files;
    o->file_count = next_random(seed) % 101;
    size_t more = next_random(seed) % 2;
    o->out = view_bytes(n->bytes, some_size(seed, 512u << 10));
    o->out_tail = view_bytes(n->bytes, more * some_size(seed, 256u << 10));
    o->out_bytes = o->out.len + o->out_tail.len + more * 5000000000;
    o->err = view_bytes(n->bytes, some_size(seed, 512u << 10));
    o->err_bytes = o->err.len;
    end->status = OP_STATUS_ERROR;
    end->has_result = true;
    end->result = view_bytes(n->bytes, some_size(seed, LIMIT_RESULT));
    end->error_name = view_bytes(n->bytes, some_size(seed, LIMIT_TEXT));
    end->error_message = view_bytes(n->bytes, some_size(seed, LIMIT_RESULT));
    end->traceback = view_bytes(n->bytes, some_size(seed, LIMIT_RESULT));
}

static void no_result_reaches_a_mebibyte(void **state)
{
    struct client *c = *state;
    struct nasty n = {.bytes = alloc_array(MIB, 1),
                      .image = alloc_array(MIB, 1),
                      .path = alloc_array(LIMIT_PATH, 1)};
    uint64_t seed = 20;
    size_t most = 0;
    for (int i = 0; i < 250; i++) {
        fake_set_output(c->fleet, "", 0);
        make_nasty(&n, &c->fleet->outcome, &c->fleet->end, &seed);
        const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
        size_t len = strlen(c->texts[c->count - 1]);
        most = len > most ? len : most;
        assert_true(len < MIB);
        assert_true(utf8_valid(c->texts[c->count - 1], len));
        assert_string_equal(text_at(result, "structuredContent.status"), "error");
    }
    assert_true(most > MIB / 4 * 3); /* otherwise the inputs are too harmless */
    free(n.bytes);
    free(n.image);
    free(n.path);
}

static void a_large_picture_and_long_output_share_the_room(void **state)
{
    struct client *c = *state;
    CLEANUP_FREE char *image = alloc_array(700u << 10, 1);
    CLEANUP_FREE char *text = alloc_array(700u << 10, 1);
    memcpy(image, PNG, 8);
    fill(text, 700u << 10, "x");
    const struct fleet_display displays[] = {
        {1, "image/png", "/d/1.png", 700u << 10, view_bytes(image, 700u << 10)},
        {2, "image/png", "/d/2.png", 700u << 10, view_bytes(image, 700u << 10)},
    };
    fake_set_output(c->fleet, text, 500u << 10);
    set_displays(c, displays, 2);
    const cJSON *result = client_tool(c, "execute_code", "{'code':'1'}");
    assert_true(strlen(c->texts[c->count - 1]) < MIB);
    assert_string_equal(text_at(result, "content.1.type"), "image");
    assert_string_equal(text_at(result, "content.2.uri"), "sandbox://sb1/d/2.png");
    assert_true(strlen(text_at(result, "structuredContent.stdout")) > 10000);
    assert_string_equal(text_at(result, "content.3.uri"), "execution://ex-1/stdout");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, client_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summary_is_head_and_tail),
        cmocka_unit_test(pages_go_through_all_that_is_kept),
        cmocka_unit_test(the_end_of_a_text_is_cut_by_what_it_costs),
        TEST(pictures_are_shown_in_order_and_texts_as_text),
        TEST(a_value_shown_richly_is_not_shown_twice),
        TEST(files_are_linked_with_their_type),
        TEST(a_throw_away_sandbox_shows_its_plots_and_links_nothing),
        TEST(links_are_few_and_the_rest_is_counted),
        TEST(no_result_reaches_a_mebibyte),
        TEST(a_large_picture_and_long_output_share_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
