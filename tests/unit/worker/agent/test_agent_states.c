/*
 * The agent's answer to every request about an operation in every state, and what a supervisor that
 * takes over can learn: the operations, and the beginning of their output.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "proto/codec.h"

#define LONG_CODE "sleep 60"

static struct msg ask(struct fixture *f, struct msg m)
{
    struct err err = ERR_INIT;
    struct msg reply;
    if (agent_ask(&f->link, &m, &reply, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return reply;
}

static struct msg make_start(const char *op, const char *code, uint64_t wait_ms)
{
    struct msg m = {.type = MSG_START};
    m.start.op = view_of(op);
    m.start.kind = OP_EVAL;
    m.start.language = view_of("bash");
    m.start.data = view_of(code);
    m.start.wait_ms = wait_ms;
    return m;
}

static struct msg make_wait(const char *op, uint64_t out_from, uint64_t err_from, bool skip)
{
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of(op);
    m.wait.out_from = out_from;
    m.wait.err_from = err_from;
    m.wait.skip = skip;
    return m;
}

/* The entry of OPS about an operation, and its index; state 0 if it is unknown. The language is not
 * valid. */
static struct msg_op_info info_of(struct fixture *f, const char *op, size_t *ret_place)
{
    struct err err = ERR_INIT;
    struct msg_op_info found = {.state = 0};
    struct msg reply = ask(f, (struct msg){.type = MSG_OPS});
    assert_int_equal(reply.type, MSG_OPS_OK);
    for (size_t i = 0; i < reply.ops_ok.ops.count; i++) {
        struct view item = reply.ops_ok.ops.items[i];
        struct msg m;
        assert_int_equal(msg_decode(MSG_LINK_A, item.data, item.len, &m, &err), 0);
        assert_int_equal(m.type, MSG_OP_INFO);
        assert_int_equal(m.seq, 0);
        if (view_is(m.op_info.op, op)) {
            found = m.op_info;
            found.language = view_of(view_is(m.op_info.language, "bash") ? "bash" : "");
            if (ret_place != NULL) {
                *ret_place = i;
            }
        }
        msg_finish(&m);
    }
    msg_finish(&reply);
    return found;
}

/* ---- state x request ------------------------------------------------------------------------ */

enum column { UNKNOWN, QUEUED, RUNNING, DONE, ACKNOWLEDGED, COLUMNS };

enum row {
    START,
    JOIN,
    WAIT,
    CANCEL,
    KILL,
    CANCEL_FOR_NO_REASON,
    OPS,
    STATUS,
    ACK,          /* acknowledged by the START of another operation */
    FAR_WAIT,     /* from an offset beyond the output */
    WRONG_LINK,   /* a message of the other link */
    WRONG_WAY,    /* a reply instead of a request */
    SECOND_HELLO, /* a second HELLO on the same link */
    ROWS
};

struct cell {
    enum msg_type type; /* type of the answer; MSG_NONE: the link is closed instead */
    unsigned value;     /* state in OUTPUT, code in FAILED, pending operations in STATUS_OK */
    unsigned after;     /* state in OPS afterwards, 0 if it is unknown */
};

/* clang-format off */
#define OUT(state, after)   {MSG_OUTPUT, OP_##state, OP_##after}
#define FAIL(code, after)   {MSG_FAILED, ERR_##code, after}
#define OKAY(after)         {MSG_OK, 0, after}
#define CLOSED(after)       {MSG_NONE, 0, after}

static const struct cell cells[ROWS][COLUMNS] = {
    /*            unknown                        queued                     running                    done                    acknowledged */
    [START]    = {OUT(RUNNING, RUNNING),         OUT(QUEUED, QUEUED),       OUT(RUNNING, RUNNING),     OUT(DONE, DONE),        OUT(RUNNING, RUNNING)},
    [JOIN]     = {FAIL(EXECUTION_NOT_FOUND, 0),  OUT(QUEUED, QUEUED),       OUT(RUNNING, RUNNING),     OUT(DONE, DONE),        FAIL(EXECUTION_NOT_FOUND, 0)},
    [WAIT]     = {FAIL(EXECUTION_NOT_FOUND, 0),  OUT(QUEUED, QUEUED),       OUT(RUNNING, RUNNING),     OUT(DONE, DONE),        FAIL(EXECUTION_NOT_FOUND, 0)},
    [CANCEL]   = {OKAY(0),                       OKAY(OP_DONE),             OKAY(OP_DONE),             OKAY(OP_DONE),          OKAY(0)},
    [KILL]     = {OKAY(0),                       OKAY(OP_DONE),             OKAY(OP_DONE),             OKAY(OP_DONE),          OKAY(0)},
    [CANCEL_FOR_NO_REASON]
               = {FAIL(INVALID, 0),              FAIL(INVALID, OP_QUEUED),  FAIL(INVALID, OP_RUNNING), FAIL(INVALID, OP_DONE), FAIL(INVALID, 0)},
    [OPS]      = {{MSG_OPS_OK, 0, 0},            {MSG_OPS_OK, 0, OP_QUEUED}, {MSG_OPS_OK, 0, OP_RUNNING}, {MSG_OPS_OK, 0, OP_DONE}, {MSG_OPS_OK, 0, 0}},
    [STATUS]   = {{MSG_STATUS_OK, 0, 0},         {MSG_STATUS_OK, 2, OP_QUEUED}, {MSG_STATUS_OK, 1, OP_RUNNING}, {MSG_STATUS_OK, 0, OP_DONE}, {MSG_STATUS_OK, 0, 0}},
    [ACK]      = {{MSG_OUTPUT, OP_DONE, 0},      OUT(DONE, QUEUED),         OUT(DONE, RUNNING),        {MSG_OUTPUT, OP_DONE, 0}, {MSG_OUTPUT, OP_DONE, 0}},
    [FAR_WAIT] = {FAIL(EXECUTION_NOT_FOUND, 0),  FAIL(INVALID, OP_QUEUED),  FAIL(INVALID, OP_RUNNING), FAIL(INVALID, OP_DONE), FAIL(EXECUTION_NOT_FOUND, 0)},
    [WRONG_LINK] = {CLOSED(0),                   CLOSED(OP_QUEUED),         CLOSED(OP_RUNNING),        CLOSED(OP_DONE),        CLOSED(0)},
    [WRONG_WAY]  = {CLOSED(0),                   CLOSED(OP_QUEUED),         CLOSED(OP_RUNNING),        CLOSED(OP_DONE),        CLOSED(0)},
    [SECOND_HELLO] = {CLOSED(0),                 CLOSED(OP_QUEUED),         CLOSED(OP_RUNNING),        CLOSED(OP_DONE),        CLOSED(0)},
};
/* clang-format on */

/* `acks` owns the acks that the message borrows. */
static struct msg request(enum row row, const char *op, const char *other, struct view *acks)
{
    struct msg m = {.type = MSG_NONE};
    switch (row) {
    case START:
    case JOIN:
        m = make_start(op, LONG_CODE, 0);
        m.start.join = row == JOIN;
        break;
    case WAIT:
    case FAR_WAIT:
        m = make_wait(op, row == WAIT ? 0 : 1000, 0, true);
        break;
    case CANCEL:
    case KILL:
    case CANCEL_FOR_NO_REASON:
        m.type = MSG_CANCEL;
        m.cancel.op = view_of(op);
        m.cancel.force = row == KILL;
        m.cancel.reason = row == CANCEL_FOR_NO_REASON ? 0 : OP_STOP_CANCEL;
        break;
    case ACK: /* a file operation, which is never queued */
        m = make_start(other, "", AGENT_CLIENT_WAIT_MS);
        m.start.kind = OP_FILE_LIST;
        m.start.path = view_of(".");
        *acks = view_of(op);
        m.start.acks = (struct view_list){acks, 1};
        break;
    case WRONG_LINK:
        m.type = MSG_PING;
        break;
    case WRONG_WAY:
        m.type = MSG_OK;
        break;
    case SECOND_HELLO:
        m.type = MSG_HELLO;
        break;
    case OPS:
        m.type = MSG_OPS;
        break;
    default:
        m.type = MSG_STATUS;
        break;
    }
    return m;
}

/* Brings the operation into the state; `before` is an operation that it is queued behind. */
static void prepare(struct fixture *f, enum column column, const char *op, const char *before)
{
    struct msg m;
    if (column == UNKNOWN) {
        return;
    }
    if (column == QUEUED) {
        m = ask(f, make_start(before, LONG_CODE, 0));
        assert_int_equal(m.output.state, OP_RUNNING);
    }
    bool ends = column == DONE || column == ACKNOWLEDGED;
    m = ask(f, make_start(op, ends ? "true" : LONG_CODE, ends ? AGENT_CLIENT_WAIT_MS : 0));
    assert_int_equal(m.output.state, ends ? OP_DONE : column == QUEUED ? OP_QUEUED : OP_RUNNING);
    if (column == ACKNOWLEDGED) {
        struct view ack = view_of(op);
        m = make_start(before, "true", AGENT_CLIENT_WAIT_MS);
        m.start.acks = (struct view_list){&ack, 1};
        assert_int_equal(ask(f, m).output.state, OP_DONE);
    }
}

/* Ends and forgets the operation, if it exists. */
static void clear(struct fixture *f, const char *op, const char *other)
{
    struct view ack = view_of(op);
    struct err err = ERR_INIT;
    if (info_of(f, op, NULL).state == 0) {
        return;
    }
    cancel(f, op, OP_STOP_CANCEL, false);
    agent_result_finish(&f->r);
    assert_int_equal(agent_follow(&f->link, op, 0, 0, &f->r, &err), 0);
    struct msg m = request(ACK, op, other, &ack);
    assert_int_equal(ask(f, m).type, MSG_OUTPUT);
}

static void check(struct fixture *f, enum row row, enum column column, struct msg m, const char *op)
{
    const struct cell *cell = &cells[row][column];
    struct err err = ERR_INIT;
    struct msg reply = {.type = MSG_NONE};
    unsigned value = 0;
    int rc = agent_ask(&f->link, &m, &reply, &err);
    if (rc < 0) {
        assert_int_equal(rc, -ERR_GONE);
        reply.type = MSG_NONE;
        reconnect(f, 1);
    } else if (reply.type == MSG_OUTPUT) {
        value = (unsigned)reply.output.state;
    } else if (reply.type == MSG_FAILED) {
        value = (unsigned)reply.failed.code;
    } else if (reply.type == MSG_STATUS_OK) {
        value = (unsigned)reply.status_ok.ops_running;
    }
    if (reply.type != cell->type || value != cell->value) {
        fail_msg("request %d in state %d: %s %u instead of %s %u", row, column,
                 msg_name(reply.type), value, msg_name(cell->type), cell->value);
    }
    msg_finish(&reply);
    if ((row == CANCEL || row == KILL) && column == RUNNING) {
        agent_result_finish(&f->r);
        assert_int_equal(agent_follow(&f->link, op, 0, 0, &f->r, &err), 0);
        assert_status(&f->r, OP_STATUS_CANCELLED);
    }
    if (info_of(f, op, NULL).state != cell->after) {
        fail_msg("request %d in state %d leaves state %d instead of %u", row, column,
                 (int)info_of(f, op, NULL).state, cell->after);
    }
}

static void every_request_in_every_state_is_answered(void **state)
{
    struct fixture *f = fixture_of(state);
    for (enum row row = START; row < ROWS; row++) {
        for (enum column column = UNKNOWN; column < COLUMNS; column++) {
            char names[4][32];
            for (size_t i = 0; i < 4; i++) {
                snprintf(names[i], sizeof(names[i]), "cell-%d-%d-%zu", row, column, i);
            }
            struct view ack;
            prepare(f, column, names[0], names[1]);
            check(f, row, column, request(row, names[0], names[2], &ack), names[0]);
            clear(f, names[0], names[3]);
            clear(f, names[1], names[3]);
            run(f, "bash", "true"); /* an interrupt delays the next one a little */
        }
    }
}

/* ---- taking over ---------------------------------------------------------------------------- */

static void operations_are_told_in_the_order_of_their_start(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg m = ask(f, (struct msg){.type = MSG_OPS});
    uint64_t evals = m.ops_ok.evals;
    size_t place[4] = {0};
    uint64_t begin_ms = clock_ms();
    msg_finish(&m);
    m = make_start("order-a", LONG_CODE, 0);
    m.start.timeout_ms = 50000;
    ask(f, m);
    m = make_start("order-b", "echo b", 0);
    m.start.timeout_ms = 40000;
    ask(f, m);
    m = make_start("order-c", "", AGENT_CLIENT_WAIT_MS);
    m.start.kind = OP_FILE_LIST;
    m.start.path = view_of(".");
    ask(f, m);
    m = make_start("order-d", "nobody", 0);
    m.start.language = view_of("cobol");
    assert_int_equal(ask(f, m).type, MSG_FAILED); /* unknown operation */

    struct msg_op_info info = info_of(f, "order-a", &place[0]);
    assert_int_equal(info.state, OP_RUNNING);
    assert_int_equal(info.kind, OP_EVAL);
    assert_true(view_is(info.language, "bash"));
    assert_int_equal(info.timeout_ms, 50000);
    assert_true(info.ran_us > 0 && info.ran_us / 1000 <= clock_ms() - begin_ms);
    assert_in_range(info.age_ms, 0, clock_ms() - begin_ms);
    info = info_of(f, "order-b", &place[1]);
    assert_int_equal(info.state, OP_QUEUED);
    assert_int_equal(info.timeout_ms, 40000);
    assert_int_equal(info.ran_us, 0); /* its time does not run yet */
    info = info_of(f, "order-c", &place[2]);
    assert_int_equal(info.state, OP_DONE);
    assert_int_equal(info.kind, OP_FILE_LIST);
    assert_true(view_is(info.language, ""));
    assert_int_equal(info.timeout_ms, 0);
    assert_true(info.ran_us > 0);
    assert_int_equal(info_of(f, "order-d", NULL).state, 0);
    cancel(f, "order-a", OP_STOP_CANCEL, false); /* an end does not change the order */
    follow(f, "order-a");
    follow(f, "order-b");
    info_of(f, "order-a", &place[3]);
    assert_int_equal(place[3], place[0]);
    assert_true(place[0] < place[1] && place[1] < place[2]);
    m = ask(f, (struct msg){.type = MSG_OPS});
    assert_int_equal(m.ops_ok.evals, evals + 2);
    msg_finish(&m);
}

static void it_is_idle_since_the_last_beginning_or_end(void **state)
{
    struct fixture *f = fixture_of(state);
    uint64_t before = clock_ms();
    run(f, "bash", "sleep 0.2");
    uint64_t ended = clock_ms();
    struct msg m = ask(f, (struct msg){.type = MSG_OPS});
    assert_in_range(m.ops_ok.idle_ms, 0, clock_ms() - before - 200);
    uint64_t until_ms = clock_ms() + AGENT_CLIENT_WAIT_MS;
    while (m.ops_ok.idle_ms < 50) {
        if (clock_ms() > until_ms) {
            fail_msg("asking counts as activity");
        }
        struct view ack = view_of("nobody");
        msg_finish(&m);
        ask(f, request(WAIT, "nobody", "", &ack));
        m = ask(f, (struct msg){.type = MSG_OPS});
    }
    msg_finish(&m);
    uint64_t since_ms = clock_ms() - ended;
    m = ask(f, (struct msg){.type = MSG_OPS});
    assert_true(m.ops_ok.idle_ms + 1 >= since_ms);
    msg_finish(&m);
}

#define WRITTEN 700000u

static void the_beginning_of_both_streams_is_kept(void **state)
{
    struct fixture *f = fixture_of(state);
    const char *op = "kept";
    struct msg_start s =
        make_start(op, "head -c 700000 /dev/zero | tr '\\0' y; echo error >&2", 0).start;
    struct agent_result *r = run_start(f, &s); /* read and acknowledged */
    assert_int_equal(r->out_len, WRITTEN);
    assert_string_equal(r->err, "error\n");

    struct msg m = {.type = MSG_START};
    m.start.op = view_of(op);
    m.start.join = true;
    m.start.skip = true;
    struct msg reply = ask(f, m); /* as another supervisor asks */
    assert_int_equal(reply.type, MSG_OUTPUT);
    assert_int_equal(reply.output.out_from, 0);
    assert_int_equal(reply.output.out.len, LIMIT_OP_KEPT);
    assert_true(reply.output.out.data[LIMIT_OP_KEPT - 1] == 'y');
    assert_true(view_is(reply.output.err, "error\n"));
    assert_int_equal(reply.output.state, OP_RUNNING); /* there is more output */

    reply = ask(f, make_wait(op, LIMIT_OP_KEPT, 3, false));
    assert_int_equal(reply.type, MSG_FAILED);
    assert_int_equal(reply.failed.code, ERR_INVALID);
    reply = ask(f, make_wait(op, LIMIT_OP_KEPT, 3, true)); /* each stream by itself */
    assert_true(reply.output.out_from > LIMIT_OP_KEPT);
    assert_int_equal(reply.output.out_from + reply.output.out.len, WRITTEN);
    assert_int_equal(reply.output.err_from, 3);
    assert_true(view_is(reply.output.err, "or\n"));
    assert_int_equal(reply.output.state, OP_DONE);
    assert_int_equal(reply.output.status, OP_STATUS_OK);
    reply = ask(f, make_wait(op, 100000, 0, false)); /* once more, from any offset that is kept */
    assert_int_equal(reply.output.out.len, LIMIT_OP_KEPT - 100000);

    struct view ack;
    ask(f, request(ACK, op, "kept-2", &ack));
    assert_int_equal(ask(f, m).failed.code, ERR_EXECUTION_NOT_FOUND);
}

/* Bytes that are kept for other readers do not slow the program down: with a reader it runs on. */
static void kept_bytes_hold_nobody_up(void **state)
{
    struct fixture *f = fixture_of(state);
    const char *op = "debts";
    ask(f, make_start(op, "head -c 200000 /dev/zero; read -t 60 line; true", 0));
    uint64_t have = 0;
    while (have < 200000) {
        struct msg m = make_wait(op, have, 0, false);
        m.wait.wait_ms = AGENT_CLIENT_WAIT_MS;
        struct msg reply = ask(f, m);
        assert_int_equal(reply.type, MSG_OUTPUT);
        have += reply.output.out.len;
    }
    ask(f, make_wait(op, have, 0, false));
    cancel(f, op, OP_STOP_CANCEL, false);
    struct err err = ERR_INIT;
    agent_result_finish(&f->r);
    assert_int_equal(agent_follow(&f->link, op, have, 0, &f->r, &err), 0);
    /* a writer without a reader stops after LIMIT_OP_OUTPUT more bytes, whether earlier ones were
     * read or not */
    struct msg_start s = make_start("debts-2", "yes | head -c 5000000", 0).start;
    start_only(f, &s, 0);
    pass_much(f);
    struct msg reply = ask(f, make_wait("debts-2", 0, 0, false));
    assert_int_equal(reply.output.out.len, LIMIT_CHUNK);
    reply = ask(f, make_wait("debts-2", 0, 0, false)); /* asked again: nothing is acknowledged */
    assert_int_equal(reply.output.state, OP_RUNNING);
    pass_much(f);
    reply = ask(f, make_wait("debts-2", LIMIT_OP_OUTPUT, 0, false));
    assert_true(reply.output.out.len < 64u << 10); /* at most one read more than allowed */
    agent_result_finish(&f->r);
    assert_int_equal(agent_follow(&f->link, "debts-2", LIMIT_OP_OUTPUT, 0, &f->r, &err), 0);
    assert_int_equal(f->r.out_len, 5000000 - LIMIT_OP_OUTPUT);
}

/* The memory of one agent: the pages of its program are shared by all agents, and their number
 * depends on the compiler. */
static uint64_t private_kb(pid_t pid)
{
    char path[64];
    char line[256];
    unsigned long kb = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "RssAnon: %lu", &kb) != 1) {
    }
    fclose(file);
    return kb;
}

static void an_idle_agent_is_small(void **state)
{
    struct fixture *f = fixture_of(state);
    const char *last = NULL;
    for (int i = 0; i < 100; i++) {
        struct view ack = view_of(last != NULL ? last : "");
        struct msg_start s = agent_code(&f->link, "bash", "echo hello; echo error >&2");
        s.acks = (struct view_list){&ack, 1};
        last = s.op.data;
        assert_string_equal(run_start(f, &s)->out, "hello\n");
    }
    assert_in_range(private_kb(f->agent.pid), 1, 255);
}

static void limits_are_taken_if_its_kernel_has_that_much(void **state)
{
    struct fixture *f = *state;
    struct msg limits = {.type = MSG_LIMITS};
    limits.limits.cpu_milli = 1000;
    limits.limits.memory_bytes = 16u << 20;
    struct msg m = ask(f, limits);
    assert_int_equal(m.type, MSG_OK);
    msg_finish(&m);
    limits.limits.memory_bytes = INT64_MAX;
    m = ask(f, limits);
    assert_int_equal(m.type, MSG_FAILED);
    assert_int_equal(m.failed.code, ERR_CONFIG);
    msg_finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_agent_is_small),
        cmocka_unit_test(every_request_in_every_state_is_answered),
        cmocka_unit_test(limits_are_taken_if_its_kernel_has_that_much),
        cmocka_unit_test(operations_are_told_in_the_order_of_their_start),
        cmocka_unit_test(it_is_idle_since_the_last_beginning_or_end),
        cmocka_unit_test(the_beginning_of_both_streams_is_kept),
        cmocka_unit_test(kept_bytes_hold_nobody_up),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
