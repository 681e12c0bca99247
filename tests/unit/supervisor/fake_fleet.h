/*
 * A fleet without workers, behind the real fleet.h: it records the requests of the MCP side and
 * answers them when and how the test chooses.
 */
#ifndef CLOISTER_TESTS_UNIT_SUPERVISOR_FAKE_FLEET_H
#define CLOISTER_TESTS_UNIT_SUPERVISOR_FAKE_FLEET_H

#include "supervisor/fleet/fleet.h"

#define FAKE_SANDBOXES  16
#define FAKE_PENDING    300
#define FAKE_EXECUTIONS 400

/* FAKE_RUN: an operation, or a caller that waits for an execution. */
enum fake_kind { FAKE_OPEN = 1, FAKE_RUN, FAKE_CLOSE, FAKE_STATUS };

struct fake_sandbox {
    char id[FLEET_ID_SIZE];
    char name[80];
    char owner[80];
    char session[80]; /* "": the default sandbox of its owner */
    bool open, is_default;
};

struct fake_execution {
    char id[FLEET_ID_SIZE];
    char sandbox[FLEET_ID_SIZE];
    char owner[80];
    char language[32];
    bool stopped, over;
    uint64_t out_bytes, err_bytes; /* of fake_write() */
};

/* A request, with copies of its texts. */
struct fleet_call {
    enum fake_kind kind;
    void *done;
    void *arg;
    fleet_progress_fn progress; /* FAKE_OPEN; may be NULL */
    char id[FLEET_ID_SIZE];     /* sandbox */
    struct fleet_op op;         /* numbers only; texts are the copies below */
    char *data, *input, *path, *language, *env, *args; /* lists joined by '|' */
    bool cancelled;
    struct fake_execution
        *execution; /* FAKE_RUN: the execution that is waited for, if it is not an operation */
    bool is_await;
    fleet_output_fn output; /* may be NULL */
    uint64_t every_ms;
    uint64_t quiet_ms; /* of fleet_await_quiet() */
    bool ended;        /* the wait has ended: it is answered with the current state */
    uint64_t wait_ms;
};

struct fleet {
    struct fake_sandbox sandboxes[FAKE_SANDBOXES];
    size_t sandbox_count;
    struct fleet_call *pending[FAKE_PENDING];
    size_t pending_count;

    struct fake_execution executions[FAKE_EXECUTIONS];
    size_t execution_count;

    struct fleet_call last; /* the latest fleet_run() or fleet_execute(), kept after its answer */
    struct fleet_spec spec; /* the latest fleet_open(); borrowed texts are copied below */
    char spec_name[80], spec_image[600], spec_env[200];
    size_t opens, runs, closes;
    const struct fleet_events *events; /* of fleet_observe() */
    void *events_arg;
    bool shared;              /* of fleet_set_shared() */
    fleet_install_fn install; /* of fleet_on_install() */
    void *install_arg;

    struct fleet_input input; /* of fleet_input(), with its text here */
    char input_text[200];
    uint64_t told_out;

    /* The next answers, which are errors if `fail_code` != 0. */
    int fail_code;
    const char *fail_text, *fail_hint;
    struct fleet_outcome outcome;
    struct msg_output end;
};

struct fleet *fake_fleet(void);
void fake_fleet_free(struct fleet *f);

/* Answers the n-th pending request (0: the oldest). */
void fake_answer(struct fleet *f, size_t n);

/* Answers the n-th pending wait for an execution that goes on: the output is what has come so
 * far. */
void fake_stand(struct fleet *f, size_t n);

/* Reports progress to the n-th request, which must be a FAKE_OPEN. */
void fake_progress(struct fleet *f, size_t n, const char *text, uint64_t done, uint64_t total);

/* Reports output of the execution that the n-th request waits for. True if it listens and took
 * it. */
bool fake_write(struct fleet *f, size_t n, const char *out, const char *err);

/* Answers all requests, and those that follow from the answers, in order. */
void fake_settle(struct fleet *f);

/* Sets the next outcomes: this output, status ok, interpreter kept. */
void fake_set_output(struct fleet *f, const void *out, size_t len);

/* Ends a sandbox. */
void fake_lose(struct fleet *f, const char *id);

#endif
