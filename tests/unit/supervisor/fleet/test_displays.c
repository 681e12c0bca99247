/* Displays are read before callers are told that the code has ended: once, within limits, whatever
 * the agent sends and whichever process dies meanwhile. */
#include "tests/unit/supervisor/fleet/call_lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "proto/codec.h"
#include "supervisor/calls/displays.h"

#define ITEMS_MAX LIMIT_LIST

/* An OUTPUT's lists, encoded. */
struct lists {
    struct buf bytes;
    size_t display_ends[ITEMS_MAX], file_ends[ITEMS_MAX];
    struct view displays[ITEMS_MAX], files[ITEMS_MAX];
    size_t display_count, file_count;
};

static void lists_init(struct lists *l)
{
    memset(l, 0, sizeof(*l));
    buf_init(&l->bytes, 8u << 20);
}

static size_t encode(struct lists *l, const struct msg *m)
{
    assert_int_equal(msg_encode(&l->bytes, m, NULL), 0);
    return l->bytes.len;
}

static void add_display(struct lists *l, uint64_t number, const char *mime, const char *path,
                        uint64_t size)
{
    struct msg m = {.type = MSG_DISPLAY};
    m.display.number = number;
    m.display.mime = view_of(mime);
    m.display.path = view_of(path);
    m.display.size = size;
    l->display_ends[l->display_count++] = encode(l, &m);
}

/* Adds a changed file, after the displays. */
static void add_file(struct lists *l, const char *path, enum file_type type, uint64_t size)
{
    struct msg m = {.type = MSG_ENTRY};
    m.entry.path = view_of(path);
    m.entry.type = type;
    m.entry.size = size;
    l->file_ends[l->file_count++] = encode(l, &m);
}

static void cut(const struct lists *l, const size_t *ends, size_t count, size_t *from,
                struct view *ret)
{
    for (size_t i = 0; i < count; i++) {
        ret[i] = view_bytes(l->bytes.data + *from, ends[i] - *from);
        *from = ends[i];
    }
}

/* Ends the code with these lists. */
static void end_with(struct lists *l)
{
    struct msg m = output(OP_DONE, "text", w.out_from);
    size_t from = 0;
    cut(l, l->display_ends, l->display_count, &from, l->displays);
    cut(l, l->file_ends, l->file_count, &from, l->files);
    m.output.displays = (struct view_list){l->displays, l->display_count};
    m.output.files = (struct view_list){l->files, l->file_count};
    reply_with(0, &m, NULL);
    memset(l->bytes.data, 0xee, l->bytes.len); /* the outcome must not borrow from the message */
    buf_finish(&l->bytes);
}

/* The outcome of the first caller, as text. */
struct seen {
    unsigned times;
    enum op_state state;
    char text[4000];
    size_t kept, displays, files;
    bool files_more;
};

static void on_seen(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                    const char *hint)
{
    struct seen *s = arg;
    (void)err, (void)hint;
    assert_int_equal(rc, 0);
    s->times++;
    s->state = o->state;
    s->text[0] = '\0';
    s->kept = 0;
    s->displays = o->display_count;
    s->files = o->file_count;
    s->files_more = o->files_more;
    for (size_t i = 0; i < o->display_count; i++) {
        const struct fleet_display *d = &o->displays[i];
        size_t at = strlen(s->text);
        snprintf(s->text + at, sizeof(s->text) - at, "%d %s %s %d %.*s;", (int)d->number, d->mime,
                 d->path, (int)d->size, d->data.len < 20 ? (int)d->data.len : 3,
                 d->data.len > 0 ? d->data.data : "");
        s->kept += d->data.len;
    }
    for (size_t i = 0; i < o->file_count; i++) {
        size_t at = strlen(s->text);
        snprintf(s->text + at, sizeof(s->text) - at, "%.*s %d;", VIEW_ARG(o->files[i].path),
                 (int)o->files[i].size);
    }
}

static void begin_code(char id[FLEET_ID_SIZE], struct seen *s)
{
    const struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of("1"), .keep_bytes = 1000};
    memset(s, 0, sizeof(*s));
    executions_begin(w.host.executions, &w.s, &op, id);
    executions_await(w.host.executions, "me", id, FLEET_WAIT_FOR_EVER, on_seen, s);
}

static void ask_again(const char *id, struct seen *s)
{
    memset(s, 0, sizeof(*s));
    executions_await(w.host.executions, "me", id, 0, on_seen, s);
    turn();
    assert_int_equal(s->times, 1);
}

/* Answers the pending read of a file. */
static void answer_read(const char *path, const char *bytes, size_t len, uint64_t file_size)
{
    assert_true(w.out && w.is_start);
    assert_int_equal(w.start.kind, OP_FILE_READ);
    assert_true(view_is(w.start.path, path));
    struct msg m = output(OP_DONE, "", 0);
    m.output.out = view_bytes(bytes, len);
    m.output.file_size = file_size;
    reply_with(0, &m, NULL);
}

static void what_is_small_is_read_before_anybody_is_told(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s, other;
    struct lists l;
    begin_code(id, &s);
    lists_init(&l);
    add_display(&l, 1, "text/plain", "/d/1.txt", 4);
    add_display(&l, 1, "image/png", "/d/1.png", 3);
    add_display(&l, 2, "image/png", "/d/2.png", DISPLAYS_IMAGE_MAX + 1);
    add_display(&l, 3, "text/html", "/d/3.html", DISPLAYS_TEXT_MAX + 1);
    add_file(&l, "plot.png", FILE_TYPE_FILE, 7);
    end_with(&l);
    assert_int_equal(s.times, 0);
    ask_again(id, &other); /* it has not ended for any caller */
    assert_int_equal(other.state, OP_RUNNING);
    answer_read("/d/1.png", "png", 3, 3); /* pictures are read first */
    answer_read("/d/1.txt", "text", 4, 4);
    assert_false(w.out);
    assert_int_equal(s.times, 1);
    assert_string_equal(s.text, "1 text/plain /d/1.txt 4 text;1 image/png /d/1.png 3 png;"
                                "2 image/png /d/2.png 716801 ;3 text/html /d/3.html 131073 ;"
                                "plot.png 7;");
    w.state = SANDBOX_CLOSED;
    ask_again(id, &other);
    assert_string_equal(other.text, s.text);
    assert_int_equal(other.state, OP_DONE);
    turn();
}

static void what_cannot_be_read_is_a_name(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s;
    struct lists l;
    begin_code(id, &s);
    lists_init(&l);
    for (uint64_t i = 1; i <= 4; i++) {
        add_display(&l, i, "image/png", "/d/x.png", 3);
    }
    end_with(&l);
    answer_read("/d/x.png", "12", 2, 9); /* the file has grown, and is cut */
    struct msg m = output(OP_DONE, "", 0);
    m.output.status = OP_STATUS_FAILED;
    m.output.fail_code = ERR_FILE_NOT_FOUND;
    reply_with(0, &m, NULL);
    answer_read("/d/x.png", "four", 4, 4); /* the file has grown, and is complete */
    reply_error(ERR_BUSY);
    assert_int_equal(s.times, 1);
    assert_string_equal(s.text, "1 image/png /d/x.png 3 ;2 image/png /d/x.png 3 ;"
                                "3 image/png /d/x.png 4 four;4 image/png /d/x.png 3 ;");
    turn();
}

static void a_worker_may_die_in_between(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s;
    struct lists l;
    begin_code(id, &s);
    lists_init(&l);
    add_display(&l, 1, "image/png", "/d/1.png", 3);
    add_display(&l, 2, "image/png", "/d/2.png", 3);
    end_with(&l);
    answer_read("/d/1.png", "one", 3, 3);
    lose_worker();
    assert_int_equal(s.times, 0);
    resume();
    answer_read("/d/2.png", "two", 3, 3);
    assert_int_equal(s.times, 1);
    assert_string_equal(s.text, "1 image/png /d/1.png 3 one;2 image/png /d/2.png 3 two;");
    turn();
}

static void a_sandbox_that_is_closed_ends_it(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s;
    struct lists l;
    begin_code(id, &s);
    lists_init(&l);
    add_display(&l, 1, "image/png", "/d/1.png", 3);
    add_display(&l, 2, "image/png", "/d/2.png", 3);
    end_with(&l);
    w.state = SANDBOX_CLOSING;
    w.s.reason = (char *)(uintptr_t) "gone";
    call_cancel_all(&w.s);
    assert_int_equal(s.times, 1);
    assert_int_equal(s.state, OP_DONE);
    assert_string_equal(s.text, "1 image/png /d/1.png 3 ;2 image/png /d/2.png 3 ;");
    reply_with(-ERR_IO, NULL, NULL); /* the request that was pending */
    turn();
}

static void an_outcome_does_not_wait_for_a_read_for_ever(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s;
    struct lists l;
    begin_code(id, &s);
    lists_init(&l);
    add_display(&l, 1, "image/png", "/d/1.png", 3);
    end_with(&l);
    uint64_t begin_ms = clock_ms();
    while (s.times == 0) { /* the read is not answered meanwhile */
        uv_run(&w.loop, UV_RUN_ONCE);
    }
    assert_true(clock_ms() - begin_ms >= DISPLAYS_WAIT_MS - 100);
    assert_string_equal(s.text, "1 image/png /d/1.png 3 ;");
    answer_read("/d/1.png", "one", 3, 3); /* too late: an outcome never changes */
    struct seen other;
    ask_again(id, &other);
    assert_string_equal(other.text, s.text);
    turn();
}

static void nonsense_is_left_out(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s;
    struct lists l;
    begin_code(id, &s);
    lists_init(&l);
    static const char *const mimes[] = {"",          "png",        "image/",
                                        "/png",      "image/p ng", "image/p\"ng",
                                        "Image/png", "a/b/c",      "image/p\nng"};
    for (size_t i = 0; i < sizeof(mimes) / sizeof(mimes[0]); i++) {
        add_display(&l, 5, mimes[i], "/d/1.png", 0);
    }
    add_display(&l, 5, "image/png", "relative.png", 0);
    add_display(&l, 5, "image/png", "", 0);
    add_display(&l, 5, "image/png", "/d/good.png", 0);
    add_display(&l, 4, "image/png", "/d/backwards.png", 0);
    struct msg m = {.type = MSG_PING};
    l.display_ends[l.display_count++] = encode(&l, &m); /* a message of another type */
    assert_int_equal(buf_add_str(&l.bytes, "\xc1garbage", NULL), 0);
    l.display_ends[l.display_count++] = l.bytes.len;
    add_file(&l, "/etc/passwd", FILE_TYPE_FILE, 1);
    add_file(&l, "", FILE_TYPE_FILE, 1);
    add_file(&l, "directory", FILE_TYPE_DIRECTORY, 1);
    add_file(&l, "bad\xff", FILE_TYPE_FILE, 3);
    l.file_ends[l.file_count++] = l.bytes.len; /* empty */
    end_with(&l);
    assert_int_equal(s.times, 1);
    assert_string_equal(s.text, "5 image/png /d/good.png 0 ;bad\xff 3;");
    turn();
}

static void as_much_is_read_as_may_be_kept(void **state)
{
    (void)state;
    char id[FLEET_ID_SIZE];
    struct seen s;
    struct lists l;
    CLEANUP_FREE char *bytes = alloc_array(DISPLAYS_MAX, 1);
    memset(bytes, 'x', DISPLAYS_MAX);
    begin_code(id, &s);
    lists_init(&l);
    for (uint64_t i = 0; i < ITEMS_MAX; i++) { /* each claims to be small */
        add_display(&l, i + 1, "image/png", "/d/x.png", 1);
    }
    end_with(&l);
    unsigned reads = 0;
    for (; w.out; reads++) {
        answer_read("/d/x.png", bytes, 100000, 100000);
    }
    assert_int_equal(s.times, 1);
    assert_int_equal(reads, DISPLAYS_READ_MAX);
    assert_int_equal(s.kept, DISPLAYS_MAX / 100000 * 100000);
    assert_int_equal(s.displays, ITEMS_MAX);

    begin_code(id, &s);
    lists_init(&l);
    for (uint64_t i = 0; i < 100; i++) {
        add_display(&l, i + 1, "image/png", "/d/x.png", 300000);
    }
    for (uint64_t i = 0; i < 101; i++) {
        add_file(&l, "f", FILE_TYPE_FILE, i);
    }
    end_with(&l);
    for (reads = 0; w.out; reads++) {
        answer_read("/d/x.png", bytes, 300000, 300000);
    }
    assert_int_equal(reads, 5);
    assert_int_equal(s.kept, 1500000);
    assert_int_equal(s.files, LIMIT_CHANGED);
    assert_true(s.files_more);
    turn();
}

static void an_earlier_servers_displays_are_read_again(void **state)
{
    (void)state;
    struct seen s;
    struct lists l;
    struct msg_op_info info = {
        .op = view_of("op1"), .kind = OP_EVAL, .state = OP_DONE, .language = view_of("python")};
    executions_adopt(w.host.executions, &w.s, &info);
    memset(&s, 0, sizeof(s));
    executions_await(w.host.executions, "me", "op1", FLEET_WAIT_FOR_EVER, on_seen, &s);
    lists_init(&l);
    add_display(&l, 1, "image/png", "/d/1.png", 3);
    end_with(&l);
    answer_read("/d/1.png", "one", 3, 3);
    assert_int_equal(s.times, 1);
    assert_string_equal(s.text, "1 image/png /d/1.png 3 one;");
    turn();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_small_is_read_before_anybody_is_told),
        TEST(what_cannot_be_read_is_a_name),
        TEST(a_worker_may_die_in_between),
        TEST(a_sandbox_that_is_closed_ends_it),
        TEST(an_outcome_does_not_wait_for_a_read_for_ever),
        TEST(nonsense_is_left_out),
        TEST(as_much_is_read_as_may_be_kept),
        TEST(an_earlier_servers_displays_are_read_again),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
