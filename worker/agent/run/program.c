/*
 * Each step of a run has its own keeper, so no process of the compiler is left when the program
 * begins, and none of the program when its end is reported. The first step's process writes the
 * code to its file before it becomes a program (progwork.h).
 *
 * Both steps write to the same pair of streams. All output of a compiler goes to stderr, so that
 * stdout is the program's alone, unless the sandbox has one stream for both. The pipes are read
 * while less than LIMIT_OP_OUTPUT is unacknowledged, as those of interpreters are.
 *
 * A process of the sandbox user removes the directory. The outcome waits for that for a moment, so
 * that the directory is usually gone when the client reads it. It does not wait longer, because
 * user code can make a directory whose removal takes long.
 */
#include "worker/agent/run/program.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "worker/agent/link/request.h"
#include "worker/agent/process/terminal.h"
#include "worker/agent/run/progwork.h"
#include "worker/agent/run/pump.h"

#define CLEAR_TELL_MS 300   /* longest time that the outcome waits for the removal */
#define CLEAR_KILL_MS 30000 /* then the removal is killed, and the rest of the directory stays */
#define SIGNAL_EXIT   128   /* a program that signal n ended has exit code 128 + n */
#define EXIT_NO_EXEC  126   /* as a shell reports a file that cannot be executed */

static void reset(struct program *p)
{
    fd_close(&p->out_fd);
    fd_close(&p->err_fd);
    keeper_finish(&p->keeper);
    buf_finish(&p->request);
    *p = (struct program){.out_fd = -1, .err_fd = -1};
    keeper_init(&p->keeper);
    buf_init(&p->request, LIMIT_FRAME);
}

void programs_init(struct programs *p, const struct spawn_config *spawn, bool last_resort)
{
    *p = (struct programs){.spawn = spawn, .last_resort = last_resort};
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        p->places[i] = (struct program){.out_fd = -1, .err_fd = -1};
        keeper_init(&p->places[i].keeper);
        buf_init(&p->places[i].request, LIMIT_FRAME);
    }
}

void programs_finish(struct programs *p)
{
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        if (p->places[i].clearer > 0) {
            (void)kill(p->places[i].clearer, SIGKILL);
        }
        reset(&p->places[i]); /* closing the command pipe orders the keeper to kill */
    }
    runners_finish(&p->runners);
}

/* ---- one step -------------------------------------------------------------------------------- */

/* The stdin of a step: a memory file with the client's input, or /dev/null. */
static int open_stdin(const struct programs *ps, const struct request *r, int *ret, struct err *err)
{
    if (!r->has_stdin) {
        *ret = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *ret < 0 ? err_sys(err, ERR_IO, errno, "cannot open /dev/null") : 0;
    }
    int rc = spawn_memory_file(ps->spawn, "stdin", ret, err);
    if (rc == 0) {
        rc = fd_write_all(*ret, r->stdin_data.data, r->stdin_data.len, err);
    }
    if (rc == 0 && lseek(*ret, 0, SEEK_SET) < 0) {
        rc = err_sys(err, ERR_IO, errno, "rewind the input");
    }
    return rc;
}

static int open_pipe(const struct programs *ps, int *ours, int *theirs, struct err *err)
{
    int fds[2];
    int rc = spawn_pipe(ps->spawn, 0, fds, err);
    if (rc == 0) {
        *ours = fds[0];
        *theirs = fds[1];
    }
    return rc;
}

/* The three descriptors of a step: ours go to the program and the operation, theirs are returned,
 * even on failure. */
struct step_ends {
    int in, out, err;
};

/* A terminal is one thing, so what we read from and what we write to are the same. */
static int open_terminal(const struct programs *ps, struct program *p, struct step_ends *ret,
                         struct err *err)
{
    struct input *in = &p->op->input;
    int rc = terminal_open(ps->spawn, in->rows, in->cols, &p->out_fd, &ret->in, err);
    if (rc < 0) {
        return rc;
    }
    int write_end = fcntl(p->out_fd, F_DUPFD_CLOEXEC, 0);
    ret->out = fcntl(ret->in, F_DUPFD_CLOEXEC, 0);
    ret->err = fcntl(ret->in, F_DUPFD_CLOEXEC, 0);
    if (write_end < 0 || ret->out < 0 || ret->err < 0) {
        rc = err_sys(err, ERR_IO, errno, "make a terminal");
        fd_close(&write_end);
        return rc;
    }
    input_begin(in, write_end);
    return 0;
}

/* Stdin that stays open is a pipe from us. */
static int open_input(const struct programs *ps, struct program *p, int *theirs, struct err *err)
{
    int fds[2];
    int rc = spawn_pipe(ps->spawn, 1, fds, err);
    if (rc == 0) {
        *theirs = fds[0];
        input_begin(&p->op->input, fds[1]);
    }
    return rc;
}

static int open_ends(const struct programs *ps, struct program *p, const struct request *r,
                     struct step_ends *ret, struct err *err)
{
    static const struct request nothing = {.has_stdin = false};
    bool compile = p->state == PROGRAM_COMPILING;
    int rc = 0;
    if (!compile && p->op->input.tty) {
        return open_terminal(ps, p, ret, err);
    }
    if (!compile && r->stdin_open) {
        rc = open_input(ps, p, &ret->in, err);
    } else {
        rc = open_stdin(ps, compile ? &nothing : r, &ret->in, err);
    }
    bool joined = p->runner != NULL && ps->spawn->one_stream;
    if (rc == 0 && (joined || !compile)) {
        rc = open_pipe(ps, &p->out_fd, &ret->out, err);
    }
    if (rc == 0 && !joined) {
        rc = open_pipe(ps, &p->err_fd, &ret->err, err);
    } else if (rc == 0) {
        ret->err = fcntl(ret->out, F_DUPFD_CLOEXEC, 0);
        rc = ret->err < 0 ? err_sys(err, ERR_IO, errno, "join stderr to stdout") : 0;
    }
    return rc;
}

static int start_step(struct programs *ps, struct program *p, bool first, struct err *err)
{
    bool compile = p->state == PROGRAM_COMPILING;
    struct step_ends ends = {.in = -1, .out = -1, .err = -1};
    struct progwork work = {
        .runner = p->runner,
        .compile = compile,
        .first = first && p->runner != NULL,
        .dir = p->dir,
        .terminal = !compile && p->op->input.tty,
        /* the directory of an OP_RUN is named as one of the workspace */
        .cwd = p->runner != NULL ? ps->spawn->cwd : ps->spawn->workspace,
    };
    request_open(&p->request, &work.request);
    int rc = open_ends(ps, p, &work.request, &ends, err);
    if (rc == 0) {
        const struct keeper_job job = {
            .become = progwork_become,
            .become_arg = &work,
            .fds = {{ends.in, STDIN_FILENO},
                    {compile ? ends.err : ends.out, STDOUT_FILENO},
                    {ends.err, STDERR_FILENO}},
            .fd_count = 3,
            .terminal = work.terminal,
            .spawn = ps->spawn,
            .last_resort = ps->last_resort,
        };
        rc = keeper_start(&p->keeper, &job, err);
    }
    fd_close(&ends.in);
    fd_close(&ends.out);
    fd_close(&ends.err);
    return rc;
}

/* ---- beginning ------------------------------------------------------------------------------- */

int programs_queue(struct op_table *t, struct op *op, const struct runner *runner,
                   const struct msg_start *m, struct err *err)
{
    struct msg_start what = *m;
    struct buf request;
    if (m->kind == OP_RUN && m->args.count == 0) {
        return err_set(err, ERR_INVALID, "no program to run is named");
    }
    if (m->kind == OP_RUN) {
        what.data = m->path;
    }
    buf_init(&request, LIMIT_FRAME);
    int rc = request_pack(&what, &request, err);
    if (rc == 0) {
        rc = op_hold_request(t, op, &request, err);
    }
    buf_finish(&request);
    if (rc == 0 && runner != NULL) {
        op->language = runner->language;
        op->runner = runner;
    }
    return rc;
}

static struct program *free_place(struct programs *ps)
{
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        if (ps->places[i].state == PROGRAM_FREE) {
            return &ps->places[i];
        }
    }
    return NULL;
}

bool programs_have_room(const struct programs *p)
{
    return free_place((struct programs *)(uintptr_t)p) != NULL;
}

void programs_begin(struct programs *ps, struct op_table *t, struct op *op)
{
    struct err err = ERR_INIT;
    struct program *p = free_place(ps);
    assert(p != NULL && op_state(op) == OP_QUEUED);
    op_take_request(t, op, &p->request);
    op_run(t, op);
    int rc = 0;
    if (op->runner != NULL) {
        char name[17];
        p->runner = op->runner;
        rc = random_id(name, sizeof(name) - 1, &err);
        snprintf(p->dir, sizeof(p->dir), PROGWORK_ROOT "/run-%s", name);
    }
    p->state =
        p->runner != NULL && p->runner->compile != NULL ? PROGRAM_COMPILING : PROGRAM_RUNNING;
    p->begun = procs_now();
    p->op = op;
    if (rc == 0) {
        rc = start_step(ps, p, true, &err);
    }
    if (rc < 0) {
        reset(p);
        op_fail(t, op, (enum err_code)err.code, err.text);
        return;
    }
    op->program = p;
}

void program_stop(struct op *op, enum op_stop reason, bool force)
{
    struct program *p = op->program;
    if (p->state == PROGRAM_CLEARING) {
        return; /* it is about to end by itself */
    }
    if (op->stop == 0) {
        op->stop = reason;
    }
    if (force) {
        keeper_kill(&p->keeper);
    } else {
        keeper_interrupt(&p->keeper, &p->begun);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void report_program_end(struct program *p, struct op_table *t)
{
    struct op *op = p->op;
    if (op != NULL) {
        p->op = NULL;
        op->program = NULL;
        op_ended(t, op);
    }
}

__attribute__((noreturn)) static void become_clearer(const struct spawn_config *spawn,
                                                     const char *dir)
{
    spawn_close_all_but(NULL, 0);
    /* this process holds a copy of the agent's memory, which user code must not read */
    if (spawn_become_user(spawn, 0, NULL) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0) {
        progwork_clear(dir);
    }
    _exit(0);
}

/* The outcome is known. */
static void end_program(struct programs *ps, struct program *p, struct op_table *t)
{
    op_stop_clock(p->op); /* the time that the removal takes is not the run's */
    p->op->cpu_us = p->cpu_us;
    p->op->max_rss_kb = p->max_rss_kb;
    fd_close(&p->out_fd);
    fd_close(&p->err_fd);
    input_end(&p->op->input);
    keeper_finish(&p->keeper);
    buf_finish(&p->request);
    pid_t pid = p->runner != NULL ? fork() : -1;
    if (pid == 0) {
        become_clearer(ps->spawn, p->dir);
    }
    if (pid < 0) {
        if (p->runner != NULL) {
            log_warn("%s stays: %s", p->dir, strerror(errno));
        }
        report_program_end(p, t);
        reset(p);
        return;
    }
    p->state = PROGRAM_CLEARING;
    p->clearer = pid;
    p->tell_at_ms = clock_ms() + CLEAR_TELL_MS;
    p->kill_at_ms = clock_ms() + CLEAR_KILL_MS;
}

static void say_error(struct op *op, const char *name, const char *what, int wait_status)
{
    struct report *r = &op->report;
    err_ignore(buf_add_str(&r->error_name, name, NULL)); /* without memory the exit code remains */
    if (WIFSIGNALED(wait_status)) {
        int sig = WTERMSIG(wait_status);
        err_ignore(buf_printf(&r->message, NULL, "%s was killed by signal %d (%s)", what, sig,
                              strsignal(sig)));
    } else {
        err_ignore(buf_printf(&r->message, NULL, "%s ended with exit code %d", what,
                              WEXITSTATUS(wait_status)));
    }
}

/* The outcome of the run is that of its last step. */
static void conclude(const struct program *p, bool compiled)
{
    struct op *op = p->op;
    int status = p->keeper.wait_status;
    bool exited = WIFEXITED(status);
    op->exit_code = exited ? WEXITSTATUS(status) : SIGNAL_EXIT + WTERMSIG(status);
    op->interpreter = OP_INTERPRETER_NONE;
    if (op->stop != 0) {
        op->status = op->stop == OP_STOP_TIMEOUT ? OP_STATUS_TIMEOUT : OP_STATUS_CANCELLED;
        return;
    }
    op->status = op->exit_code == 0 ? OP_STATUS_OK : OP_STATUS_ERROR;
    if (!compiled) {
        say_error(op, "CompileError", *runner_command(p->runner->compile), status);
    } else if (!exited) {
        say_error(op, "Signal", "the program", status);
    }
}

static void fail_program(struct programs *ps, struct program *p, struct op_table *t, int code,
                         const char *why)
{
    struct op *op = p->op;
    report_reset(&op->report);
    op->status = OP_STATUS_FAILED;
    op->report.fail_code = (uint64_t)code;
    err_ignore(buf_printf(&op->report.message, NULL, "%s", why)); /* the code must do */
    end_program(ps, p, t);
}

/* A compiler may succeed without making a program: for a Go package or a Rust library, for
 * example. */
static void made_none(struct program *p)
{
    struct op *op = p->op;
    op->status = OP_STATUS_ERROR;
    op->exit_code = EXIT_NO_EXEC;
    op->interpreter = OP_INTERPRETER_NONE;
    /* without memory the exit code remains */
    err_ignore(buf_add_str(&op->report.error_name, "CompileError", NULL));
    err_ignore(buf_printf(&op->report.message, NULL,
                          "%s found nothing wrong, but what it made is no program that can be run",
                          *runner_command(p->runner->compile)));
}

static void step_ended(struct programs *ps, struct program *p, struct op_table *t)
{
    const struct keeper *k = &p->keeper;
    struct op *op = p->op;
    bool compiled = p->state == PROGRAM_RUNNING;
    if (op->input.tty && compiled) {
        pump_terminal(p->out_fd, &op->out);
    }
    pump_tail(p->out_fd, &op->out);
    pump_tail(p->err_fd, &op->err);
    p->cpu_us += k->cpu_us;
    p->max_rss_kb = k->max_rss_kb > p->max_rss_kb ? k->max_rss_kb : p->max_rss_kb;
    if (k->exec_errno != 0 && k->exec_code == ERR_DENIED && compiled && p->runner != NULL &&
        p->runner->compile != NULL) {
        made_none(p);
        end_program(ps, p, t);
        return;
    }
    if (k->exec_errno != 0) {
        char why[sizeof(k->exec_step) + 16];
        snprintf(why, sizeof(why), "cannot %s", k->exec_step); /* a verb */
        fail_program(ps, p, t, k->exec_code, why);
        return;
    }
    bool well = WIFEXITED(k->wait_status) && WEXITSTATUS(k->wait_status) == 0;
    if (compiled || !well || op->stop != 0) {
        conclude(p, compiled);
        end_program(ps, p, t);
        return;
    }
    struct err err = ERR_INIT;
    fd_close(&p->out_fd);
    fd_close(&p->err_fd);
    keeper_finish(&p->keeper);
    p->state = PROGRAM_RUNNING;
    if (start_step(ps, p, false, &err) < 0) {
        fail_program(ps, p, t, err.code, err.text);
    }
}

static void cleared(struct program *p, struct op_table *t)
{
    report_program_end(p, t);
    reset(p);
}

bool programs_reaped(struct programs *ps, struct op_table *t, pid_t pid)
{
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        if (ps->places[i].clearer == pid) {
            cleared(&ps->places[i], t);
            return true;
        }
    }
    return false;
}

bool programs_have_keeper(const struct programs *ps, pid_t pid)
{
    bool any = false;
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        any = any || ps->places[i].keeper.pid == pid;
    }
    return any;
}

size_t programs_children(const struct programs *ps, pid_t *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        ret[n++] = ps->places[i].keeper.pid;
        ret[n++] = ps->places[i].clearer;
    }
    return n;
}

/* ---- waiting --------------------------------------------------------------------------------- */

uint64_t programs_poll(struct programs *ps, struct poll_set *set)
{
    uint64_t at = UINT64_MAX;
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        struct program *p = &ps->places[i];
        struct poll_slot none = {0};
        p->slot_status = p->slot_out = p->slot_err = none;
        if (p->state == PROGRAM_CLEARING) {
            uint64_t next = p->op != NULL ? p->tell_at_ms : p->kill_at_ms;
            at = next < at ? next : at;
        } else if (p->state != PROGRAM_FREE) {
            p->slot_status = poll_set_add(set, p->keeper.status_fd, POLLIN);
            if (op_stream_room(&p->op->out) > 0) {
                p->slot_out = poll_set_add(set, p->out_fd, POLLIN);
            }
            if (op_stream_room(&p->op->err) > 0) {
                p->slot_err = poll_set_add(set, p->err_fd, POLLIN);
            }
        }
    }
    return at;
}

static void handle_one(struct programs *ps, struct program *p, const struct poll_set *set,
                       struct op_table *t)
{
    if (p->state == PROGRAM_CLEARING) {
        uint64_t now_ms = clock_ms();
        if (now_ms >= p->tell_at_ms) {
            report_program_end(p, t);
        }
        if (now_ms >= p->kill_at_ms) {
            (void)kill(p->clearer, SIGKILL);
            p->kill_at_ms = now_ms + CLEAR_KILL_MS;
        }
        return;
    }
    if (poll_set_got(set, p->slot_out) != 0 && !pump_stream(p->out_fd, &p->op->out)) {
        fd_close(&p->out_fd);
    }
    if (poll_set_got(set, p->slot_err) != 0 && !pump_stream(p->err_fd, &p->op->err)) {
        fd_close(&p->err_fd);
    }
    if (poll_set_got(set, p->slot_status) != 0) {
        keeper_read(&p->keeper);
        ps->has_orphans = ps->has_orphans || p->keeper.leaves_orphans;
    }
    if (p->keeper.ended) {
        step_ended(ps, p, t);
    }
}

void programs_handle(struct programs *ps, const struct poll_set *set, struct op_table *t)
{
    for (size_t i = 0; i < LIMIT_PROGRAMS; i++) {
        if (ps->places[i].state != PROGRAM_FREE) {
            handle_one(ps, &ps->places[i], set, t);
        }
    }
}
