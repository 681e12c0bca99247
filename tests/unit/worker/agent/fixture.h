/*
 * One running agent for a group of tests, and short functions for the tests' steps.
 */
#ifndef CLOISTER_TESTS_UNIT_AGENT_FIXTURE_H
#define CLOISTER_TESTS_UNIT_AGENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/agent_client.h"

struct fixture {
    struct agent_process agent;
    struct agent_client link;
    struct agent_result r; /* result of the last run */
    bool absent;           /* this machine does not allow the agent to start */
};

/* Group fixtures: an ordinary agent, or one as pid 1 of a namespace, with 40 processes for user
 * code. */
int fixture_start(void **state);
int fixture_start_in_namespace(void **state);
int fixture_stop(void **state);

/* Starts an agent with these options and sends HELLO; the program is set here. */
int fixture_start_with(void **state, struct agent_options o);

/* False if this machine does not allow fixture_start_in_namespace(). The reason has been printed as
 * TAP then, and the group must not run. */
bool fixture_namespace_allowed(void);

/* The fixture, connected to its agent. */
struct fixture *fixture_of(void **state);

/* Runs code to its end; the result is valid until the next run. */
struct agent_result *run(struct fixture *f, const char *language, const char *code);
struct agent_result *run_start(struct fixture *f, const struct msg_start *start);

/* Sends START and only waits for its first reply. */
void start_only(struct fixture *f, const struct msg_start *start, uint64_t wait_ms);

/* Sends CANCEL; fails the test unless the answer is OK. */
void cancel(struct fixture *f, const char *op, enum op_stop reason, bool force);

/* Lets another program write far more than the tests of output do: what could write freely
 * meanwhile has done so. */
void pass_much(struct fixture *f);

/* Waits for the end of an operation of which no output has been acknowledged. */
struct agent_result *follow(struct fixture *f, const char *op);

/* Interrupts code at its first output, or delay_us later. Fails the test unless the outcome is an
 * interrupt and the interpreter goes on. */
struct agent_result *run_interrupted(struct fixture *f, const char *language, const char *code,
                                     unsigned delay_us);

/* Interrupts at the most difficult moments: when a run has just begun, or is just ending. The first
 * code must run for long, the others end by themselves. An interrupt must neither be lost nor hit
 * the next run, which is `probe` and prints "still". */
void interrupt_any_time(struct fixture *f, const char *language, const char *const codes[3],
                        const char *probe);

/* Ends the interpreter with `end`, and interrupts `nap` while the next one is starting. That one
 * must run `probe`. */
void interrupt_at_start(struct fixture *f, const char *language, const char *end, const char *nap,
                        const char *probe);

/* Code that prints "last words" and ends its interpreter, with the expected outcome. */
struct death {
    const char *code;
    int exit_code;
    const char *message; /* a part of the message */
};

/* Runs each death, after which there must be a new interpreter without the variable `lost`, which
 * was 1: the expression `probe` has the value `unknown` then. */
void die_and_return(struct fixture *f, const char *language, const struct death *deaths,
                    size_t count, const char *probe, const char *unknown);

void reconnect(struct fixture *f, uint64_t generation);

#define assert_status(r, wanted)                                                                   \
    do {                                                                                           \
        const struct agent_result *of = (r);                                                       \
        uint64_t as_wanted = (wanted);                                                             \
        if (of->last.status != as_wanted) {                                                        \
            print_error("status %s: out \"%.400s\" err \"%.400s\" message \"%.400s\"\n",           \
                        op_status_name(of->last.status), of->out, of->err, of->message);           \
        }                                                                                          \
        assert_int_equal(of->failed, 0);                                                           \
        assert_int_equal(of->last.status, as_wanted);                                              \
    } while (0)

void assert_contains(const char *text, const char *part);

#endif
