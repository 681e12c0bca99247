/*
 * Channels as a hostile agent uses them, credit in both directions, and the end in every state.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "tests/unit/worker/door/door_lab.h"

static const char *const rules[] = {"127.0.0.1:PORT", "own", "localhost:PORT", "own", NULL};
static const char tunnel[] = "CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n";

static int setup(void **state)
{
    struct lab *l = lab_create(rules, "", "");
    l->leads_to = "127.0.0.1";
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    lab_destroy(*state);
    return 0;
}

/* ---- what is malformed ----------------------------------------------------------------------- */

static void a_channel_that_there_is_not_is_malformed(void **state)
{
    struct lab *l = *state;
    assert_int_equal(lab_data(l, 1, "x"), -ERR_PROTOCOL);
    assert_int_equal(lab_credit(l, 1, 1), -ERR_PROTOCOL);
    assert_int_equal(lab_close(l, 1, true), -ERR_PROTOCOL);
    assert_int_equal(lab_open(l, 0), -ERR_PROTOCOL);
    assert_int_equal(lab_open(l, 3), 0);
    assert_int_equal(lab_open(l, 3), -ERR_PROTOCOL);
    assert_int_equal(lab_open(l, 2), -ERR_PROTOCOL);
    struct msg m = {.type = MSG_RUNNING};
    struct err err = ERR_INIT;
    assert_int_equal(door_take(l->door, &m, &err), -ERR_PROTOCOL);
}

static void more_than_the_credit_is_malformed(void **state)
{
    struct lab *l = *state;
    assert_int_equal(lab_open(l, 1), 0);
    assert_int_equal(lab_credit(l, 1, 1), -ERR_PROTOCOL); /* it has all there can be */
    l->deaf = true;
    assert_int_equal(lab_open(l, 2), 0);
    CLEANUP_FREE char *ask = alloc_printf("CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", l->port);
    assert_int_equal(lab_data(l, 2, ask), 0);
    assert_int_equal(lab_bytes(l, 2, LIMIT_DOOR_WINDOW - strlen(ask)), 0);
    assert_int_equal(lab_data(l, 2, "x"), -ERR_PROTOCOL);
}

static void too_many_channels_are_malformed(void **state)
{
    struct lab *l = *state;
    for (uint64_t i = 1; i <= LIMIT_DOOR_CHANNELS; i++) {
        assert_int_equal(lab_open(l, i), 0);
    }
    assert_int_equal(lab_open(l, LIMIT_DOOR_CHANNELS + 1), -ERR_PROTOCOL);
    assert_int_equal(lab_close(l, 5, true), 0);
    assert_int_equal(lab_open(l, LIMIT_DOOR_CHANNELS + 2), 0); /* its place is free at once */
}

static void nothing_is_said_after_the_end(void **state)
{
    struct lab *l = *state;
    lab_ask(l, 1, tunnel);
    assert_int_equal(lab_close(l, 1, false), 0);
    assert_int_equal(lab_data(l, 1, "x"), -ERR_PROTOCOL);
    assert_int_equal(lab_close(l, 1, false), -ERR_PROTOCOL);
    assert_int_equal(lab_close(l, 1, true), 0);
    /* it is over, and this has crossed the message that says so */
    assert_int_equal(lab_close(l, 1, true), 0);
    assert_int_equal(lab_data(l, 1, "x"), 0);
    assert_int_equal(lab_credit(l, 1, LIMIT_DOOR_WINDOW), 0);
}

static void a_head_without_end_is_answered(void **state)
{
    struct lab *l = *state;
    assert_int_equal(lab_open(l, 1), 0);
    assert_int_equal(lab_data(l, 1, "GET http://a/ HTTP/1.1\r\n"), 0);
    for (int i = 0; i < 20 && l->channels[1].closed == 0; i++) {
        CLEANUP_FREE char *line = alloc_printf("A%d: %01000d\r\n", i, i);
        assert_int_equal(lab_data(l, 1, line), 0);
    }
    lab_until_closed(l, 1);
    assert_non_null(strstr(lab_said(l, 1), "400 cloister: "));
}

/* ---- credit ---------------------------------------------------------------------------------- */

static bool has_window(const struct lab *l)
{
    return l->channels[1].said.len == LIMIT_DOOR_WINDOW;
}

static size_t expected_more;

static bool has_more(const struct lab *l)
{
    return l->channels[1].said.len == LIMIT_DOOR_WINDOW + expected_more;
}

static void a_server_is_read_within_the_agents_credit(void **state)
{
    struct lab *l = *state;
    size_t len = 4 * (size_t)LIMIT_DOOR_WINDOW;
    CLEANUP_FREE char *much = alloc_array(len, 1);
    lab_ask(l, 1, tunnel);
    lab_until_said(l, 1, "200 ");
    lab_serve(l, much, len);
    lab_until(l, has_window);
    lab_turns(l, 50);
    assert_true(has_window(l));
    expected_more = 1000;
    assert_int_equal(lab_credit(l, 1, 1000), 0);
    lab_until(l, has_more);
    lab_turns(l, 50);
    assert_true(has_more(l));
    assert_int_equal(lab_credit(l, 1, LIMIT_DOOR_WINDOW), 0);
    expected_more += LIMIT_DOOR_WINDOW;
    lab_until(l, has_more);
}

static bool has_all_credit(const struct lab *l)
{
    return l->channels[1].credit >= 3 * (size_t)LIMIT_DOOR_WINDOW;
}

/* The agent has credit for what it has not said for longer than it has said something. */
static bool has_some_credit(const struct lab *l)
{
    return l->channels[1].credit > expected_more;
}

static void the_agent_has_credit_for_what_the_server_takes(void **state)
{
    struct lab *l = *state;
    lab_ask(l, 1, tunnel);
    lab_until_said(l, 1, "200 ");
    size_t said = 0;
    expected_more = 0;
    while (!has_all_credit(l)) {
        lab_until(l, has_some_credit);
        size_t more = l->channels[1].credit - expected_more;
        expected_more = l->channels[1].credit;
        assert_int_equal(lab_bytes(l, 1, more), 0); /* within it, so it is taken */
        said += more;
    }
    assert_true(said >= 3 * (size_t)LIMIT_DOOR_WINDOW);
}

/* ---- many, and the end ----------------------------------------------------------------------- */

static void a_flood_of_others_does_not_cut_a_good_one(void **state)
{
    struct lab *l = *state;
    lab_ask(l, 1, tunnel);
    lab_until_said(l, 1, "200 ");
    for (uint64_t i = LAB_CHANNELS + 1; i < 3000; i++) {
        assert_int_equal(lab_open(l, i), 0);
        if (i % 3 == 0) {
            assert_int_equal(lab_data(l, i, "GET nonsense\r\n\r\n"), 0);
        } else if (i % 3 == 1) {
            CLEANUP_FREE char *ask = alloc_printf("CONNECT localhost:%u HTTP/1.1\r\n\r\n", l->port);
            assert_int_equal(lab_data(l, i, ask), 0);
        }
        assert_int_equal(lab_close(l, i, true), 0);
        if (i % 100 == 0) {
            lab_turns(l, 1);
        }
    }
    assert_int_equal(lab_data(l, 1, "still here"), 0);
    lab_until_heard(l, "still here");
    lab_serve(l, "and so am I", 11);
    lab_until_said(l, 1, "and so am I");
    assert_int_equal(l->channels[1].closed, 0);
}

static bool both_ended(const struct lab *l)
{
    return l->ended == 1 && l->channels[1].closed == 1;
}

static void a_program_that_says_nothing_more_is_still_answered(void **state)
{
    struct lab *l = *state;
    lab_ask(l, 1, tunnel);
    lab_until_said(l, 1, "200 ");
    assert_int_equal(lab_data(l, 1, "all"), 0);
    assert_int_equal(lab_close(l, 1, false), 0);
    lab_until_heard(l, "all");
    lab_until(l, both_ended); /* the server of this test closes when it has heard the end */
}

static void a_program_that_ends_before_it_asked_is_no_more(void **state)
{
    struct lab *l = *state;
    assert_int_equal(lab_open(l, 1), 0);
    assert_int_equal(lab_data(l, 1, "CONN"), 0);
    assert_int_equal(lab_close(l, 1, false), 0);
    assert_int_equal(l->channels[1].closed, 1);
}

static void a_lost_stream_ends_all_and_the_next_begins_anew(void **state)
{
    struct lab *l = *state;
    lab_ask(l, 1, tunnel); /* one that is connected, … */
    lab_until_said(l, 1, "200 ");
    assert_int_equal(lab_open(l, 2), 0); /* … one without a head, … */
    lab_ask(l, 3, tunnel);               /* … one whose address is being looked up */
    door_cut(l->door);
    assert_int_equal(l->channels[1].closed + l->channels[2].closed + l->channels[3].closed, 0);
    lab_turns(l, 20);
    lab_ask(l, 1, tunnel);
    assert_int_equal(lab_data(l, 1, "again"), 0);
    lab_until_heard(l, "again");
}

/* Teardown ends it in each state, and the loop has to become empty. */
static void a_door_ends_while_names_are_looked_up(void **state)
{
    struct lab *l = *state;
    lab_ask(l, 1, tunnel);
    lab_ask(l, 2, "CONNECT localhost:PORT HTTP/1.1\r\n\r\n");
    assert_int_equal(lab_open(l, 3), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_channel_that_there_is_not_is_malformed),
        TEST(more_than_the_credit_is_malformed),
        TEST(too_many_channels_are_malformed),
        TEST(nothing_is_said_after_the_end),
        TEST(a_head_without_end_is_answered),
        TEST(a_server_is_read_within_the_agents_credit),
        TEST(the_agent_has_credit_for_what_the_server_takes),
        TEST(a_flood_of_others_does_not_cut_a_good_one),
        TEST(a_program_that_says_nothing_more_is_still_answered),
        TEST(a_program_that_ends_before_it_asked_is_no_more),
        TEST(a_lost_stream_ends_all_and_the_next_begins_anew),
        TEST(a_door_ends_while_names_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
