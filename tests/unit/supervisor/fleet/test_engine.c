/* The choice of a backend, what is kept of the choice, and the progress of long creations. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/place.h"
#include "supervisor/base/image.h"
#include "supervisor/fleet/sandbox/sandbox.h"
#include "supervisor/fleet/state/record.h"
#include "tests/unit/supervisor/fleet/fixture.h"

static void configure(char **field, const char *value)
{
    free(*field);
    *field = alloc_strdup(value);
}

static int setup(void **state)
{
    unsetenv("DOCKER_HOST");
    unsetenv("DOCKER_CONTEXT");
    int rc = fixture_setup(state);
    struct fixture *f = *state;
    configure(&f->config.backend, "auto");
    return rc;
}

/* Opens a sandbox with an image as a client names it. */
static void open_reference(struct fixture *f, const char *image, struct answer *a)
{
    struct fleet_spec spec = {.image = image, .image_is_reference = true, .progress = on_progress};
    answer_init(a);
    fleet_open(f->fleet, "me", &spec, on_info, a);
    wait_times(f, a, 1);
}

/* Reads the record of a sandbox as OPEN; finish it with msg_finish(). */
static void read_record(const struct fixture *f, const char *id, struct msg *ret)
{
    CLEANUP_FREE char *dir = instance_dir(f);
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes/%s/record", dir, id);
    static struct buf frame; /* the message borrows from it */
    struct err err = ERR_INIT;
    struct view payload;
    size_t used;
    buf_finish(&frame);
    buf_init(&frame, LIMIT_FRAME + 4);
    assert_int_equal(file_read(path, &frame, &err), 0);
    assert_true(frame_next(frame.data, frame.len, LIMIT_FRAME, &payload, &used, &err) > 0);
    assert_int_equal(msg_decode(MSG_LINK_W, payload.data, payload.len, ret, &err), 0);
    assert_int_equal(ret->type, MSG_OPEN);
}

static void expect_place(const struct msg *open, const char *text)
{
    CLEANUP_FREE char *place = place_list_text(open->open.place);
    assert_string_equal(place, text);
}

/* ---- the choice ---- */

static void auto_takes_docker_if_an_engine_answers(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct msg m;
    setenv("WORKER_STUB", "docker", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.backend, "docker");
    assert_string_equal(a.image, IMAGE_DOCKER_DEFAULT);
    read_record(f, a.id, &m);
    expect_place(&m, "unix:///stub.sock");
    assert_true(view_is(m.open.runtime, ""));
    assert_true(m.open.pull);
    msg_finish(&m);
    answer_finish(&a);
}

static void an_engine_whose_image_is_in_doubt_is_the_last_choice(void **state)
{
    static const struct {
        const char *behaviour, *backend, *taken;
        bool told;
    } rows[] = {{"docker-doubted", "auto", "oci", true},
                {"docker-doubted-alone", "auto", "docker", false},
                {"docker-doubted", "docker", "docker", false}};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct answer a;
        struct buf log;
        setenv("WORKER_STUB", rows[i].behaviour, 1);
        configure(&f->config.backend, rows[i].backend);
        fixture_log_begin(f);
        fixture_start(f);
        begin_open(f, NULL, NULL, &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, 0);
        assert_string_equal(a.backend, rows[i].taken);
        answer_finish(&a);
        fixture_stop(f);
        fixture_log_end(f, &log);
        check_log(&log, "kept by oci, since docker may have no sandbox: it has no image",
                  rows[i].told);
        buf_finish(&log);
    }
}

static void auto_falls_to_oci_in_order(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.backend, "oci");
    assert_string_equal(a.runtime, "runc");
    assert_string_equal(a.image, "");
    fixture_stop(f);
    setenv("WORKER_STUB", "probe-second", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.runtime, "crun");
    fixture_stop(f);
    setenv("WORKER_STUB", "probe-fails", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "docker: no engine here; runc: it says no; crun: it says"));
    assert_non_null(strstr(a.hint, "systemctl start docker"));
    assert_non_null(strstr(a.hint, "apt install runc"));
    answer_finish(&a);
    fixture_stop(f);
    setenv("WORKER_STUB", "probe-busy", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.hint, "try again later"));
    assert_null(strstr(a.hint, "install")); /* it is there */
}

static void of_runtimes_that_work_the_one_that_enforces_most_is_taken(void **state)
{
    static const struct {
        const char *behaviour, *taken;
    } rows[] = {{"second-enforces-more", "crun"},
                {"first-enforces-more", "runc"},
                {"none-enforces-all", "runc"}};
    struct fixture *f = *state;
    struct answer a;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("WORKER_STUB", rows[i].behaviour, 1);
        fixture_start(f);
        begin_open(f, NULL, NULL, &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, 0);
        assert_string_equal(a.runtime, rows[i].taken);
        answer_finish(&a);
        fixture_stop(f);
    }
}

static void a_probe_whose_worker_dies_before_it_is_asked_is_made_again(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    configure(&f->config.backend, "oci");
    configure(&f->config.runtime, "runc");
    setenv("WORKER_STUB", "hello-crash-once", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    answer_finish(&a);
    unsetenv("WORKER_STUB");
}

static void docker_alone_never_falls_to_oci(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    configure(&f->config.backend, "docker");
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "docker: no engine here"));
    assert_null(strstr(a.err.text, "runc"));
    assert_non_null(strstr(a.hint, "colima start"));
    assert_null(strstr(a.hint, "runc"));
    fixture_stop(f);

    struct msg m;
    setenv("WORKER_STUB", "docker", 1);
    configure(&f->config.engine, "tcp://there:2375");
    configure(&f->config.runtime, "runsc");
    configure(&f->config.image, "debian:12");
    configure(&f->config.pull, "never");
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.backend, "docker");
    assert_string_equal(a.runtime, "runsc");
    assert_string_equal(a.image, "debian:12");
    read_record(f, a.id, &m);
    expect_place(&m, "tcp://there:2375");
    assert_false(m.open.pull);
    msg_finish(&m);
}

static void what_belongs_to_one_backend_decides_for_auto(void **state)
{
    static const struct {
        const char *runtime, *image, *image_dir;
        const char *backend; /* NULL: any automatic one */
    } cases[] = {
        {"", "", "", NULL},        {"crun", "", "", "oci"},        {"", "/srv/root", "", "oci"},
        {"", "./root", "", "oci"}, {"", "python:3", "", "docker"}, {"", "", "/srv", "oci"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        configure(&f->config.runtime, cases[i].runtime);
        configure(&f->config.image, cases[i].image);
        configure(&f->config.image_dir, cases[i].image_dir);
        const struct backend_row *row = config_backend(&f->config);
        assert_true(row == (cases[i].backend ? backend_row_find(cases[i].backend) : NULL));
    }
    /* A runtime named with auto is a runtime of this host, even if there is an engine. */
    setenv("WORKER_STUB", "docker", 1);
    configure(&f->config.runtime, "crun");
    configure(&f->config.image, "");
    configure(&f->config.image_dir, "");
    struct answer a;
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.backend, "oci");
    assert_string_equal(a.runtime, "crun");
}

/* Returns the log of a fleet that makes one sandbox. */
static void capture(struct fixture *f, struct buf *ret)
{
    struct answer a;
    fixture_log_begin(f);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    fixture_stop(f);
    fixture_log_end(f, ret);
    assert_string_equal(a.backend, "oci");
}

static void an_engine_that_was_named_is_not_left_in_silence(void **state)
{
    struct fixture *f = *state;
    struct buf log;
    capture(f, &log);
    assert_true(log.len == 0 || strstr(buf_cstr(&log), "going on without") == NULL);
    buf_finish(&log);
    setenv("DOCKER_HOST", "tcp://nowhere:1", 1);
    capture(f, &log);
    unsetenv("DOCKER_HOST");
    assert_non_null(strstr(buf_cstr(&log), "going on without it: no engine here"));
    buf_finish(&log);
}

/* The stub accepts each name as a backend, so the supervisor only knows this one by its row. */
static void a_row_alone_makes_a_backend_a_candidate(void **state)
{
    struct fixture *f = *state;
    struct fleet_spec network = {.network = true};
    struct answer a;
    struct msg m;
    configure(&f->config.backend, "fake");
    configure(&f->config.engine, "somewhere");
    f->config.packages = true;
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.backend, "fake");
    read_record(f, a.id, &m);
    expect_place(&m, "somewhere");
    assert_int_equal(m.open.packages.len, 0); /* this backend has none */
    msg_finish(&m);
    answer_finish(&a);
    answer_init(&a);
    fleet_open(f->fleet, "me", &network, on_info, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_NETWORK);
    assert_string_equal(a.err.text, "sandboxes of fake have no network");
    answer_finish(&a);
    fixture_stop(f);
    setenv("WORKER_STUB", "probe-fails", 1);
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.hint, backend_row_find("fake")->remedy));
}

static void what_the_chosen_backend_does_not_take_is_told(void **state)
{
    struct fixture *f = *state;
    struct buf log;
    configure(&f->config.pull, "never");
    capture(f, &log);
    assert_non_null(strstr(buf_cstr(&log), "kept by oci, to which this means nothing: --pull"));
    buf_finish(&log);
}

struct survey {
    char text[256];
    bool done;
};

static void on_each(void *arg, const char *backend, const struct msg_probed *p)
{
    struct survey *s = arg;
    size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof(s->text) - used, "%s %.*s %zu %d; ", backend,
             VIEW_ARG(p->runtime), p->tried.count, p->usable);
}

static void on_surveyed(void *arg)
{
    struct survey *s = arg;
    s->done = true;
}

static void the_doctor_sees_every_candidate_and_place(void **state)
{
    struct fixture *f = *state;
    struct survey s = {.text = ""};
    fixture_start(f);
    fleet_doctor(f->fleet, on_each, on_surveyed, &s);
    wait_flag(f, &s.done);
    assert_string_equal(s.text, "docker  1 0; oci runc 0 1; oci crun 0 1; ");
}

/* ---- what is kept of the choice ---- */

static void the_engine_is_known_to_whoever_sweeps(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    CLEANUP_FREE char *path = NULL;
    CLEANUP_BUF struct buf note;
    buf_init(&note, 200);
    setenv("WORKER_STUB", "docker", 1);
    configure(&f->config.engine, "unix:///run/mine.sock");
    fixture_start(f);
    open_one(f, "close-crashes", id);
    close_one(f, id);
    wait_state(f, id, NULL);
    path = alloc_printf("%s/%s", f->sweeps, id);
    assert_int_equal(file_read(path, &note, NULL), 0);
    assert_string_equal(buf_cstr(&note), "docker  unix:///run/mine.sock");
}

/* Writes a record of a sandbox with a place of this kind, and reads it. */
static int load_record_at(const char *dir, uint64_t kind, const char *address, struct err *err)
{
    struct record record;
    CLEANUP_BUF struct buf item;
    CLEANUP_BUF struct buf frames;
    CLEANUP_FREE char *draft = alloc_printf("%s/draft", dir);
    CLEANUP_FREE char *path = alloc_printf("%s/record", dir);
    struct msg place = {.type = MSG_ENGINE_PLACE,
                        .engine_place = {.kind = kind, .address = view_of(address)}};
    buf_init(&item, LIMIT_ITEM);
    buf_init(&frames, LIMIT_FRAME);
    assert_int_equal(msg_encode(&item, &place, err), 0);
    struct view items[] = {view_bytes(item.data, item.len)};
    struct msg open = {.type = MSG_OPEN, .open = {.place = {items, 1}}};
    struct msg whose = {.type = MSG_RECORD};
    assert_int_equal(msg_encode_frame(&frames, &open, err), 0);
    assert_int_equal(msg_encode_frame(&frames, &whose, err), 0);
    assert_int_equal(file_replace(draft, (const char *)frames.data, frames.len, 0600, err), 0);
    assert_int_equal(rename(draft, path), 0);
    int rc = record_load(dir, &record, err);
    if (rc == 0) {
        record_finish(&record);
    }
    unlink(path);
    return rc;
}

static void a_record_that_names_no_place_is_none(void **state)
{
    struct fixture *f = *state;
    struct err err = ERR_INIT;
    assert_int_equal(load_record_at(f->sweeps, PLACE_SOCKET, "/run/engine.sock", &err), 0);
    assert_int_equal(load_record_at(f->sweeps, PLACE_SOCKET, "engine.sock", &err), -ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "/record: place: "));
    assert_int_equal(load_record_at(f->sweeps, 99, "/run/engine.sock", &err), -ERR_PROTOCOL);
    assert_int_equal(load_record_at(f->sweeps, PLACE_NONE, "", &err), -ERR_PROTOCOL);
}

/* ---- images that clients name ---- */

static void a_reference_is_for_engines_only(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    open_reference(f, "python:3.13", &a);
    assert_int_equal(a.rc, -ERR_IMAGE);
    assert_non_null(strstr(a.err.text, "python:3.13"));
    assert_non_null(strstr(a.err.text, "no container engine"));
    fixture_stop(f);
    assert_int_equal(count_entries(f->top), 0);
    setenv("WORKER_STUB", "docker", 1);
    fixture_start(f);
    open_reference(f, "python:3.13", &a);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.image, "python:3.13");
}

/* ---- long creations ---- */

static void progress_of_a_creation_reaches_who_waits_for_it(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_open(f, NULL, "open-progress", &a);
    uint64_t begin_ms = clock_ms();
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    /* The stub makes a step whenever it is asked. The first is told after a second, and the others
     * not sooner than 600 ms after the one before. */
    assert_true(clock_ms() - begin_ms >= 1000 + 3 * 600);
    assert_int_equal(a.steps, 4);
    assert_string_equal(a.step, "step 4");
    assert_int_equal(a.step_done, 4000);
    assert_int_equal(a.step_total, 4000);
    check_run(f, a.id, "echo fine", "fine");
    answer_finish(&a);
}

static void a_quick_creation_tells_nothing(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_open(f, NULL, "open-slow", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    struct answer slow;
    begin_open(f, NULL, "open-progress", &slow);
    wait_count(f, &slow.steps, 1); /* reports to the first one would have come before */
    assert_int_equal(a.steps, 0);
    check_run(f, a.id, "echo fine", "fine");
    fixture_stop(f);
    answer_finish(&a);
    answer_finish(&slow);
}

static void a_creation_can_be_stopped_while_it_is_asked_for_progress(void **state)
{
    static const char *const images[] = {"open-stalls", "open-progress"};
    struct fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        struct answer a;
        fixture_start(f);
        forget_notes(f);
        begin_open(f, NULL, images[i], &a);
        wait_note(f, "progress");
        assert_int_equal(a.times, 0);
        fixture_end_by_itself(f, FLEET_END_CLOSE, NULL);
        assert_int_equal(a.times, 1);
        assert_int_equal(a.rc, -ERR_SHUTTING_DOWN);
        assert_int_equal(count_entries(f->top), 0);
    }
}

static void a_creation_may_last_while_it_moves_and_no_longer(void **state)
{
    struct sandbox_progress n;
    uint64_t now_ms = 5000;
    sandbox_progress_begin(&n, now_ms);
    for (uint64_t number = 1; number <= 20; number++) { /* 19 minutes of progress */
        now_ms += TIME_OPEN_MS - 1000;
        assert_false(sandbox_progress_overdue(&n, now_ms));
        assert_true(sandbox_progress_take(&n, number, now_ms));
        assert_false(sandbox_progress_take(&n, number, now_ms + 500)); /* nothing has changed */
    }
    /* the worker's own timeout is first */
    assert_false(sandbox_progress_overdue(&n, now_ms + TIME_OPEN_MS));
    assert_true(sandbox_progress_overdue(&n, now_ms + TIME_OPEN_MS + 2000));
}

/* A discovery is only repeated after a failure that the engine may have caused. */
static void a_choice_that_fails_is_made_again(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.runtime, "runc");
    setenv("WORKER_STUB", "probe-second", 1); /* another discovery would find crun */
    begin_open(f, NULL, "open-fails", &a);    /* the image caused this failure */
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_IMAGE);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.runtime, "runc");
    begin_open(f, NULL, "open-no-engine", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_string_equal(a.runtime, "crun");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(auto_takes_docker_if_an_engine_answers),
        T(auto_falls_to_oci_in_order),
        T(an_engine_whose_image_is_in_doubt_is_the_last_choice),
        T(of_runtimes_that_work_the_one_that_enforces_most_is_taken),
        T(a_probe_whose_worker_dies_before_it_is_asked_is_made_again),
        T(docker_alone_never_falls_to_oci),
        T(a_choice_that_fails_is_made_again),
        T(what_belongs_to_one_backend_decides_for_auto),
        T(a_row_alone_makes_a_backend_a_candidate),
        T(what_the_chosen_backend_does_not_take_is_told),
        T(an_engine_that_was_named_is_not_left_in_silence),
        T(the_doctor_sees_every_candidate_and_place),
        T(the_engine_is_known_to_whoever_sweeps),
        T(a_record_that_names_no_place_is_none),
        T(a_reference_is_for_engines_only),
        T(progress_of_a_creation_reaches_who_waits_for_it),
        T(a_quick_creation_tells_nothing),
        T(a_creation_can_be_stopped_while_it_is_asked_for_progress),
        T(a_creation_may_last_while_it_moves_and_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
