/*
 * A fleet whose workers are tests/lib/worker_stub.c, and a loop to run it on.
 *
 * Every wait_*() runs the loop until the event has happened and fails the test after a deadline, so
 * no test sleeps to synchronise.
 */
#ifndef CLOISTER_TESTS_UNIT_FLEET_FIXTURE_H
#define CLOISTER_TESTS_UNIT_FLEET_FIXTURE_H

/* cmocka.h needs these headers before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <uv.h>

#include "common/buf.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/fleet.h"

#define WAIT_MS 10000

struct fixture {
    uv_loop_t loop;
    uv_timer_t deadline;
    bool late;
    struct config config;
    struct fleet *fleet;
    char top[64];    /* runtime directory */
    char sweeps[80]; /* directory of the stub's notes about sweeps, and about a hanging probe */
    char notes[80];  /* directory of its notes about requests */
    bool stopped;
    int kept_stderr; /* between fixture_log_begin() and fixture_log_end(), else -1 */
};

/* The arguments of the latest callback of the fleet, and how often it was called. */
struct answer {
    unsigned times;
    int rc;
    struct err err;
    char hint[512];
    /* of an info */
    char id[FLEET_ID_SIZE];
    char state[16];
    char reason[256];
    char languages[64];
    char unapplied[128];
    char backend[16];
    char runtime[64];
    char image[64];
    int pid;
    uint64_t restarts;
    uint64_t executions;
    uint64_t memory_mb;
    uint64_t created_wall_ms, expires_wall_ms, ends_wall_ms, lifetime_ms;
    bool has_usage;
    uint64_t memory_bytes;
    /* progress of a creation */
    unsigned steps;
    char step[64];
    uint64_t step_done, step_total;
    /* of an outcome */
    char op[FLEET_ID_SIZE];
    struct buf out, errout;
    uint64_t out_bytes, err_bytes;
    uint64_t status;
    char message[128]; /* message about its end */
};

void answer_init(struct answer *a);
void answer_finish(struct answer *a);

/* cmocka setup and teardown: a fresh runtime directory, no fleet; stops the fleet if there is one
 * and checks that nothing is left on the loop. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

void fixture_start(struct fixture *f);
/* Shuts the fleet down. */
void fixture_stop(struct fixture *f);
/* The same, but leaves the sandboxes to the next fleet of the instance. */
void fixture_leave(struct fixture *f);
/* One of these two, and returns what was logged meanwhile, to be finished by the caller. */
void fixture_end_heard(struct fixture *f, enum fleet_end how, struct buf *ret);
/* Fails unless these words are in such a log, or are not. */
void check_log(struct buf *log, const char *words, bool there);
/* One of these two, in which nobody waits in vain: the log shows that no limit of time, neither the
 * shutdown's own nor that of an answer or an exit, has ended anything, but those whose words
 * ("did not exit") are `late`; NULL: none. */
void fixture_end_by_itself(struct fixture *f, enum fleet_end how, const char *late);
/* Keeps the log from LOG_WARN on, which else goes to stderr. */
void fixture_log_begin(struct fixture *f);
/* Ends that and returns what was logged, to be finished by the caller. */
void fixture_log_end(struct fixture *f, struct buf *ret);
/* Renames the instance of later fleets. */
void rename_instance(struct fixture *f, const char *name);

/* Runs the loop until a->times reaches `times`. */
void wait_times(struct fixture *f, const struct answer *a, unsigned times);
/* Runs the loop until *flag is true. */
void wait_flag(struct fixture *f, const bool *flag);
/* Runs the loop until a counter reaches `count`, and checks that it is not higher. */
void wait_count(struct fixture *f, const unsigned *counter, unsigned count);
/* Runs the loop until a directory has exactly that many entries. */
void wait_entries(struct fixture *f, const char *path, int count);
/* Removes notes of stubs (worker_stub.c) that earlier events left. */
void forget_notes(struct fixture *f);
/* Runs the loop until a stub has left this note, and removes it. */
void wait_note(struct fixture *f, const char *name);
/* Runs the loop until the stub has begun exactly that many operations in the sandbox. */
void wait_begun(struct fixture *f, const char *id, int count);
/* Runs the loop until the process does not exist any more; a child is reaped by the loop. */
void wait_gone(struct fixture *f, int pid);
/* Runs the loop until timers that are due within `ms` have fired: an event of an earlier timer has
 * happened by then, or does not happen. */
void run_past(struct fixture *f, uint64_t ms);
/* Runs the loop until the sandbox is in the state, or (state NULL) not listed any more. */
void wait_state(struct fixture *f, const char *id, const char *state);

/* Callbacks that fill a struct answer. */
void on_progress(void *arg, const struct fleet_progress *progress);
void on_info(void *arg, int rc, const struct fleet_info *info, const struct err *err,
             const char *hint);
void on_outcome(void *arg, int rc, const struct fleet_outcome *outcome, const struct err *err,
                const char *hint);
void on_done(void *arg, int rc, const struct err *err, const char *hint);

/* Begins to open a sandbox with an image that the stub knows (or NULL). */
void begin_open(struct fixture *f, const char *name, const char *image, struct answer *a);
/* Opens a sandbox, which must succeed, and returns its id. The result is valid until the next
 * open. */
const char *open_one(struct fixture *f, const char *image, char id[FLEET_ID_SIZE]);
struct fleet_call *begin_run(struct fixture *f, const char *id, const char *code, struct answer *a);
/* Runs code and checks that it succeeds with this output. */
void check_run(struct fixture *f, const char *id, const char *code, const char *expected);
void close_one(struct fixture *f, const char *id);
void get_status(struct fixture *f, const char *id, struct answer *a);
bool out_is(const struct answer *a, const char *text);

/* Number of entries of a directory, without the two that every one has; -1 if it does not exist. */
int count_entries(const char *path);
/* The instance's directory; there must be exactly one. Free with free(). */
char *instance_dir(const struct fixture *f);
bool process_exists(int pid);

/* Begins to open a sandbox for this owner. */
void open_for(struct fixture *f, const char *owner, const struct fleet_spec *spec,
              struct answer *a);

/* Opens one, which must succeed. */
void open_fine(struct fixture *f, const char *owner, const struct fleet_spec *spec,
               char id[FLEET_ID_SIZE]);

#endif
