/* A fleet takes over the sandboxes that another one has left when its supervisor died or ended. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "supervisor/fleet/state/record.h"
#include "tests/unit/supervisor/fleet/fixture.h"

#define MANY 50

static int setup(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *f = *state;
    rename_instance(f, "main");
    f->config.grace_s = 20; /* long enough for all tests but those that set their own */
    f->config.max_sandboxes = 64;
    return rc;
}

/* ---- looking ---- */

struct seen {
    const char *id;
    unsigned times;
    unsigned ready;
    unsigned all;
    char state[16], reason[256], name[65];
    int pid;
    uint64_t memory_mb, pids, timeout_ms, ttl_ms, executions, restarts, created_wall_ms, idle_ms;
    uint64_t lifetime_ms, ends_wall_ms;
};

static void on_each(void *arg, const struct fleet_info *info)
{
    struct seen *seen = arg;
    seen->all++;
    seen->ready += strcmp(info->state, "ready") == 0 ? 1 : 0;
    if (seen->id == NULL || strcmp(seen->id, info->id) != 0) {
        return;
    }
    seen->times++;
    snprintf(seen->state, sizeof(seen->state), "%s", info->state);
    snprintf(seen->reason, sizeof(seen->reason), "%s", info->reason);
    snprintf(seen->name, sizeof(seen->name), "%s", info->name);
    seen->pid = info->worker_pid;
    seen->memory_mb = info->memory_mb;
    seen->pids = info->pids;
    seen->timeout_ms = info->timeout_ms;
    seen->ttl_ms = info->ttl_ms;
    seen->executions = info->executions;
    seen->restarts = info->worker_restarts;
    seen->created_wall_ms = info->created_wall_ms;
    seen->lifetime_ms = info->lifetime_ms;
    seen->ends_wall_ms = info->ends_wall_ms;
    seen->idle_ms = info->ttl_ms - (info->expires_wall_ms - clock_wall_ms());
}

static struct seen look(struct fixture *f, const char *id)
{
    struct seen seen = {.id = id};
    fleet_list(f->fleet, "me", on_each, &seen);
    return seen;
}

static char *sandbox_file(const struct fixture *f, const char *id, const char *name)
{
    return alloc_printf("%s/main/sandboxes/%s/%s", f->top, id, name);
}

static void put_file(const struct fixture *f, const char *id, const char *name, const void *data,
                     size_t len)
{
    CLEANUP_FREE char *path = sandbox_file(f, id, name);
    assert_int_equal(file_replace(path, data, len, 0600, NULL), 0);
}

static void next_server(struct fixture *f)
{
    fixture_start(f);
    fleet_adopt(f->fleet);
}

static int worker_pid(struct fixture *f, const char *id)
{
    return look(f, id).pid;
}

static void kill_worker(int pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Changes the record of a sandbox. */
static void rewrite_record(const struct fixture *f, const char *id,
                           void (*change)(struct msg_record *whose))
{
    CLEANUP_FREE char *dir = sandbox_file(f, id, "");
    CLEANUP_BUF struct buf frames;
    struct record record;
    struct err err = ERR_INIT;
    buf_init(&frames, LIMIT_FRAME);
    if (record_load(dir, &record, &err) < 0) {
        fail_msg("%s", err.text);
    }
    change(&record.whose.record);
    assert_int_equal(msg_encode_frame(&frames, &record.open, &err), 0);
    assert_int_equal(msg_encode_frame(&frames, &record.whose, &err), 0);
    put_file(f, id, "record", frames.data, frames.len);
    record_finish(&record);
}

static void check_await(struct fixture *f, const char *execution, const char *out)
{
    struct answer a;
    answer_init(&a);
    fleet_await(f->fleet, "me", execution, WAIT_MS, on_outcome, &a);
    wait_times(f, &a, 1);
    if (a.rc < 0) {
        fail_msg("%s: %s", execution, a.err.text);
    }
    if (!out_is(&a, out)) {
        fail_msg("\"%.*s\" instead of \"%s\"", (int)a.out.len, (char *)a.out.data, out);
    }
    answer_finish(&a);
}

static void execute(struct fixture *f, const char *id, const char *code, char ret[FLEET_ID_SIZE])
{
    struct fleet_op op = {
        .kind = OP_EVAL, .language = "python", .data = view_of(code), .keep_bytes = 1u << 20};
    fleet_execute(f->fleet, "me", id, &op, ret);
}

/* Runs the loop until the execution has written output. */
static void wait_output(struct fixture *f, const char *execution)
{
    uint64_t bytes = 0;
    while (bytes == 0) {
        struct answer a;
        answer_init(&a);
        fleet_await(f->fleet, "me", execution, 10, on_outcome, &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.status, 0); /* it is still running */
        bytes = a.out_bytes;
        answer_finish(&a);
    }
}

/* ---- sandboxes that are taken over ---- */

static void all_that_was_asked_for_is_there_again(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char id[FLEET_ID_SIZE];
    const char *found;
    struct err err = ERR_INIT;
    struct view env[] = {view_of("KEY=value")};
    struct fleet_spec spec = {.name = "box",
                              .memory_mb = 77,
                              .pids = 33,
                              .timeout_ms = 4321,
                              .ttl_ms = 98765,
                              .env = {env, 1},
                              .is_default = true,
                              .session = "session"};
    answer_init(&a);
    f->config.max_lifetime_s = 5000;
    fixture_start(f);
    fleet_open(f->fleet, "me", &spec, on_info, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    snprintf(id, sizeof(id), "%s", a.id);
    check_run(f, id, "echo one", "one");
    check_run(f, id, "echo two", "two");
    uint64_t begin_ms = clock_ms();
    struct seen before = look(f, id);
    uint64_t looked_ms = clock_ms() - begin_ms;
    fixture_end_by_itself(f, FLEET_END_LEAVE, NULL);
    assert_true(process_exists(before.pid));
    f->config.max_lifetime_s = 70; /* the limit of sandboxes that this server makes */
    f->config.memory_mb = 1;

    next_server(f);
    begin_ms = clock_ms();
    struct seen after = look(f, id); /* at once, without waiting for the worker */
    uint64_t ends_ms = after.ends_wall_ms, looked_again_ms = clock_ms() - begin_ms;
    assert_int_equal(after.times, 1);
    assert_string_equal(after.state, "recovering");
    assert_int_equal(fleet_find(f->fleet, "me", "box", &found, &err), 0);
    assert_string_equal(found, id);
    assert_int_equal(fleet_find(f->fleet, "you", "box", &found, &err), -ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(fleet_find_default(f->fleet, "me", "session", &found), 0);
    assert_string_equal(found, id);
    assert_int_equal(fleet_find_default(f->fleet, "me", "", &found), -ERR_SANDBOX_NOT_FOUND);
    assert_int_equal(fleet_find_default(f->fleet, "you", "session", &found),
                     -ERR_SANDBOX_NOT_FOUND);
    wait_state(f, id, "ready");
    after = look(f, id);
    assert_string_equal(after.name, "box");
    assert_int_equal(after.pid, before.pid);
    assert_int_equal(after.memory_mb, 77);
    assert_int_equal(after.pids, 33);
    assert_int_equal(after.timeout_ms, 4321);
    assert_int_equal(after.ttl_ms, 98765);
    assert_int_equal(after.executions, 2);
    assert_int_equal(after.restarts, 0);
    assert_int_equal(after.created_wall_ms, before.created_wall_ms);
    assert_int_equal(after.lifetime_ms, 5000000);
    /* The date is the wall clock and what is left by another, between which a look may wait for its
     * turn. */
    assert_in_range(ends_ms, before.ends_wall_ms - looked_again_ms - 2,
                    before.ends_wall_ms + looked_ms + 2);
    check_run(f, id, "gen", "1");
    check_run(f, id, "runs", "4"); /* nothing was run again */
    assert_int_equal(look(f, id).executions, 4);
    answer_finish(&a);
}

/* The owner is written to the record, so it must fit there. */
static void an_owner_that_cannot_be_written_down_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fleet_spec spec = {.name = NULL};
    struct answer a;
    CLEANUP_FREE char *owner = alloc_printf("%0*d", LIMIT_TEXT + 1, 0);
    fixture_start(f);
    for (int i = 0; i < 3; i++) { /* too long, just right, no text */
        answer_init(&a);
        fleet_open(f->fleet, i < 2 ? owner + i : "\xff", &spec, on_info, &a);
        wait_times(f, &a, 1);
        assert_int_equal(a.rc, i == 1 ? 0 : -ERR_INVALID);
        answer_finish(&a);
    }
}

static void a_dead_worker_is_replaced_by_the_next_server(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    check_run(f, id, "echo one", "one");
    int pid = worker_pid(f, id);
    fixture_leave(f);
    kill_worker(pid);
    next_server(f);
    check_run(f, id, "gen", "2"); /* waits until there is a worker */
    check_run(f, id, "runs", "3");
    assert_int_equal(look(f, id).restarts, 1);
    kill(worker_pid(f, id), SIGKILL); /* and from now on it behaves as any other sandbox */
    check_run(f, id, "gen", "3");
}

/* A server that is killed between starting a worker and writing its note leaves an unknown
 * worker. */
static void a_worker_without_a_note_does_not_disturb_its_successor(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    int pid = worker_pid(f, id);
    fixture_leave(f);
    kill_worker(pid);
    put_file(f, id, "w2.sock", "", 0);
    next_server(f);
    check_run(f, id, "gen", "3");
}

static void executions_that_run_or_ended_are_found_by_their_ids(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char id[FLEET_ID_SIZE];
    char ended[FLEET_ID_SIZE];
    char ends_alone[FLEET_ID_SIZE];
    char runs_on[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    execute(f, id, "echo old", ended);
    check_await(f, ended, "old");
    execute(f, id, "slow 3 50", ends_alone);
    execute(f, id, "slow 5 300", runs_on);
    answer_init(&a);
    fleet_await(f->fleet, "me", runs_on, WAIT_MS, on_outcome, &a);
    wait_output(f, runs_on);
    fixture_leave(f);
    assert_int_equal(a.times, 1); /* the caller that waits is answered with the current state */
    assert_int_equal(a.rc, 0);
    answer_finish(&a);

    next_server(f);
    answer_init(&a);
    fleet_await(f->fleet, "you", ended, WAIT_MS, on_outcome, &a);
    check_await(f, ended, "old"); /* asked for before its worker is found */
    check_await(f, ends_alone, "line 0\nline 1\nline 2\n");
    check_await(f, runs_on, "line 0\nline 1\nline 2\nline 3\nline 4\n");
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_EXECUTION_NOT_FOUND); /* it belongs to another owner */
    check_run(f, id, "runs", "4");
    answer_finish(&a);
}

static void an_execution_can_be_stopped_before_its_worker_is_found(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct err err = ERR_INIT;
    char id[FLEET_ID_SIZE];
    char execution[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    execute(f, id, "wait", execution);
    wait_begun(f, id, 1);
    fixture_leave(f);
    next_server(f);
    assert_int_equal(fleet_stop(f->fleet, "me", execution, &err), 0);
    answer_init(&a);
    fleet_await(f->fleet, "me", execution, WAIT_MS, on_outcome, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_int_equal(a.status, OP_STATUS_CANCELLED);
    answer_finish(&a);
    assert_int_equal(fleet_stop(f->fleet, "me", "nosuch", &err), -ERR_EXECUTION_NOT_FOUND);
}

static void what_never_turns_up_is_answered(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct err err = ERR_INIT;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    fixture_leave(f);
    next_server(f);
    answer_init(&a);
    fleet_await(f->fleet, "me", "nosuch", FLEET_WAIT_FOR_EVER, on_outcome, &a);
    assert_int_equal(fleet_stop(f->fleet, "me", "neither", &err),
                     0); /* the server cannot know yet */
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_EXECUTION_NOT_FOUND);
    answer_finish(&a);
}

static void a_ttl_counts_on(void **state)
{
    struct fixture *f = *state;
    char idle[FLEET_ID_SIZE];
    char over[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, idle); /* with a ttl of 600 s */
    open_one(f, NULL, over);
    check_run(f, idle, "echo x", "x");
    fixture_leave(f);
    uint64_t begin_ms = clock_ms();
    put_file(f, idle, "idle", "500000", 6);
    put_file(f, over, "idle", "600000", 6);
    next_server(f);
    wait_state(f, idle, "ready");
    wait_state(f, over, NULL);
    struct seen seen = look(f, idle);
    assert_in_range(seen.idle_ms + 2, 500000, 500000 + clock_ms() - begin_ms + 4);
    assert_int_equal(look(f, idle).times, 1);
}

static void fifty_are_taken_over(void **state)
{
    struct fixture *f = *state;
    char ids[MANY][FLEET_ID_SIZE];
    fixture_start(f);
    for (int i = 0; i < MANY; i++) {
        open_one(f, NULL, ids[i]);
    }
    for (int i = 0; i < MANY; i += 2) {
        kill(worker_pid(f, ids[i]), SIGSTOP); /* stopped, so that it is not replaced meanwhile */
    }
    int pids[MANY];
    for (int i = 0; i < MANY; i++) {
        pids[i] = worker_pid(f, ids[i]);
    }
    fixture_leave(f);
    for (int i = 0; i < MANY; i += 2) {
        kill_worker(pids[i]);
    }
    next_server(f);
    assert_int_equal(look(f, NULL).all, MANY);
    for (int i = 0; i < MANY; i++) {
        wait_state(f, ids[i], "ready");
    }
    for (int i = 0; i < MANY; i++) {
        check_run(f, ids[i], "gen", i % 2 == 0 ? "2" : "1");
    }
}

static void it_may_go_on_and_on(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char execution[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    execute(f, id, "slow 200 10", execution);
    wait_output(f,
                execution); /* an operation that the agent does not have yet is refused, not left */
    for (int i = 0; i < 20; i++) {
        fixture_end_by_itself(f, FLEET_END_LEAVE, NULL);
        next_server(f);
        if (i % 3 == 0) { /* in some rounds before it has found any worker */
            wait_state(f, id, "ready");
        }
    }
    CLEANUP_BUF struct buf all;
    buf_init(&all, 1u << 16);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(buf_printf(&all, NULL, "line %d\n", i), 0);
    }
    check_await(f, execution, buf_cstr(&all));
    check_run(f, id, "gen", "1");
    check_run(f, id, "runs", "3");
}

/* ---- sandboxes that cannot be taken over ---- */

static void a_worker_of_another_build_fails_its_sandbox(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    struct answer a;
    fixture_start(f);
    open_one(f, NULL, id);
    fixture_leave(f);
    put_file(f, id, "other-version", "", 0);
    next_server(f);
    begin_run(f, id, "gen", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_GONE);
    wait_state(f, id, "failed");
    struct seen seen = look(f, id);
    assert_non_null(strstr(seen.reason, "another build"));
    assert_non_null(strstr(seen.reason, "version 1, not 999"));
    answer_finish(&a);
    wait_entries(f, f->sweeps, 1);
}

static void a_sandbox_that_ended_alone_tells_its_owner(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    f->config.grace_s = 1;
    fixture_start(f);
    open_one(f, NULL, id);
    int pid = worker_pid(f, id);
    int status;
    fixture_leave(f);
    assert_int_equal(waitpid(pid, &status, 0), pid); /* after its grace period */
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_CODE_ORPHANED);
    next_server(f);
    wait_state(f, id, "failed");
    assert_string_equal(look(f, id).reason, "the sandbox ended while no server was there");
}

static void what_nobody_was_told_of_is_swept(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char path[96];
    fixture_start(f);
    open_one(f, NULL, (char[FLEET_ID_SIZE]){0});
    forget_notes(f);
    begin_open(f, NULL, "open-slow", &a);
    wait_note(f, "open");
    fixture_end_by_itself(f, FLEET_END_LEAVE, NULL);
    assert_int_equal(a.times, 1);
    assert_int_equal(a.rc, -ERR_SHUTTING_DOWN);
    answer_finish(&a);
    snprintf(path, sizeof(path), "%s/main/sandboxes", f->top);
    assert_int_equal(count_entries(path), 1);
    next_server(f);
    assert_int_equal(look(f, NULL).all, 1);
}

static void what_was_being_removed_is_swept_and_does_not_come_back(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char path[96];
    char closing[FLEET_ID_SIZE];
    char stays[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, closing);
    open_one(f, NULL, stays);
    fixture_leave(f);
    put_file(f, closing, "closing", "", 0); /* its record is whole */
    next_server(f);
    assert_int_equal(look(f, NULL).all, 1);
    check_run(f, stays, "gen", "1");
    begin_run(f, closing, "gen", &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_SANDBOX_NOT_FOUND);
    answer_finish(&a);
    snprintf(path, sizeof(path), "%s/main/sandboxes", f->top);
    wait_entries(f, f->sweeps, 1);
    wait_entries(f, path, 1);
}

static void not_answered(struct msg_record *whose)
{
    whose->answered = false;
}

static void other_boot(struct msg_record *whose)
{
    whose->boot = view_of("0b1c2d3e-another-boot");
}

/* Four bad records are left to the sweep, and a good one among them is not. */
static void bad_records_are_swept_and_disturb_nobody(void **state)
{
    struct fixture *f = *state;
    char good[FLEET_ID_SIZE];
    char bad[5][FLEET_ID_SIZE];
    char path[96];
    fixture_start(f);
    for (int i = 0; i < 5; i++) {
        open_one(f, NULL, bad[i]);
        if (i == 2) {
            open_one(f, NULL, good);
        }
    }
    fixture_leave(f);
    rewrite_record(f, bad[0], not_answered);
    rewrite_record(f, bad[1], other_boot);
    put_file(f, bad[2], "record",
             "\xff\xff\xff\xff"
             "garbage",
             11);
    CLEANUP_FREE char *record = sandbox_file(f, bad[3], "record");
    struct stat st;
    assert_int_equal(stat(record, &st), 0);
    assert_int_equal(truncate(record, st.st_size - 3), 0);
    CLEANUP_FREE char *last = sandbox_file(f, bad[4], "record");
    assert_int_equal(unlink(last), 0);
    next_server(f);
    assert_int_equal(look(f, NULL).all, 1);
    check_run(f, good, "gen", "1");
    snprintf(path, sizeof(path), "%s/main/sandboxes", f->top);
    wait_entries(f, f->sweeps, 5);
    wait_entries(f, path, 1);
    for (int i = 0; i < 5; i++) {
        CLEANUP_FREE char *note = alloc_printf("%s/%s", f->sweeps, bad[i]);
        assert_int_equal(access(note, F_OK), 0);
    }
}

/* The client was told that the sandbox is closed, so a remaining record is only to be swept. */
static void a_closed_sandbox_does_not_come_back(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    char path[96];
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, "close-stays", id);
    answer_init(&a);
    fleet_close(f->fleet, id, on_done, &a);
    wait_times(f, &a, 1);
    CLEANUP_FREE char *record = sandbox_file(f, id, "record");
    assert_int_equal(access(record, F_OK), -1);
    fixture_leave(f);
    snprintf(path, sizeof(path), "%s/main/sandboxes", f->top);
    assert_int_equal(count_entries(path), 0);
    answer_finish(&a);
}

static void a_sandbox_whose_worker_is_unknown_fails(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    fixture_leave(f);
    put_file(f, id, "worker", "4711", 4);
    next_server(f);
    wait_state(f, id, "failed");
    assert_non_null(strstr(look(f, id).reason, "worked on"));
    wait_entries(f, f->sweeps, 1);
}

static void an_agent_that_tells_garbage_fails_its_sandbox(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char other[FLEET_ID_SIZE];
    fixture_start(f);
    open_one(f, NULL, id);
    open_one(f, NULL, other);
    fixture_leave(f);
    put_file(f, id, "ops-garbage", "", 0);
    next_server(f);
    check_run(f, other, "gen", "1");
    wait_state(f, id, "failed");
    assert_non_null(strstr(look(f, id).reason, "garbage"));
}

/* ---- one after the other ---- */

static void the_next_server_waits_for_the_lock(void **state)
{
    struct fixture *f = *state;
    struct answer a;
    struct err err = ERR_INIT;
    char id[FLEET_ID_SIZE];
    const char *found;
    fixture_start(f);
    open_one(f, NULL, id);
    struct fleet *first = f->fleet;
    next_server(f);
    struct fleet *second = f->fleet;
    begin_open(f, NULL, NULL, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, -ERR_CONFIG);
    assert_non_null(strstr(a.err.text, "in use by another server"));
    answer_finish(&a);
    assert_int_equal(fleet_find(second, "me", id, &found, &err), -ERR_SANDBOX_NOT_FOUND);
    f->fleet = first;
    check_run(f, id, "gen", "1");
    fixture_leave(f);
    f->fleet = second; /* the first call that looks for the sandbox finds it */
    assert_int_equal(fleet_find(second, "me", id, &found, &err), 0);
    check_run(f, id, "gen", "1");
}

static void a_server_that_only_lists_its_tools_touches_nothing(void **state)
{
    struct fixture *f = *state;
    next_server(f);
    assert_int_equal(count_entries(f->top), 0);
    fixture_leave(f);
    assert_int_equal(count_entries(f->top), 0);
}

static void an_instance_of_its_own_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    rename_instance(f, "");
    fixture_start(f);
    open_one(f, NULL, id);
    fixture_leave(f);
    assert_int_equal(count_entries(f->top), 0);
}

/* Leaves an instance whose server and worker are dead, beside the test's own. When it is swept, the
 * other server has looked. */
static void leave_dead(struct fixture *f, char id[FLEET_ID_SIZE])
{
    rename_instance(f, "dead");
    fixture_start(f);
    open_one(f, NULL, id);
    int pid = worker_pid(f, id);
    fixture_leave(f);
    kill_worker(pid);
    rename_instance(f, "main");
}

static void check_only_swept(struct fixture *f, const char *id)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", f->sweeps, id);
    assert_int_equal(count_entries(f->sweeps), 1);
    assert_int_equal(access(path, F_OK), 0);
}

static void another_instance_does_not_sweep_what_lives(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char other[FLEET_ID_SIZE];
    char dead[FLEET_ID_SIZE];
    f->config.grace_s = 1;
    leave_dead(f, dead);
    f->config.grace_s = 60;
    fixture_start(f);
    open_one(f, NULL, id);
    fixture_leave(f);
    rename_instance(f, "");
    fixture_start(f);
    open_one(f, NULL, other);
    struct fleet *stranger = f->fleet;
    wait_entries(f, f->sweeps, 1);
    check_only_swept(f, dead);
    rename_instance(f, "main");
    next_server(f); /* although the lock is free all the time */
    check_run(f, id, "gen", "1");
    fixture_stop(f);
    f->fleet = stranger;
}

/* Server and worker are dead, but the sandbox may go on for its grace period. */
static void a_server_that_comes_within_the_grace_comes_before_the_sweep(void **state)
{
    struct fixture *f = *state;
    char id[FLEET_ID_SIZE];
    char other[FLEET_ID_SIZE];
    char dead[FLEET_ID_SIZE];
    f->config.grace_s = 1;
    fixture_start(f);
    open_one(f, NULL, id);
    int pid = worker_pid(f, id);
    fixture_leave(f);
    kill_worker(pid);
    leave_dead(f, dead); /* it was left later, so when it is swept, the other one was due as well */
    rename_instance(f, "");
    fixture_start(f);
    open_one(f, NULL, other);
    struct fleet *stranger = f->fleet;
    rename_instance(f, "main");
    next_server(f);
    check_run(f, id, "gen", "2");
    wait_entries(f, f->sweeps, 1); /* the other server has looked twice */
    check_only_swept(f, dead);
    check_run(f, id, "gen", "2");
    fixture_stop(f);
    f->fleet = stranger;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(all_that_was_asked_for_is_there_again),
        T(an_owner_that_cannot_be_written_down_is_refused),
        T(a_dead_worker_is_replaced_by_the_next_server),
        T(a_worker_without_a_note_does_not_disturb_its_successor),
        T(executions_that_run_or_ended_are_found_by_their_ids),
        T(an_execution_can_be_stopped_before_its_worker_is_found),
        T(what_never_turns_up_is_answered),
        T(a_ttl_counts_on),
        T(fifty_are_taken_over),
        T(it_may_go_on_and_on),
        T(a_worker_of_another_build_fails_its_sandbox),
        T(a_sandbox_that_ended_alone_tells_its_owner),
        T(what_nobody_was_told_of_is_swept),
        T(what_was_being_removed_is_swept_and_does_not_come_back),
        T(bad_records_are_swept_and_disturb_nobody),
        T(a_closed_sandbox_does_not_come_back),
        T(a_sandbox_whose_worker_is_unknown_fails),
        T(an_agent_that_tells_garbage_fails_its_sandbox),
        T(the_next_server_waits_for_the_lock),
        T(a_server_that_only_lists_its_tools_touches_nothing),
        T(an_instance_of_its_own_leaves_nothing),
        T(another_instance_does_not_sweep_what_lives),
        T(a_server_that_comes_within_the_grace_comes_before_the_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
