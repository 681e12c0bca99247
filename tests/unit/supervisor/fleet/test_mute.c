/* Sandboxes that start without any language: if their image is known to have languages, they are
 * never given out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/fleet/engine/spoken.h"
#include "tests/unit/supervisor/fleet/fixture.h"

static int setup(void **state)
{
    unsetenv("WORKER_STUB_MUTE");
    unsetenv("WORKER_STUB_LATE");
    return fixture_setup(state);
}

static int teardown(void **state)
{
    unsetenv("WORKER_STUB_MUTE");
    unsetenv("WORKER_STUB_LATE");
    return fixture_teardown(state);
}

/* Opens and closes a sandbox, so that the image is known to have languages. */
static void speak(struct fixture *f, const char *image)
{
    char id[FLEET_ID_SIZE];
    open_one(f, image, id);
    close_one(f, id);
    wait_state(f, id, NULL);
}

/* Waits for the end of all sandboxes, including those that clients do not see any more. */
static void wait_for_nothing_left(struct fixture *f)
{
    char path[160];
    char *dir = instance_dir(f);
    snprintf(path, sizeof(path), "%s/sandboxes", dir);
    free(dir);
    wait_entries(f, path, 0);
}

static void one_without_the_languages_of_its_image_is_made_again_unnoticed(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct answer run;
    const char *id;
    struct err err = ERR_INIT;
    fixture_start(f);
    speak(f, "talker");
    setenv("WORKER_STUB_MUTE", "once", 1);
    begin_open(f, "slow", "talker", &a);
    assert_int_equal(fleet_find(f->fleet, "me", "slow", &id, &err), 0);
    begin_run(f, id, "echo at last", &run);
    wait_times(f, &a, 1);
    wait_times(f, &run, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.state, "ready");
    assert_string_equal(a.languages, "python,bash");
    assert_true(out_is(&run, "at last"));
    check_run(f, a.id, "gen", "2");
    answer_finish(&run);
    answer_finish(&a);
    /* The worker that made the first one removed it, so there was nothing to sweep. */
    assert_int_equal(count_entries(f->sweeps), 0);
}

static void one_that_stays_without_fails_and_says_why(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    speak(f, "talker");
    setenv("WORKER_STUB_MUTE", "always", 1);
    begin_open(f, NULL, "talker", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "without any interpreter twice"));
    assert_non_null(strstr(a.err.text, "talker"));
    assert_non_null(strstr(a.hint, "try again"));
    answer_finish(&a);
    wait_for_nothing_left(f);
    unsetenv("WORKER_STUB_MUTE");
    speak(f, "talker");
}

static void an_image_that_never_had_any_is_taken_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    speak(f, "talker");
    setenv("WORKER_STUB_MUTE", "always", 1);
    /* The first is made twice before that is believed, the second is not. */
    for (int i = 0; i < 2; i++) {
        begin_open(f, NULL, "programs-only", &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, 0);
        assert_string_equal(a.languages, "");
        check_run(f, a.id, "gen", i == 0 ? "2" : "1");
        answer_finish(&a);
    }
}

static void the_first_of_an_image_is_not_given_out_without_languages_either(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    setenv("WORKER_STUB_MUTE", "once", 1);
    begin_open(f, NULL, "new", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.languages, "python,bash");
    check_run(f, a.id, "gen", "2");
    answer_finish(&a);
}

static void one_that_cannot_be_removed_fails_and_is_swept(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    fixture_start(f);
    speak(f, "close-fails");
    wait_entries(f, f->sweeps, 1);
    setenv("WORKER_STUB_MUTE", "once", 1);
    begin_open(f, NULL, "close-fails", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_ENGINE);
    assert_non_null(strstr(a.err.text, "could not be removed"));
    answer_finish(&a);
    wait_entries(f, f->sweeps, 2);
    wait_for_nothing_left(f);
}

static void one_that_is_closed_while_it_is_made_again_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct answer closed;
    const char *id;
    struct err err = ERR_INIT;
    fixture_start(f);
    speak(f, "talker");
    /* The same after different numbers of turns of the loop. */
    for (int rounds = 0; rounds < 40; rounds++) {
        setenv("WORKER_STUB_MUTE", "once", 1);
        begin_open(f, "brief", "talker", &a);
        assert_int_equal(fleet_find(f->fleet, "me", "brief", &id, &err), 0);
        for (int i = 0; i < rounds && a.times == 0; i++) {
            uv_run(&f->loop, UV_RUN_ONCE);
        }
        answer_init(&closed);
        fleet_close(f->fleet, id, on_done, &closed);
        wait_times(f, &a, 1);
        wait_times(f, &closed, 1);
        assert_int_equal(closed.rc, 0);
        assert_true(a.rc == 0 || a.rc == -ERR_GONE);
        answer_finish(&a);
        answer_finish(&closed);
        wait_for_nothing_left(f);
    }
}

/* Opens one with this variable set to this value; the log of that in *ret. */
static void open_logged(struct fixture *f, const char *variable, const char *value, struct buf *ret,
                        char id[FLEET_ID_SIZE])
{
    struct answer a;
    fixture_start(f);
    speak(f, "talker");
    setenv(variable, value, 1);
    fixture_log_begin(f);
    begin_open(f, NULL, "talker", &a);
    wait_times(f, &a, 1);
    snprintf(id, FLEET_ID_SIZE, "%s", a.id);
    answer_finish(&a);
    fixture_stop(f);
    fixture_log_end(f, ret);
}

static void why_one_has_no_language_is_in_the_log_each_time(void **state)
{
    struct buf log;
    char id[FLEET_ID_SIZE];
    open_logged(*state, "WORKER_STUB_MUTE", "always", &log, id);
    const char *first = strstr(buf_cstr(&log), " warn  cloister: sandbox started without any "
                                               "language and is created again: /bin: an empty root "
                                               "image=talker sandbox=");
    assert_non_null(first);
    assert_non_null(strstr(first, "language once more: /bin: an empty root image=talker sandbox="));
    buf_finish(&log);
}

static void why_one_had_no_language_at_first_is_in_the_log(void **state)
{
    struct buf log;
    char id[FLEET_ID_SIZE];
    open_logged(*state, "WORKER_STUB_LATE", "/bin: Permission denied", &log, id);
    CLEANUP_FREE char *line = alloc_printf(" warn  cloister: sandbox had no language at first: "
                                           "/bin: Permission denied image=talker sandbox=%s\n",
                                           id);
    assert_non_null(strstr(buf_cstr(&log), line));
    buf_finish(&log);
}

static void images_are_remembered_within_a_bound(void **state)
{
    (void)state;
    struct spoken s = {.count = 0};
    char image[32];
    for (int i = 0; i < SPOKEN_MAX; i++) {
        snprintf(image, sizeof(image), "image-%d", i);
        spoken_note(&s, "oci", image);
    }
    spoken_note(&s, "oci", "image-0"); /* makes it the most recently used */
    assert_int_equal(s.count, SPOKEN_MAX);
    assert_true(spoken_has(&s, "oci", "image-1"));
    assert_false(spoken_has(&s, "docker", "image-1"));
    spoken_note(&s, "docker", "image-1");
    assert_int_equal(s.count, SPOKEN_MAX);
    assert_true(spoken_has(&s, "docker", "image-1"));
    assert_true(spoken_has(&s, "oci", "image-0"));
    assert_false(spoken_has(&s, "oci", "image-1"));
    assert_true(spoken_has(&s, "oci", "image-2"));
    spoken_finish(&s);
    assert_false(spoken_has(&s, "oci", "image-2"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(one_without_the_languages_of_its_image_is_made_again_unnoticed),
        T(one_that_stays_without_fails_and_says_why),
        T(an_image_that_never_had_any_is_taken_as_it_is),
        T(the_first_of_an_image_is_not_given_out_without_languages_either),
        T(one_that_cannot_be_removed_fails_and_is_swept),
        T(one_that_is_closed_while_it_is_made_again_leaves_nothing),
        T(why_one_has_no_language_is_in_the_log_each_time),
        T(why_one_had_no_language_at_first_is_in_the_log),
        cmocka_unit_test(images_are_remembered_within_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
