/*
 * What code can leave behind in a live interpreter. A later run either works as documented or says
 * why it does not, and the agent goes on in any case.
 */
#include "tests/unit/worker/agent/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* ---- reports without end --------------------------------------------------------------------- */

/* Finds the pipe of reports, and writes the same bytes for ever. */
#define FLOOD                                                                                      \
    "import os\n"                                                                                  \
    "def flood(record):\n"                                                                         \
    "    data = record * (65536 // len(record))\n"                                                 \
    "    while True:\n"                                                                            \
    "        for fd in range(60, 80):\n"                                                           \
    "            try:\n"                                                                           \
    "                os.write(fd, data)\n"                                                         \
    "            except OSError: pass\n"

static const char *const records[] = {
    "D000000010",                               /* the end of an earlier run */
    "I00000000D000000010",                      /* and an interrupt that came too early */
    "R00000003abcV00000002xxD000000010", "\\n", /* nothing */
};

#define RECORDS (sizeof(records) / sizeof(records[0]))

static void reports_without_end_end_the_interpreter(void **state)
{
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < RECORDS; i++) {
        char *code = alloc_printf(FLOOD "flood(b'%s')", records[i]);
        struct agent_result *r = run(f, "python", code);
        assert_status(r, OP_STATUS_CRASHED);
        assert_contains(r->message, "report");
        free(code);
        r = run(f, "python", "1 + 1");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "2");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    }
}

/* The next run tells why it has a new interpreter. */
static void reports_without_end_after_a_run_do_too(void **state)
{
    struct fixture *f = fixture_of(state);
    for (size_t i = 0; i < RECORDS; i++) {
        char *code = alloc_printf(FLOOD "import threading, time\n"
                                        "def later():\n"
                                        "    while not os.path.exists('ended'): time.sleep(0.01)\n"
                                        "    os.unlink('ended')\n"
                                        "    flood(b'%s')\n"
                                        "threading.Thread(target=later).start()\n"
                                        "print(f'touch ended; while test -e /proc/{os.getppid()}; '"
                                        "'do sleep 0.01; done')",
                                  records[i]);
        struct agent_result *r = run(f, "python", code);
        assert_status(r, OP_STATUS_OK);
        free(code);
        char *gone = alloc_strdup(r->out); /* when the agent has ended the interpreter */
        assert_status(run(f, "bash", gone), OP_STATUS_OK);
        free(gone);
        r = run(f, "python", "1 + 1");
        assert_status(r, OP_STATUS_OK);
        assert_string_equal(r->result, "2");
        assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
        assert_contains(r->err, "[the interpreter was ended before this run: ");
        r = run(f, "python", "1");
        assert_string_equal(r->err, "");
    }
}

/* An interrupt that the interpreter says it has missed, again and again, ends with the run. */
static void reports_without_end_outlive_no_interrupt(void **state)
{
    struct fixture *f = fixture_of(state);
    struct msg_start s = agent_code(&f->link, "python",
                                    FLOOD "import signal\n"
                                          "signal.signal(signal.SIGINT, lambda *_: flood("
                                          "b'I00000000D000000010'))\n"
                                          "print('ready')\n"
                                          "while True: signal.pause()");
    start_only(f, &s, AGENT_CLIENT_WAIT_MS);
    cancel(f, s.op.data, OP_STOP_CANCEL, false);
    struct agent_result *r = follow(f, s.op.data);
    assert_status(r, OP_STATUS_CANCELLED);
    assert_int_equal(r->last.interpreter, OP_INTERPRETER_RESTARTED);
    r = run(f, "python", "1 + 1");
    assert_string_equal(r->result, "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_without_end_end_the_interpreter),
        cmocka_unit_test(reports_without_end_after_a_run_do_too),
        cmocka_unit_test(reports_without_end_outlive_no_interrupt),
    };
    return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
