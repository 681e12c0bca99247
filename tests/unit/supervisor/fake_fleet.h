/*
 * A fleet without workers, behind the real fleet.h: it records what the MCP side asks for and
 * answers when the test says so, with what the test says.
 */
#ifndef CLOISTER_TESTS_UNIT_SUPERVISOR_FAKE_FLEET_H
#define CLOISTER_TESTS_UNIT_SUPERVISOR_FAKE_FLEET_H

#include "supervisor/fleet/fleet.h"

#define FAKE_SANDBOXES  16
#define FAKE_PENDING    300
#define FAKE_EXECUTIONS 400

/* FAKE_RUN: an operation, or somebody who waits for an execution. */
enum fake_kind { FAKE_OPEN = 1, FAKE_RUN, FAKE_CLOSE, FAKE_STATUS };

struct fake_sandbox {
    char id[FLEET_ID_SIZE];
    char name[80];
    char owner[80];
    char session[80]; /* "": the default is its owner's */
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

/* What a request said, texts copied. */
struct fleet_call {
    enum fake_kind kind;
    void *done;
    void *arg;
    fleet_progress_fn progress; /* FAKE_OPEN; may be NULL */
    char id[FLEET_ID_SIZE];     /* sandbox */
    struct fleet_op op;         /* figures only; texts are the copies below */
    char *data, *input, *path, *language, *env, *args; /* lists joined by '|' */
    bool cancelled;
    struct fake_execution *execution; /* FAKE_RUN: what is waited for, if not for an operation */
    bool is_await;
    fleet_output_fn output; /* may be NULL */
    uint64_t every_ms;
    bool ended; /* the wait: answered with how it stands */
    uint64_t wait_ms;
};

struct fleet {
    struct fake_sandbox sandboxes[FAKE_SANDBOXES];
    size_t sandbox_count;
    struct fleet_call *pending[FAKE_PENDING];
    size_t pending_count;

    struct fake_execution executions[FAKE_EXECUTIONS];
    size_t execution_count;

    struct fleet_call last; /* of fleet_run() or fleet_execute(), kept after it is answered */
    struct fleet_spec spec; /* of fleet_open(); what it borrowed is below */
    char spec_name[80], spec_image[600], spec_env[200];
    size_t opens, runs, closes;
    const struct fleet_events *events; /* of fleet_observe() */
    void *events_arg;

    /* The next answers. `fail_code` != 0 makes them errors. */
    int fail_code;
    const char *fail_text, *fail_hint;
    struct fleet_outcome outcome;
    struct msg_output end;
};

struct fleet *fake_fleet(void);
void fake_fleet_free(struct fleet *f);

/* Answers the n-th request that waits (0: the oldest). */
void fake_answer(struct fleet *f, size_t n);

/* The same for one who waits for an execution, but it goes on: what came so far is the output. */
void fake_stand(struct fleet *f, size_t n);

/* Tells the n-th request, which must be a FAKE_OPEN, what takes so long. */
void fake_progress(struct fleet *f, size_t n, const char *text, uint64_t done, uint64_t total);

/* Tells the n-th request, which must wait for an execution, what that has written. True if it
 * listens and took it. */
bool fake_write(struct fleet *f, size_t n, const char *out, const char *err);

/* Answers everything, and what that leads to, in order. */
void fake_settle(struct fleet *f);

/* The next outcomes: output, status ok, interpreter kept. */
void fake_set_output(struct fleet *f, const void *out, size_t len);

/* A sandbox is gone from now on. */
void fake_lose(struct fleet *f, const char *id);

#endif
