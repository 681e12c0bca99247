/*
 * The agent talks to an interpreter over four pipes: requests to it, reports from it, and its
 * stdout and stderr. A run ends with a DONE record. All that the run wrote is in the pipes by then,
 * so reading them once more loses nothing. Between runs the agent does not read stdout and stderr:
 * output of background processes stays in the pipes and belongs to the next run.
 *
 * Most runs print a line and end within a millisecond. Sending their output at once would take two
 * replies for each, so the output pipes are not read for the first QUIET_US of a run, and output
 * and outcome share one reply.
 *
 * Stdin that stays open comes through one more pipe, which an interpreter has from its start, since
 * it could be given no other later. For each such run the agent opens the writing end anew, by the
 * descriptor of its own reading end; while nobody has it open, the pipe is at its end. What a run
 * left unread is thrown away before the next.
 *
 * A late interrupt must not hit the next run, so the next run begins only after the keeper has
 * confirmed that the signal was sent. The driver reports an interrupt that came too early, and it
 * is sent again. See bash.c for what a shell needs besides.
 *
 * A stopped run may leave processes that ignored the interrupt. The keeper kills them before the
 * outcome is sent: only those that this run has started, since earlier runs may have left others
 * running on purpose. If there are always more of them, the interpreter itself starts them, and it
 * is killed as well.
 *
 * User code shares the process that sends the reports. A malformed report ends the interpreter, and
 * the deadline covers a missing one. Reports without end would be neither: all that may come
 * between two beginnings of runs is bounded, and so is what one round of the loop takes. An
 * interpreter that closes its report pipe during a run may have exec'd another program, so that run
 * ends when the process does.
 */
#include "worker/agent/interp/interp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "worker/agent/interp/death.h"
#include "worker/agent/link/request.h"
#include "worker/agent/run/pump.h"

#define QUIET_US     1000
#define REPORT_CHUNK 8192
#define REPORT_ROUND (1u << 20) /* of reports in one round of the loop: no pipe holds more */
#define STALE_MAX    64         /* ends of earlier runs between two beginnings; shells say some */
#define RETRY_US     50000u     /* doubled each time */
#define RETRIES_MAX  5
#define LOOK_US      100000u  /* until the first look whether a run ended unreported; doubled */
#define LOOK_MAX_US  1600000u /* each time up to this */
#define SIGNAL_EXIT  128      /* a program that signal n ended has exit code 128 + n */

void interp_init(struct interp *i, const struct lang *lang, const struct spawn_config *spawn,
                 bool last_resort)
{
    *i = (struct interp){
        .lang = lang,
        .unknown = true,
        .spawn = spawn,
        .last_resort = last_resort,
        .request_fd = -1,
        .report_fd = -1,
        .out_fd = -1,
        .err_fd = -1,
        .script_fd = -1,
        .stdin_fd = -1,
        .input_fd = -1,
    };
    keeper_init(&i->keeper);
    figures_init(&i->figures);
    report_init(&i->report, REPORT_OF_RUN);
    buf_init(&i->pending, LIMIT_FRAME);
}

/* Back to "no process". */
static void tear_down(struct interp *i)
{
    fd_close(&i->request_fd);
    fd_close(&i->report_fd);
    fd_close(&i->out_fd);
    fd_close(&i->err_fd);
    fd_close(&i->script_fd);
    fd_close(&i->stdin_fd);
    fd_close(&i->input_fd);
    keeper_finish(&i->keeper);
    figures_finish(&i->figures);
    report_reset(&i->report);
    buf_finish(&i->pending);
    i->pending_at = 0;
    i->lost_state = i->lost_state || i->had_state;
    i->had_state = false;
    i->dying = i->unfit = false;
    i->sweeping = false;
    i->syncing = false;
    i->retry_us = 0;
    i->offence[0] = '\0';
}

void interp_finish(struct interp *i)
{
    tear_down(i);
    report_finish(&i->report);
    free(i->path);
    i->path = NULL;
}

static bool has_process(const struct interp *i)
{
    return i->keeper.pid > 0;
}

bool interp_is_free(const struct interp *i)
{
    return i->current == NULL && !i->dying && !i->syncing && i->keeper.owed == 0 &&
           (!has_process(i) || (i->request_fd >= 0 && i->report_fd >= 0));
}

static void order_end(struct interp *i, const char *why)
{
    if (has_process(i) && !i->dying) {
        i->dying = true;
        snprintf(i->offence, sizeof(i->offence), "%s", why);
        if (why[0] != '\0') {
            log_warn("%s has to be restarted: %s", i->lang->name, why);
        }
        keeper_kill(&i->keeper);
    }
}

/* ---- starting -------------------------------------------------------------------------------- */

/* The same inode once more, with our own flags. */
static int reopen_input(const struct interp *i, int flags)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", i->input_fd);
    return spawn_open_as_user(i->spawn, path, flags | O_NONBLOCK);
}

static int make_input(struct interp *i, struct err *err)
{
    int fds[2];
    int rc = spawn_pipe(i->spawn, 1, fds, err);
    if (rc == 0) {
        i->input_fd = fds[0];
        close(fds[1]);
    }
    return rc;
}

/* -ERR_IO if there are no descriptors left. */
static int begin_input(struct interp *i, struct op *op, struct err *err)
{
    if (!op->input.open) {
        return 0;
    }
    int fd = reopen_input(i, O_WRONLY);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "open the pipe for stdin");
    }
    input_begin(&op->input, fd);
    return 0;
}

/* Ends the run's stdin, and empties the pipe: at most what one can hold, since code may go on to
 * write to it itself. */
static void end_input(struct interp *i, struct op *op)
{
    char chunk[REPORT_CHUNK];
    if (!op->input.open) {
        return;
    }
    input_end(&op->input);
    int fd = reopen_input(i, O_RDONLY);
    for (size_t got = 0; fd >= 0 && got < OP_TAIL_MAX;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
    }
    fd_close(&fd);
}

static int make_pipes(struct interp *i, struct interp_start *s, struct err *err)
{
    struct {
        const struct spawn_config *owner;
        int ours;
        int *our_end;
        int *their_end;
    } pipes[] = {
        {NULL, 1, &i->request_fd, &s->request_end},
        {NULL, 0, &i->report_fd, &s->report_end},
        {i->spawn, 0, &i->out_fd, &s->out_end},
        {i->spawn, 0, &i->err_fd, &s->err_end},
    };
    for (size_t k = 0; k < sizeof(pipes) / sizeof(pipes[0]); k++) {
        int fds[2];
        int rc = spawn_pipe(pipes[k].owner, pipes[k].ours, fds, err);
        if (rc < 0) {
            return rc;
        }
        *pipes[k].our_end = fds[pipes[k].ours];
        *pipes[k].their_end = fds[1 - pipes[k].ours];
    }
    s->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return s->null_fd < 0 ? err_sys(err, ERR_IO, errno, "cannot open /dev/null")
                          : make_input(i, err);
}

/* With one stream stdout gets what is written to stderr, in its order. */
static int join_streams(const struct interp *i, struct interp_start *s, struct err *err)
{
    if (!i->spawn->one_stream) {
        return 0;
    }
    fd_close(&s->err_end);
    s->err_end = fcntl(s->out_end, F_DUPFD_CLOEXEC, 3);
    return s->err_end < 0 ? err_sys(err, ERR_IO, errno, "cannot join stderr to stdout") : 0;
}

int interp_prestart(struct interp *i, struct err *err)
{
    if (has_process(i)) {
        return 0;
    }
    struct interp_start s = {
        .job = {.path = i->path,
                .envp = environ,
                .cwd = i->spawn->cwd,
                .spawn = i->spawn,
                .last_resort = i->last_resort,
                .interrupt_by = i->lang->interrupt_by,
                .hold_interrupt = i->lang->hold_interrupt},
        .request_end = -1,
        .report_end = -1,
        .out_end = -1,
        .err_end = -1,
        .null_fd = -1,
        .source_fd = -1,
    };
    s.job.argv = s.argv;
    int rc = make_pipes(i, &s, err);
    rc = rc < 0 ? rc : join_streams(i, &s, err);
    if (rc == 0) {
        rc = i->lang->start(i, &s, err);
    }
    if (rc == 0) {
        rc = keeper_start(&i->keeper, &s.job, err);
    }
    fd_close(&s.request_end);
    fd_close(&s.report_end);
    fd_close(&s.out_end);
    fd_close(&s.err_end);
    fd_close(&s.null_fd);
    fd_close(&s.source_fd);
    if (rc < 0) {
        tear_down(i);
        return err_wrap(err, "cannot start %s", i->lang->name);
    }
    return 0;
}

void interp_look(struct interp *i)
{
    if (!i->unknown) {
        return;
    }
    i->unknown = spawn_find_program(i->spawn, i->lang->program, &i->path) == SPAWN_UNKNOWN;
    i->look_sys = i->unknown ? errno : 0;
    if (i->unknown) {
        log_warn("cannot look for %s, later again: %s", i->lang->program, strerror(i->look_sys));
    }
    struct err err = ERR_INIT;
    if (i->path != NULL && i->lang->prestart && interp_prestart(i, &err) < 0) {
        log_warn("%s", err.text); /* the first operation tries again and reports the error */
    }
}

void interp_doubt(struct interp *i)
{
    i->unknown = i->path == NULL;
}

/* ---- writing requests ------------------------------------------------------------------------ */

static int flush_pending(struct interp *i, struct err *err)
{
    while (i->pending_at < i->pending.len) {
        ssize_t n =
            write(i->request_fd, i->pending.data + i->pending_at, i->pending.len - i->pending_at);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return errno == EAGAIN ? 0 : err_sys(err, ERR_IO, errno, "write to the interpreter");
        }
        i->pending_at += (size_t)n;
    }
    buf_finish(&i->pending);
    i->pending_at = 0;
    return 0;
}

int interp_write(struct interp *i, struct buf *data, struct err *err)
{
    if (i->pending.len == 0) {
        buf_finish(&i->pending);
        i->pending = *data;
        buf_init(data, data->max);
        return flush_pending(i, err);
    }
    int rc = buf_add(&i->pending, data->data, data->len, err);
    buf_finish(data);
    return rc;
}

/* What code has left there. Modules that are imported in advance are nobody's state. */
static void begin_state(struct interp *i, struct op *op)
{
    if (op->kind == OP_PRELOAD) {
        return;
    }
    death_tell_loss(i, op);
    op->interpreter = i->lost_state  ? OP_INTERPRETER_RESTARTED
                      : i->had_state ? OP_INTERPRETER_KEPT
                                     : OP_INTERPRETER_FRESH;
    i->lost_state = false;
    i->had_state = true;
}
void interp_begin(struct interp *i, struct op_table *t, struct op *op)
{
    struct err err = ERR_INIT;
    assert(interp_is_free(i) && op_state(op) == OP_QUEUED);
    int rc = interp_prestart(i, &err);
    if (rc == 0) {
        rc = begin_input(i, op, &err);
    }
    if (rc < 0) {
        op_fail(t, op, (enum err_code)err.code, err.text);
        return;
    }
    begin_state(i, op);
    i->current = op;
    if (i->keeper.main_pid > 0) {
        figures_open(&i->figures, i->keeper.main_pid, i->spawn);
    }
    figures_reset_peak(&i->figures);
    i->cpu_base_us = figures_cpu_us(&i->figures);

    struct buf request;
    op_take_request(t, op, &request);
    i->begun = procs_now();
    op_run(t, op);
    request_set_run(&request, ++i->run);
    i->stale = 0;
    i->unbegun = i->blanked = false;
    i->look_after_us = LOOK_US;
    i->look_us = clock_us() + LOOK_US;
    rc = i->lang->submit(i, &request, &err);
    buf_finish(&request);
    if (rc < 0) {
        order_end(i, err.text); /* the operation ends with the process */
    }
}

/* ---- the end of a run ------------------------------------------------------------------------ */

static enum op_status stopped_status(enum op_stop stop)
{
    return stop == OP_STOP_TIMEOUT ? OP_STATUS_TIMEOUT : OP_STATUS_CANCELLED;
}

static void take_tails(struct interp *i, struct op *op)
{
    pump_tail(i->out_fd, &op->out);
    pump_tail(i->err_fd, &op->err);
}

static uint64_t since(uint64_t now, uint64_t base)
{
    return now > base ? now - base : 0;
}

/* A module that was imported in part cannot be imported again in the same process, and code must
 * not find that out. */
static void end_preload(struct interp *i, const struct op *op)
{
    if (op->kind == OP_PRELOAD && op->status != OP_STATUS_OK) {
        i->unfit = true;
        order_end(i, "");
    }
}

/* Ends the run; the process goes on. */
static void end_run(struct interp *i, struct op_table *t)
{
    struct op *op = i->current;
    take_tails(i, op);
    end_input(i, op);
    const struct report *r = &op->report;
    bool raised = r->error_name.len > 0;
    op->exit_code = r->has_exit ? r->exit_code : raised ? 1 : 0;
    op->status = op->stop != 0                  ? stopped_status(op->stop)
                 : raised || op->exit_code != 0 ? OP_STATUS_ERROR
                                                : OP_STATUS_OK;
    if (i->keeper.main_pid > 0) {
        figures_open(&i->figures, i->keeper.main_pid, i->spawn);
    }
    op->cpu_us = since(figures_cpu_us(&i->figures), i->cpu_base_us);
    op->max_rss_kb = figures_peak_kb(&i->figures);
    i->current = NULL;
    i->sweeping = false;
    i->syncing = op->stop != 0 && i->lang->sync != NULL;
    i->retries = 0;
    if (op->stop != 0 && i->lang->stopped != NULL) {
        i->lang->stopped(i);
    }
    end_preload(i, op);
    op_ended(t, op);
    if (i->lang->after != NULL) {
        i->lang->after(i);
    }
}

/* The driver has reported the end of the run. */
static void run_reported(struct interp *i, struct op_table *t)
{
    struct op *op = i->current;
    report_finish(&op->report);
    op->report = i->report;
    report_init(&i->report, REPORT_OF_RUN);
    i->retry_us = 0;
    if (op->stop == 0) {
        end_run(i, t);
    } else {
        i->sweeping = true;
        keeper_sweep(&i->keeper, &i->begun);
    }
}

static void sweep_on(struct interp *i, struct op_table *t)
{
    if (i->sweeping && i->keeper.sweep == KEEPER_SWEEP_DONE) {
        end_run(i, t);
    } else if (i->sweeping && i->keeper.sweep == KEEPER_SWEEP_FAILED) {
        order_end(i, "");
    }
}

/* The process has ended in the middle of a run. */
static void end_dead(struct interp *i, struct op_table *t)
{
    struct op *op = i->current;
    const struct keeper *k = &i->keeper;
    i->current = NULL;
    if (k->exec_errno != 0) {
        char text[sizeof(k->exec_step) + 64];
        snprintf(text, sizeof(text), "cannot start %s: %s", i->lang->name, k->exec_step);
        i->had_state = op->interpreter == OP_INTERPRETER_RESTARTED;
        op->interpreter = OP_INTERPRETER_NONE;
        op_fail(t, op, (enum err_code)k->exec_code, text);
        return;
    }
    take_tails(i, op);
    op->report.displays = i->report.displays; /* displays that were reported are kept */
    framed_init(&i->report.displays, 0);
    char why[256] = "";
    int known = i->lang->explain_death != NULL && i->offence[0] == '\0'
                    ? i->lang->explain_death(k->wait_status, &op->err, why, sizeof(why))
                    : 0;
    if (known == ERR_LANGUAGE) {
        i->had_state = op->interpreter == OP_INTERPRETER_RESTARTED;
        op->interpreter = OP_INTERPRETER_NONE;
        op_fail(t, op, ERR_LANGUAGE, why);
        return;
    }
    bool exited = WIFEXITED(k->wait_status);
    op->exit_code = exited ? WEXITSTATUS(k->wait_status) : SIGNAL_EXIT + WTERMSIG(k->wait_status);
    op->interpreter = OP_INTERPRETER_RESTARTED;
    op->cpu_us = since(k->cpu_us, i->cpu_base_us);
    op->max_rss_kb = k->max_rss_kb;
    if (op->stop != 0) {
        op->status = stopped_status(op->stop);
    } else if (exited && i->lang->exit_is_result && i->offence[0] == '\0' && !i->unbegun) {
        op->status = op->exit_code == 0 ? OP_STATUS_OK : OP_STATUS_ERROR;
    } else if (known == ERR_NO_MEMORY) {
        op->status = OP_STATUS_MEMORY;
        err_ignore(buf_add_str(&op->report.message, why, NULL));
    } else {
        op->status = OP_STATUS_CRASHED;
        death_tell(i, op);
    }
    op_ended(t, op);
}

/* ---- interrupts ------------------------------------------------------------------------------ */

static void interrupt(struct interp *i)
{
    keeper_interrupt(&i->keeper, &i->begun);
    if (i->lang->interrupted != NULL) {
        i->lang->interrupted(i);
    }
    i->retry_us = clock_us() + (RETRY_US << i->retries);
}

/* When no interrupt is pending any more, asks the interpreter for an answer under a new run number.
 */
static void sync_on(struct interp *i)
{
    if (i->syncing && i->retry_us == 0 && i->keeper.owed == 0 && !i->dying) {
        i->run++;
        i->lang->sync(i);
        i->retry_us = clock_us() + (RETRY_US << i->retries);
    }
}

/* There was no answer, so the interrupt or the question was lost. A shell gets it again. Other
 * interpreters are only woken up, because a second interrupt could disturb their handling of the
 * first. */
static void retry(struct interp *i)
{
    if (i->retry_us == 0 || i->dying || clock_us() < i->retry_us) {
        return;
    }
    i->retry_us = 0;
    if (i->keeper.too_early) {
        i->retries = 0; /* the program was still starting and got no interrupt */
    }
    if (i->retries++ < RETRIES_MAX) {
        if (i->syncing) {
            keeper_interrupt(&i->keeper, &i->begun); /* ends a quotation that it may be in */
        } else if (i->lang->interrupt_by != INTERRUPT_BY_SIGNAL) {
            interrupt(i);
        } else {
            keeper_wake(&i->keeper);
            i->retry_us = clock_us() + (RETRY_US << i->retries);
        }
    } else if (i->syncing) {
        order_end(i, "it does not answer after an interrupt");
    }
}

/* ---- reports --------------------------------------------------------------------------------- */

static void on_done_record(struct interp *i, struct op_table *t)
{
    if (i->current != NULL && i->report.run == i->run && !i->sweeping) {
        run_reported(i, t);
    } else if (i->syncing && i->report.run == i->run) {
        /* ask again if another interrupt is pending, since it would hit the next run */
        i->syncing = i->keeper.owed > 0;
        i->retry_us = 0;
    } else if (i->report.run > i->run) {
        order_end(i, "it reported the end of a run that never began");
    } else if (++i->stale > STALE_MAX) { /* a few are as they should be: see bash.c */
        order_end(i, "it reported the ends of earlier runs without end");
    }
    report_reset(&i->report);
}

static void take_reports(struct interp *i, struct op_table *t)
{
    for (size_t taken = 0; taken < REPORT_ROUND && i->report_fd >= 0 && !i->dying;) {
        char chunk[REPORT_CHUNK];
        ssize_t n = read(i->report_fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            fd_close(&i->report_fd);
            return;
        }
        taken += (size_t)n;
        for (size_t at = 0; at < (size_t)n && !i->dying;) {
            struct err err = ERR_INIT;
            size_t used = 0;
            if (report_feed(&i->report, chunk + at, (size_t)n - at, &used, &err) < 0) {
                order_end(i, err.text);
                return;
            }
            at += used;
            if (i->report.missed_interrupt) {
                i->report.missed_interrupt = false;
                if (i->current != NULL && i->current->stop != 0 && !i->sweeping) {
                    interrupt(i);
                }
            }
            if (i->report.done) {
                on_done_record(i, t);
            }
        }
        if ((size_t)n < sizeof(chunk)) {
            return; /* that was all */
        }
    }
}

void interp_stop(struct interp *i, struct op_table *t, enum op_stop reason, bool force)
{
    struct op *op = i->current;
    take_reports(i, t); /* the run may have ended by itself meanwhile */
    if (op == NULL || i->current != op) {
        return;
    }
    if (op->stop == 0) {
        op->stop = reason;
    }
    i->retries = 0;
    if (force) {
        order_end(i, "");
    } else if (!i->sweeping) {
        interrupt(i);
    }
}

/* Bytes of requests and blanks that it has not read; -1 if that is not known. */
static int unread(const struct interp *i)
{
    int there = 0;
    if (i->lang->blank == NULL || i->request_fd < 0 || i->pending.len > 0 ||
        ioctl(i->request_fd, FIONREAD, &there) < 0) {
        return -1;
    }
    return there;
}

static void see_unbegun(struct interp *i)
{
    if (unread(i) > (int)i->blanked) {
        i->unbegun = true;
    }
}

static void write_blank(struct interp *i)
{
    struct buf blank;
    buf_init(&blank, LIMIT_TEXT);
    i->blanked =
        buf_add_str(&blank, i->lang->blank, NULL) == 0 && interp_write(i, &blank, NULL) == 0;
    buf_finish(&blank);
}

/* A run has lasted for a while. If the interpreter reads the blank, it waits for its next run and
 * will never report the end of this one. */
static void look_for_end(struct interp *i, struct op_table *t)
{
    const struct op *op = i->current;
    if (op == NULL || op->stop != 0 || i->dying || i->lang->blank == NULL ||
        clock_us() < i->look_us) {
        return;
    }
    i->look_after_us = i->look_after_us * 2 < LOOK_MAX_US ? i->look_after_us * 2 : LOOK_MAX_US;
    i->look_us = clock_us() + i->look_after_us;
    if (unread(i) != 0) {
        return; /* it has not begun, or is in the middle of it */
    }
    if (!i->blanked) {
        write_blank(i);
    } else {
        take_reports(i, t); /* a report was written before it went on to read */
        if (i->current == op) {
            order_end(i, "it could not report the end of the code, because code has disabled or "
                         "replaced commands that this takes");
        }
    }
}

/* The process is gone. One that was to import a module is replaced now, for the code to come. */
static void end_process(struct interp *i)
{
    bool replace = i->unfit;
    struct err err = ERR_INIT;
    tear_down(i);
    if (replace && interp_prestart(i, &err) < 0) {
        log_warn("%s", err.text); /* the next operation tries again and reports the error */
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

uint64_t interp_poll(struct interp *i, struct poll_set *set, uint64_t now_us)
{
    struct poll_slot none = {0};
    i->slot_status = i->slot_report = i->slot_request = i->slot_out = i->slot_err = none;
    if (!has_process(i)) {
        return UINT64_MAX;
    }
    i->slot_status = poll_set_add(set, i->keeper.status_fd, POLLIN);
    if (!i->dying) {
        i->slot_report = poll_set_add(set, i->report_fd, POLLIN);
        i->slot_request = poll_set_add(set, i->request_fd, i->pending.len > 0 ? POLLOUT : 0);
    }
    uint64_t wake_us = i->retry_us > 0 && !i->dying ? since(i->retry_us, now_us) : UINT64_MAX;
    struct op *op = i->current;
    if (op == NULL) {
        return wake_us;
    }
    if (i->lang->blank != NULL && op->stop == 0 && !i->dying) {
        uint64_t look_us = since(i->look_us, now_us);
        wake_us = look_us < wake_us ? look_us : wake_us;
    }
    uint64_t ran_us = since(now_us, op->begun_us);
    if (ran_us < QUIET_US) {
        return QUIET_US - ran_us < wake_us ? QUIET_US - ran_us : wake_us;
    }
    if (op_stream_room(&op->out) > 0) {
        i->slot_out = poll_set_add(set, i->out_fd, POLLIN);
    }
    if (op_stream_room(&op->err) > 0) {
        i->slot_err = poll_set_add(set, i->err_fd, POLLIN);
    }
    return wake_us;
}

void interp_handle(struct interp *i, const struct poll_set *set, struct op_table *t)
{
    if (!has_process(i)) {
        return;
    }
    if (poll_set_got(set, i->slot_report) != 0) {
        take_reports(i, t);
    }
    short request = poll_set_got(set, i->slot_request);
    if (request & (POLLERR | POLLHUP | POLLNVAL)) {
        see_unbegun(i);
        fd_close(&i->request_fd);
        buf_finish(&i->pending);
        i->pending_at = 0;
    } else if ((request & POLLOUT) && flush_pending(i, NULL) < 0) {
        fd_close(&i->request_fd);
    }
    struct op *op = i->current;
    if (op != NULL && poll_set_got(set, i->slot_out) != 0 && !pump_stream(i->out_fd, &op->out)) {
        fd_close(&i->out_fd);
    }
    if (op != NULL && poll_set_got(set, i->slot_err) != 0 && !pump_stream(i->err_fd, &op->err)) {
        fd_close(&i->err_fd);
    }
    if (poll_set_got(set, i->slot_status) != 0) {
        keeper_read(&i->keeper);
    }
    if (i->keeper.ended) {
        see_unbegun(i);
        take_reports(i, t);
        if (i->current != NULL) {
            i->unfit = i->current->kind == OP_PRELOAD;
            end_dead(i, t);
        } else {
            death_note_loss(i);
        }
        end_process(i);
    } else if (i->current == NULL && (i->request_fd < 0 || i->report_fd < 0)) {
        order_end(i, ""); /* idle but without answers: replace it */
    } else {
        sweep_on(i, t);
        look_for_end(i, t);
        retry(i);
        sync_on(i);
    }
}
