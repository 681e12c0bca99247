/*
 * A forked process does the work as the sandbox user, without any of the agent's descriptors. That
 * makes paths harmless: user code could follow the same symlink, /proc entry or mount itself. The
 * process executes nothing, so it needs no program of the image and is not affected by the user's
 * process limit. Content to be written needs no pipe, because the child has it from the fork.
 */
#include "worker/agent/files/op.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "worker/agent/run/filework.h"
#include "worker/agent/run/pump.h"

__attribute__((noreturn)) static void become_worker(const struct msg_start *m,
                                                    const struct spawn_config *spawn, int out_fd,
                                                    int report_fd)
{
    struct err err = ERR_INIT;
    int keep[] = {out_fd < report_fd ? out_fd : report_fd, out_fd < report_fd ? report_fd : out_fd};
    spawn_close_all_but(keep, 2);
    int rc = spawn_become_user(spawn, 0, &err);
    /* this process holds a copy of the agent's memory, which user code must not read */
    if (rc == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        rc = err_sys(&err, ERR_INTERNAL, errno, "hide memory");
    }
    if (rc == 0 && chdir(spawn->workspace) < 0) {
        rc = err_sys(&err, ERR_PATH, errno, "%s", spawn->workspace);
    }
    filework_run(m, out_fd, report_fd, rc, &err);
    _exit(0);
}

void fileop_begin(struct op_table *t, struct op *op, const struct msg_start *m,
                  const struct spawn_config *spawn)
{
    struct err err = ERR_INIT;
    int out[2] = {-1, -1};
    int report[2] = {-1, -1};
    op_run(t, op);
    int rc = spawn_pipe(NULL, 0, out, &err);
    if (rc == 0) {
        rc = spawn_pipe(NULL, 0, report, &err);
    }
    pid_t pid = -1;
    if (rc == 0) {
        pid = fork();
        if (pid == 0) {
            become_worker(m, spawn, out[1], report[1]);
        }
        if (pid < 0) {
            rc =
                err_sys(&err, errno == EAGAIN ? ERR_BUSY : ERR_IO, errno, "cannot start a process");
        }
    }
    fd_close(&out[1]);
    fd_close(&report[1]);
    if (rc < 0) {
        fd_close(&out[0]);
        fd_close(&report[0]);
        op_fail(t, op, (enum err_code)err.code, err.text);
        return;
    }
    op->file = alloc_one(struct fileop);
    *op->file = (struct fileop){.pid = pid, .out_fd = out[0], .report_fd = report[0]};
}

static void kill_worker(const struct fileop *f)
{
    if (f->pid > 0) {
        (void)kill(f->pid, SIGKILL);
    }
}

void fileop_stop(struct op *op, enum op_stop reason)
{
    if (op->stop == 0) {
        op->stop = reason;
    }
    kill_worker(op->file);
}

void fileop_poll(struct op *op, struct poll_set *set)
{
    struct fileop *f = op->file;
    struct poll_slot none = {0};
    f->slot_out = op_stream_room(&op->out) > 0 ? poll_set_add(set, f->out_fd, POLLIN) : none;
    f->slot_report = poll_set_add(set, f->report_fd, POLLIN);
}

static void end_file_op(struct changes *c, struct op_table *t, struct op *op)
{
    struct fileop *f = op->file;
    struct report *r = &op->report;
    pump_tail(f->out_fd, &op->out);
    fd_close(&f->out_fd);
    fd_close(&f->report_fd);
    kill_worker(f); /* the report is complete, so the process is not needed any more */
    bool reported = r->done && !f->offended;
    free(f);
    op->file = NULL;
    if (op->stop != 0) {
        report_reset(r);
        op->status = op->stop == OP_STOP_TIMEOUT ? OP_STATUS_TIMEOUT : OP_STATUS_CANCELLED;
    } else if (!reported) {
        op_fail(t, op, ERR_INTERNAL, "the file operation was killed");
        return;
    } else {
        op->status = r->fail_code != 0 ? OP_STATUS_FAILED : OP_STATUS_OK;
        if (op->kind == OP_FILE_WRITE) {
            changes_know(c, r->file_stamp);
        }
    }
    op_done(t, op);
}

void fileop_handle(struct changes *c, struct op_table *t, struct op *op, const struct poll_set *set)
{
    struct fileop *f = op->file;
    if (poll_set_got(set, f->slot_out) != 0 && !pump_stream(f->out_fd, &op->out)) {
        fd_close(&f->out_fd);
    }
    if (poll_set_got(set, f->slot_report) == 0) {
        return;
    }
    char chunk[LIMIT_TEXT];
    ssize_t n = read(f->report_fd, chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        size_t used = 0;
        f->offended = report_feed(&op->report, chunk, (size_t)n, &used, NULL) < 0;
        if (!f->offended && !op->report.done) {
            return;
        }
    }
    end_file_op(c, t, op);
}

bool fileop_reaped(struct op *op, pid_t pid)
{
    if (op->file == NULL || op->file->pid != pid) {
        return false;
    }
    op->file->pid = 0;
    return true;
}
