/*
 * The states of an exchange: legal successors, and the result of each event in each state in which
 * a handler can hold one. The invariants are checked inside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "supervisor/web/http/internal.h"
#include "tests/unit/supervisor/web/lab.h"

static void check_moves(const struct sm_state *table, unsigned count, const char *const *expected)
{
    for (unsigned from = 0; from < count; from++) {
        struct sm m;
        sm_init(&m, table, count, from);
        for (unsigned to = 0; to < count; to++) {
            assert_int_equal(sm_may(&m, to), expected[from][to] == '+');
        }
    }
}

static void only_declared_moves_are_possible(void **state)
{
    /* none has lost late over; none whole stream ended */
    static const char *const handlers[] = {".+...", "+.+.+", "...++", "..+.+", "....."};
    static const char *const responses[] = {".++.", "....", "...+", "...."};
    (void)state;
    check_moves(web_handler_states, WEB_HANDLER_STATE_COUNT, handlers);
    check_moves(web_response_states, WEB_RESPONSE_STATE_COUNT, responses);
}

/* ---- state x event ---- */

enum event {
    EVENT_ASK,       /* asks to be told that the client is gone */
    EVENT_ASK_NOT,   /* takes that back */
    EVENT_TURN,      /* a turn of the loop */
    EVENT_TURN_ONLY, /* the same, while nothing asks to be told */
    EVENT_LEAVE,     /* the client disconnects */
    EVENT_RESPOND,
    EVENT_STREAM, /* begun and ended */
    EVENT_CUT,    /* aborts a stream */
    EVENT_COUNT,
};

#define TOLD (WEB_HANDLER_STATE_COUNT) /* and has been freed */
#define OVER WEB_HANDLER_OVER          /* not told */

static const struct row {
    unsigned has, lost, late;
} rows[EVENT_COUNT] = {
    [EVENT_ASK] = {WEB_HANDLER_HAS, WEB_HANDLER_LATE, WEB_HANDLER_LATE},
    [EVENT_ASK_NOT] = {WEB_HANDLER_HAS, WEB_HANDLER_LOST, WEB_HANDLER_LATE},
    [EVENT_TURN] = {WEB_HANDLER_HAS, WEB_HANDLER_LOST, TOLD},
    [EVENT_TURN_ONLY] = {WEB_HANDLER_HAS, WEB_HANDLER_LOST, WEB_HANDLER_LOST},
    [EVENT_LEAVE] = {WEB_HANDLER_LOST, WEB_HANDLER_LOST, TOLD},
    [EVENT_RESPOND] = {OVER, OVER, OVER},
    [EVENT_STREAM] = {OVER, OVER, OVER},
    [EVENT_CUT] = {OVER, OVER, OVER},
};

static unsigned expected_state(enum web_handler_state in, enum event event)
{
    const struct row *row = &rows[event];
    return in == WEB_HANDLER_HAS ? row->has : in == WEB_HANDLER_LOST ? row->lost : row->late;
}

static void leave_client(struct lab *lab, struct web_exchange *x, int *fd)
{
    close(*fd);
    *fd = -1;
    while (x->handler.sm.state == WEB_HANDLER_HAS) {
        lab_turn(lab, -1);
    }
}

static struct web_exchange *enter_state(struct lab *lab, enum web_handler_state in, int *fd)
{
    size_t before = lab->held_count;
    *fd = lab_connect(lab);
    lab_send(lab, *fd, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
    lab_until_count(lab, &lab->held_count, before + 1);
    struct web_exchange *x = lab->held[before];
    assert_int_equal(x->handler.sm.state, WEB_HANDLER_HAS);
    web_on_gone(x, NULL, NULL);
    if (in != WEB_HANDLER_HAS) {
        leave_client(lab, x, fd);
    }
    if (in == WEB_HANDLER_LATE) {
        web_on_gone(x, lab_on_gone, lab);
    }
    assert_int_equal(x->handler.sm.state, in);
    assert_int_equal(x->response.sm.state, WEB_RESPONSE_NONE);
    return x;
}

/* False: the exchange may have been freed. */
static bool do_event(struct lab *lab, struct web_exchange *x, enum event event, int *fd)
{
    switch (event) {
    case EVENT_ASK:
        web_on_gone(x, lab_on_gone, lab);
        return true;
    case EVENT_ASK_NOT:
        web_on_gone(x, NULL, NULL);
        return true;
    case EVENT_TURN_ONLY:
        web_on_gone(x, NULL, NULL);
        lab_turn(lab, -1);
        return true;
    case EVENT_TURN:
        lab_turn(lab, -1);
        return true;
    case EVENT_LEAVE:
        if (*fd >= 0) {
            leave_client(lab, x, fd);
        } else {
            lab_turn(lab, -1);
        }
        return true;
    case EVENT_RESPOND:
        web_respond(x, 200, "text/plain", view_of("nobody listens\n"));
        return false;
    case EVENT_STREAM:
        web_stream_begin(x, 200, "text/plain");
        assert_int_equal(x->response.sm.state, WEB_RESPONSE_STREAM);
        web_stream_write(x, alloc_strdup("nobody"), 6);
        web_stream_end(x);
        return false;
    default:
        web_stream_begin(x, 200, "text/plain");
        web_stream_cut(x);
        return false;
    }
}

static void every_event_in_every_state(void **state)
{
    struct lab *lab = *state;
    lab_open(lab);
    for (unsigned in = WEB_HANDLER_HAS; in <= WEB_HANDLER_LATE; in++) {
        for (unsigned event = 0; event < EVENT_COUNT; event++) {
            int fd;
            struct web_exchange *x = enter_state(lab, in, &fd);
            size_t told = lab->gone;
            unsigned expected = expected_state(in, event);
            bool stays = do_event(lab, x, event, &fd);
            assert_int_equal(lab->gone, told + (expected == TOLD));
            if (stays && expected != TOLD) {
                assert_int_equal(x->handler.sm.state, expected);
                web_respond(x, 200, "text/plain", view_of("that was it\n"));
            }
            /* a handler that ends it is not told of its end */
            for (int turn = 0; turn < 2; turn++) {
                lab_turn(lab, -1);
            }
            assert_int_equal(lab->gone, told + (expected == TOLD));
            if (fd >= 0) {
                close(fd);
            }
        }
    }
} /* the listener closes when the last exchange is freed, which lab_teardown() checks */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_declared_moves_are_possible),
        cmocka_unit_test_setup_teardown(every_event_in_every_state, lab_setup, lab_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
