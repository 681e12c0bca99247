/*
 * The fixture has one loop per test and one guard timer for all deadlines. Every test ends by
 * stopping the fleet, which checks that callbacks ran exactly once, that no handle is left on the
 * loop and no file in the runtime directory.
 */
#include "tests/unit/supervisor/fleet/fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"

#define OUTPUT_MAX (4u << 20)

void answer_init(struct answer *a)
{
    memset(a, 0, sizeof(*a));
    buf_init(&a->out, OUTPUT_MAX);
    buf_init(&a->errout, OUTPUT_MAX);
}

void answer_finish(struct answer *a)
{
    buf_finish(&a->out);
    buf_finish(&a->errout);
}

/* Answers are on the stacks of tests. One that has failed has left its own, and what it still
 * waited for is answered when the fleet is stopped. */
static bool answers_are_gone;

int fixture_setup(void **state)
{
    struct fixture *f = alloc_one(struct fixture);
    answers_are_gone = false;
    f->kept_stderr = -1;
    log_set_level(getenv("TEST_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
    unsetenv("WORKER_STUB");
    snprintf(f->top, sizeof(f->top), "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(f->top));
    snprintf(f->sweeps, sizeof(f->sweeps), "%s.sweeps", f->top);
    assert_int_equal(mkdir(f->sweeps, 0700), 0);
    setenv("WORKER_STUB_SWEEPS", f->sweeps, 1);
    snprintf(f->notes, sizeof(f->notes), "%s.notes", f->top);
    assert_int_equal(mkdir(f->notes, 0700), 0);
    setenv("WORKER_STUB_NOTES", f->notes, 1);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    uv_timer_init(&f->loop, &f->deadline);
    f->deadline.data = f;

    const char *stub = getenv("WORKER_STUB_PATH");
    assert_non_null(stub);
    struct config *c = &f->config;
    c->backend = alloc_strdup("oci");
    c->engine = alloc_strdup("");
    c->runtime = alloc_strdup("");
    c->image = alloc_strdup("");
    c->pull = alloc_strdup("missing");
    c->allow_images = alloc_strdup("");
    c->image_dir = alloc_strdup("");
    c->runtime_dir = alloc_strdup(f->top);
    c->instance = alloc_strdup("");
    c->worker_path = alloc_strdup(stub);
    c->agent_path = alloc_strdup(stub);
    c->memory_mb = 512;
    c->cpu_milli = 1000;
    c->pids = 256;
    c->disk_mb = 100;
    c->max_memory_mb = 4096;
    c->max_cpu_milli = 4000;
    c->max_pids = 1024;
    c->max_disk_mb = 2048;
    c->memory_budget_mb = 1u << 20; /* enough for all that tests open */
    c->max_lifetime_s = 86400;
    c->files = 1024;
    c->timeout_s = 30;
    c->max_timeout_s = 600;
    c->ttl_s = 600;
    c->max_sandboxes = 8;
    c->grace_s = 1;
    *state = f;
    return 0;
}

void fixture_start(struct fixture *f)
{
    f->fleet = fleet_create(&f->loop, &f->config);
}

static void on_stopped(void *arg)
{
    struct fixture *f = arg;
    f->stopped = true;
}

static void begin_log(struct fixture *f, enum log_level level)
{
    fflush(stderr);
    f->kept_stderr = dup(STDERR_FILENO);
    CLEANUP_FD int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(f->kept_stderr >= 0 && fd >= 0);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    log_set_level(level);
}

static void end_log(struct fixture *f, struct buf *ret)
{
    char text[4096];
    ssize_t n;
    log_set_level(LOG_ERROR);
    fflush(stderr);
    buf_init(ret, 1u << 20);
    assert_int_equal(lseek(STDERR_FILENO, 0, SEEK_SET), 0);
    while ((n = read(STDERR_FILENO, text, sizeof(text))) > 0) {
        assert_int_equal(buf_add(ret, text, (size_t)n, NULL), 0);
    }
    assert_true(dup2(f->kept_stderr, STDERR_FILENO) >= 0);
    close(steal_fd(&f->kept_stderr));
}

void fixture_log_begin(struct fixture *f)
{
    begin_log(f, LOG_WARN);
}

void fixture_log_end(struct fixture *f, struct buf *ret)
{
    end_log(f, ret);
}

static void end(struct fixture *f, enum fleet_end end)
{
    f->stopped = false;
    fleet_shutdown(f->fleet, end, on_stopped, f);
    assert_false(f->stopped); /* the callback never runs inside the call */
    wait_flag(f, &f->stopped);
    fleet_destroy(f->fleet);
    f->fleet = NULL;
}

void fixture_stop(struct fixture *f)
{
    end(f, FLEET_END_CLOSE);
}

void fixture_leave(struct fixture *f)
{
    end(f, FLEET_END_LEAVE);
}

void fixture_end_heard(struct fixture *f, enum fleet_end how, struct buf *ret)
{
    begin_log(f, LOG_INFO); /* it gives the reasons for which workers end */
    end(f, how);
    end_log(f, ret);
}

void check_log(struct buf *log, const char *words, bool there)
{
    if ((strstr(buf_cstr(log), words) != NULL) != there) {
        fprintf(stderr, "%s\n", buf_cstr(log));
        fail_msg("%s\"%s\" in this log", there ? "no " : "", words);
    }
}

void fixture_end_by_itself(struct fixture *f, enum fleet_end how, const char *late)
{
    /* what is logged when a limit of time ends something */
    static const char *const limits[] = {"shutdown:",
                                         "shutdown ran out of time",
                                         "in time",
                                         "did not exit",
                                         "does not die",
                                         "no sign of life",
                                         "its link was lost",
                                         "made no progress with",
                                         "did not end after its request"};
    CLEANUP_BUF struct buf log;
    fixture_end_heard(f, how, &log);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (late == NULL || strcmp(limits[i], late) != 0) {
            check_log(&log, limits[i], false);
        }
    }
}

void rename_instance(struct fixture *f, const char *name)
{
    free(f->config.instance);
    f->config.instance = alloc_strdup(name);
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    unsetenv("WORKER_STUB");
    if (f->kept_stderr >= 0) { /* the test has failed while its log was kept */
        dup2(f->kept_stderr, STDERR_FILENO);
        close(f->kept_stderr);
    }
    answers_are_gone = true;
    if (f->fleet != NULL) {
        fixture_stop(f); /* a fleet that gave up would leave handles on the loop */
    }
    uv_close((uv_handle_t *)&f->deadline, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    err_ignore(dir_remove(f->top, NULL)); /* a test may have removed the directory itself */
    err_ignore(dir_remove(f->sweeps, NULL));
    err_ignore(dir_remove(f->notes, NULL));
    char **texts[] = {&f->config.backend,     &f->config.engine,     &f->config.runtime,
                      &f->config.image,       &f->config.pull,       &f->config.allow_images,
                      &f->config.image_dir,   &f->config.instance,   &f->config.runtime_dir,
                      &f->config.worker_path, &f->config.agent_path, &f->config.pool,
                      &f->config.preload};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        free(*texts[i]);
    }
    free(f);
    return 0;
}

/* ---- waiting ---- */

static void on_deadline(uv_timer_t *timer)
{
    struct fixture *f = timer->data;
    f->late = true;
}

static void set_deadline(struct fixture *f, uint64_t ms)
{
    f->late = false;
    uv_update_time(&f->loop);
    uv_timer_start(&f->deadline, on_deadline, ms, 0);
}

void wait_times(struct fixture *f, const struct answer *a, unsigned times)
{
    set_deadline(f, WAIT_MS);
    while (a->times < times && !f->late) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&f->deadline);
    assert_int_equal(a->times, times);
}

void wait_flag(struct fixture *f, const bool *flag)
{
    set_deadline(f, WAIT_MS);
    while (!*flag && !f->late) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&f->deadline);
    assert_true(*flag);
}

static void on_tick(uv_timer_t *tick)
{
    (void)tick; /* the timer only has to wake the loop */
}

void wait_count(struct fixture *f, const unsigned *counter, unsigned count)
{
    set_deadline(f, WAIT_MS);
    while (*counter < count && !f->late) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&f->deadline);
    assert_int_equal(*counter, count);
}

/* Runs the loop until the condition holds, and checks it periodically, as it is outside the
 * loop. */
static void wait_outside(struct fixture *f, bool (*is_so)(const char *path, int number),
                         const char *path, int number)
{
    uv_timer_t tick;
    uv_timer_init(&f->loop, &tick);
    uv_timer_start(&tick, on_tick, 5, 5);
    set_deadline(f, WAIT_MS);
    while (!is_so(path, number) && !f->late) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&f->deadline);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT); /* runs the close callback */
}

static bool has_entries(const char *path, int count)
{
    return count_entries(path) == count;
}

void wait_entries(struct fixture *f, const char *path, int count)
{
    wait_outside(f, has_entries, path, count);
    assert_int_equal(count_entries(path), count);
}

static bool has_size(const char *path, int bytes)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size >= bytes;
}

void forget_notes(struct fixture *f)
{
    assert_int_equal(dir_remove(f->notes, NULL), 0);
    assert_int_equal(mkdir(f->notes, 0700), 0);
}

void wait_note(struct fixture *f, const char *name)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", f->notes, name);
    wait_outside(f, has_size, path, 0);
    assert_int_equal(unlink(path), 0);
}

void wait_begun(struct fixture *f, const char *id, int count)
{
    CLEANUP_FREE char *dir = instance_dir(f);
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes/%s/runs", dir, id);
    struct stat st;
    wait_outside(f, has_size, path, count);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, count);
}

static bool is_gone(const char *path, int pid)
{
    (void)path;
    return !process_exists(pid);
}

void wait_gone(struct fixture *f, int pid)
{
    wait_outside(f, is_gone, NULL, pid);
    assert_false(process_exists(pid));
}

void run_past(struct fixture *f, uint64_t ms)
{
    set_deadline(f, ms + 1);
    while (!f->late) {
        uv_run(&f->loop, UV_RUN_ONCE);
    }
}

struct search {
    const char *id;
    char state[16];
};

static void on_listed(void *arg, const struct fleet_info *info)
{
    struct search *search = arg;
    if (strcmp(info->id, search->id) == 0) {
        snprintf(search->state, sizeof(search->state), "%s", info->state);
    }
}

void wait_state(struct fixture *f, const char *id, const char *state)
{
    struct search search = {.id = id};
    uv_timer_t *turn = &f->deadline;
    set_deadline(f, WAIT_MS);
    for (;;) {
        search.state[0] = '\0';
        fleet_list(f->fleet, "me", on_listed, &search);
        if (strcmp(search.state, state != NULL ? state : "") == 0 || f->late) {
            break;
        }
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(turn);
    assert_string_equal(search.state, state != NULL ? state : "");
}

/* ---- callbacks ---- */

static void take_result(struct answer *a, int rc, const struct err *err, const char *hint)
{
    if (answers_are_gone) {
        return;
    }
    a->times++;
    a->rc = rc;
    if (rc < 0) {
        assert_non_null(err);
        assert_int_equal(rc, -err->code);
        assert_true(err->text[0] != '\0');
        a->err = *err;
    }
    assert_non_null(hint);
    snprintf(a->hint, sizeof(a->hint), "%s", hint);
}

static void take_texts(char *out, size_t size, const char *const *items, size_t count)
{
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", i > 0 ? "," : "", items[i]);
    }
}

void on_info(void *arg, int rc, const struct fleet_info *info, const struct err *err,
             const char *hint)
{
    struct answer *a = arg;
    take_result(a, rc, err, hint);
    if (rc < 0 || answers_are_gone) {
        return;
    }
    snprintf(a->id, sizeof(a->id), "%s", info->id);
    snprintf(a->state, sizeof(a->state), "%s", info->state);
    snprintf(a->reason, sizeof(a->reason), "%s", info->reason);
    snprintf(a->backend, sizeof(a->backend), "%s", info->backend);
    snprintf(a->runtime, sizeof(a->runtime), "%s", info->runtime);
    snprintf(a->image, sizeof(a->image), "%s", info->image);
    take_texts(a->languages, sizeof(a->languages), info->languages, info->language_count);
    take_texts(a->unapplied, sizeof(a->unapplied), info->unapplied, info->unapplied_count);
    a->pid = info->worker_pid;
    a->restarts = info->worker_restarts;
    a->executions = info->executions;
    a->memory_mb = info->memory_mb;
    a->created_wall_ms = info->created_wall_ms;
    a->expires_wall_ms = info->expires_wall_ms;
    a->ends_wall_ms = info->ends_wall_ms;
    a->lifetime_ms = info->lifetime_ms;
    a->has_usage = info->has_usage;
    a->memory_bytes = info->memory_bytes;
}

void on_progress(void *arg, const struct fleet_progress *progress)
{
    struct answer *a = arg;
    if (answers_are_gone) {
        return;
    }
    assert_int_equal(a->times, 0);
    a->steps++;
    snprintf(a->step, sizeof(a->step), "%s", progress->text);
    a->step_done = progress->done;
    a->step_total = progress->total;
}

void on_outcome(void *arg, int rc, const struct fleet_outcome *outcome, const struct err *err,
                const char *hint)
{
    struct answer *a = arg;
    take_result(a, rc, err, hint);
    if (rc < 0 || answers_are_gone) {
        return;
    }
    snprintf(a->op, sizeof(a->op), "%s", outcome->op);
    snprintf(a->id, sizeof(a->id), "%s", outcome->sandbox);
    a->out.len = 0;
    a->errout.len = 0;
    assert_int_equal(buf_add(&a->out, outcome->out.data, outcome->out.len, NULL), 0);
    assert_int_equal(buf_add(&a->errout, outcome->err.data, outcome->err.len, NULL), 0);
    a->out_bytes = outcome->out_bytes;
    a->err_bytes = outcome->err_bytes;
    a->status = outcome->end->status;
    snprintf(a->message, sizeof(a->message), "%.*s", VIEW_ARG(outcome->end->error_message));
}

void on_done(void *arg, int rc, const struct err *err, const char *hint)
{
    take_result(arg, rc, err, hint);
}

/* ---- steps ---- */

void begin_open(struct fixture *f, const char *name, const char *image, struct answer *a)
{
    struct fleet_spec spec = {.name = name, .image = image, .progress = on_progress};
    answer_init(a);
    fleet_open(f->fleet, "me", &spec, on_info, a);
    assert_int_equal(a->times, 0);
}

const char *open_one(struct fixture *f, const char *image, char id[FLEET_ID_SIZE])
{
    struct answer a;
    begin_open(f, NULL, image, &a);
    wait_times(f, &a, 1);
    if (a.rc < 0) {
        fail_msg("open: %s", a.err.text);
    }
    assert_string_equal(a.state, "ready");
    snprintf(id, FLEET_ID_SIZE, "%s", a.id);
    answer_finish(&a);
    return id;
}

struct fleet_call *begin_run(struct fixture *f, const char *id, const char *code, struct answer *a)
{
    struct fleet_op op = {
        .kind = OP_EVAL,
        .language = "python",
        .data = view_of(code),
        .keep_bytes = 1u << 20,
    };
    answer_init(a);
    struct fleet_call *call = fleet_run(f->fleet, id, &op, on_outcome, a);
    assert_non_null(call);
    assert_int_equal(a->times, 0);
    return call;
}

bool out_is(const struct answer *a, const char *text)
{
    size_t len = strlen(text);
    return a->out.len == len && (len == 0 || memcmp(a->out.data, text, len) == 0);
}

void check_run(struct fixture *f, const char *id, const char *code, const char *expected)
{
    struct answer a;
    begin_run(f, id, code, &a);
    wait_times(f, &a, 1);
    if (a.rc < 0) {
        fail_msg("%s: %s", code, a.err.text);
    }
    assert_int_equal(a.status, OP_STATUS_OK);
    assert_string_equal(a.id, id);
    if (!out_is(&a, expected)) {
        fail_msg("%s: \"%.*s\" instead of \"%s\"", code, (int)a.out.len, (char *)a.out.data,
                 expected);
    }
    answer_finish(&a);
}

void close_one(struct fixture *f, const char *id)
{
    struct answer a;
    answer_init(&a);
    fleet_close(f->fleet, id, on_done, &a);
    assert_int_equal(a.times, 0);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    answer_finish(&a);
}

void get_status(struct fixture *f, const char *id, struct answer *a)
{
    answer_init(a);
    fleet_status(f->fleet, id, on_info, a);
    assert_int_equal(a->times, 0);
    wait_times(f, a, 1);
}

/* ---- files and processes ---- */

int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;
    if (dir == NULL) {
        return -1;
    }
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n - 2;
}

char *instance_dir(const struct fixture *f)
{
    DIR *dir = opendir(f->top);
    struct dirent *entry;
    char *found = NULL;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            assert_null(found);
            found = alloc_printf("%s/%s", f->top, entry->d_name);
        }
    }
    closedir(dir);
    assert_non_null(found);
    return found;
}

bool process_exists(int pid)
{
    return pid > 0 && kill(pid, 0) == 0;
}

void open_for(struct fixture *f, const char *owner, const struct fleet_spec *spec, struct answer *a)
{
    answer_init(a);
    fleet_open(f->fleet, owner, spec, on_info, a);
}

void open_fine(struct fixture *f, const char *owner, const struct fleet_spec *spec,
               char id[FLEET_ID_SIZE])
{
    struct answer a;
    open_for(f, owner, spec, &a);
    wait_times(f, &a, 1);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.state, "ready");
    snprintf(id, FLEET_ID_SIZE, "%s", a.id);
    answer_finish(&a);
}
