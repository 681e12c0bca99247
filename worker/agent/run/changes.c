/*
 * Most runs change no file and must not pay for those that do. So inotify watches the directories,
 * and its descriptor is read only when a run begins and when it ends: usually one system call that
 * finds nothing. The loop does not poll that descriptor, so a background process that writes
 * between runs does not wake the agent.
 *
 * If there was an event, a process of the sandbox user scans for new files (changescan.h). It also
 * sets the watches, before it reads a directory, with the rights of user code; so the agent follows
 * no path that user code made, and needs no rights to the workspace. While some directory may have
 * no watch, the state is "blind": any run may have changed something, so each ends with a scan.
 * That is so before the first scan, after a directory was made, after events were lost, and when
 * there are too many directories.
 *
 * User code may control the scanning process, so its report is checked and it has a deadline. If it
 * fails, the run loses its list of files but does not fail.
 */
#include "worker/agent/run/changes.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/outcome.h"
#include "worker/agent/run/changescan.h"

#define EVENT_BYTES   16384
#define READS_MAX     64   /* beyond this a scan is cheaper than reading all events */
#define WATCHES_RENEW 8192 /* watches added in all, stale ones included, before a fresh start */
#define FOUND_MAX     (LIMIT_CHANGED * (LIMIT_PATH + 128u))
#define READ_BYTES    65536

/* ---- what has happened ----------------------------------------------------------------------- */

static void become_blind(struct changes *c)
{
    c->blind = true;
    c->blind_seq++;
    c->seq++;
}

/* Opens a new inotify descriptor that has no watches yet. */
static void renew(struct changes *c)
{
    fd_close(&c->fd);
    c->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    become_blind(c);
}

void changes_init(struct changes *c, const struct spawn_config *spawn)
{
    *c = (struct changes){.spawn = spawn, .fd = -1};
    renew(c);
    if (c->fd < 0) {
        log_debug("no inotify (%s): every run ends with a look at all files", strerror(errno));
    }
}

void changes_finish(struct changes *c)
{
    fd_close(&c->fd);
}

static void take_event(struct changes *c, const struct inotify_event *e)
{
    const char *name = e->len > 0 ? e->name : "";
    bool is_new = (e->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
    if (e->mask & IN_Q_OVERFLOW) {
        become_blind(c);
    } else if (name[0] == '\0' || changescan_skips(name)) {
        return; /* an event of the directory itself, or a name that is no result */
    } else if (!(e->mask & IN_ISDIR)) {
        c->seq++;
    } else if (is_new) {
        become_blind(c); /* files may have been made in it before it was watched */
    }
}

static void drain(struct changes *c)
{
    _Alignas(struct inotify_event) char events[EVENT_BYTES];
    for (int i = 0; c->fd >= 0; i++) {
        ssize_t n = read(c->fd, events, sizeof(events));
        if (n <= 0) {
            return;
        }
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(events + at);
            take_event(c, e);
            at += (ssize_t)(sizeof(*e) + e->len);
        }
        if (i == READS_MAX) {
            renew(c);
            return;
        }
    }
}

void changes_begin(struct changes *c, struct op *op)
{
    struct timespec now;
    drain(c);
    op->changes_seq = c->seq;
    /* file systems use this clock, which is behind the exact one */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    op->began_wall_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- looking --------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void become_scanner(const struct changes *c, const struct op *op,
                                                     int out_fd, int report_fd)
{
    struct err err = ERR_INIT;
    int keep[] = {out_fd, report_fd, c->fd};
    uint64_t past[CHANGES_KNOWN];
    struct changescan s = {.watch_fd = c->fd, .since_ns = op->began_wall_ns, .past = past};
    for (size_t i = 0; i < CHANGES_KNOWN; i++) {
        if (c->known[i].at_us > 0 && c->known[i].at_us <= op->begun_us) {
            past[s.past_count++] = c->known[i].print;
        }
    }
    for (size_t i = 0; i < 2; i++) { /* ascending */
        for (size_t k = 0; k < 2 - i; k++) {
            if (keep[k] > keep[k + 1]) {
                int high = keep[k];
                keep[k] = keep[k + 1];
                keep[k + 1] = high;
            }
        }
    }
    spawn_close_all_but(keep, 3);
    int rc = spawn_become_user(c->spawn, 0, &err);
    /* this process holds a copy of the agent's memory, which user code must not read */
    if (rc == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        rc = err_sys(&err, ERR_INTERNAL, errno, "hide memory");
    }
    if (rc == 0 && chdir(c->spawn->workspace) < 0) {
        rc = err_sys(&err, ERR_PATH, errno, "%s", c->spawn->workspace);
    }
    changescan_run(&s, out_fd, report_fd, rc, &err);
    _exit(0);
}

static int begin_scan(const struct changes *c, struct op *op, struct err *err)
{
    int out[2] = {-1, -1};
    int report[2] = {-1, -1};
    pid_t pid = -1;
    int rc = spawn_pipe(NULL, 0, out, err);
    if (rc == 0) {
        rc = spawn_pipe(NULL, 0, report, err);
    }
    if (rc == 0) {
        pid = fork();
        if (pid == 0) {
            become_scanner(c, op, out[1], report[1]);
        }
        rc = pid < 0 ? err_sys(err, ERR_BUSY, errno, "cannot start a process") : 0;
    }
    fd_close(&out[1]);
    fd_close(&report[1]);
    if (rc < 0) {
        fd_close(&out[0]);
        fd_close(&report[0]);
        return rc;
    }
    op->scan = alloc_one(struct scan);
    *op->scan = (struct scan){
        .pid = pid, .out_fd = out[0], .report_fd = report[0], .blind_seq = c->blind_seq};
    buf_init(&op->scan->found, FOUND_MAX);
    report_init(&op->scan->report, REPORT_OF_SCAN);
    return 0;
}

bool changes_end(struct changes *c, struct op *op)
{
    struct err err = ERR_INIT;
    drain(c);
    if (c->seq == op->changes_seq && !c->blind && c->fd >= 0) {
        return false;
    }
    if (begin_scan(c, op, &err) < 0) {
        log_debug("cannot look for changed files: %s", err.text);
        op->files_more = true;
        return false;
    }
    return true;
}

/* ---- what was found -------------------------------------------------------------------------- */

static void close_scan(struct op *op)
{
    struct scan *s = op->scan;
    if (s->pid > 0) {
        (void)kill(s->pid,
                   SIGKILL); /* the report is complete, so the process is not needed any more */
    }
    fd_close(&s->out_fd);
    fd_close(&s->report_fd);
    buf_finish(&s->found);
    report_finish(&s->report);
    free(s);
    op->scan = NULL;
}

static uint64_t get_print(const uint8_t *at)
{
    uint64_t print = 0;
    for (size_t i = 0; i < CHANGESCAN_PRINT_BYTES; i++) {
        print = print << 8 | at[i];
    }
    return print;
}

void changes_know(struct changes *c, uint64_t stamp)
{
    if (stamp != 0) {
        size_t place = c->known_count++ % CHANGES_KNOWN;
        c->known[place].print = stamp;
        c->known[place].at_us = clock_us();
    }
}

/* Moves what was found to the operation. */
static int take_found(struct changes *c, struct op *op, struct err *err)
{
    const struct buf *b = &op->scan->found;
    uint64_t prints[LIMIT_CHANGED];
    size_t count = 0;
    for (size_t at = 0; at < b->len; count++) {
        struct view item;
        size_t used = 0;
        if (b->len - at < CHANGESCAN_PRINT_BYTES || count == LIMIT_CHANGED) {
            return err_set(err, ERR_PROTOCOL, "cut off, or too many");
        }
        prints[count] = get_print(b->data + at);
        at += CHANGESCAN_PRINT_BYTES;
        int rc = frame_next(b->data + at, b->len - at, b->len, &item, &used, err);
        if (rc == 0) {
            rc = err_set(err, ERR_PROTOCOL, "cut off");
        }
        if (rc > 0) {
            rc = outcome_check_entry_item(item, err);
        }
        if (rc == 0) {
            rc = framed_add_item(&op->files, item, err);
        }
        if (rc < 0) {
            return rc;
        }
        at += used;
    }
    for (size_t i = 0; i < count; i++) {
        changes_know(c, prints[i]);
    }
    return 0;
}

static void end_changes_op(struct changes *c, struct op_table *t, struct op *op)
{
    struct scan *s = op->scan;
    struct err err = ERR_INIT;
    bool reported = s->report.done && !s->offended;
    op->files_more = !reported || s->report.truncated;
    if (reported && take_found(c, op, &err) < 0) {
        log_warn("changed files are not told: %s", err.text);
        framed_finish(&op->files);
        op->files_more = true;
        reported = false;
    }
    bool watched = reported && s->report.fail_code == 0 && s->report.watches > 0;
    if (watched && s->report.watches >= WATCHES_RENEW) {
        renew(c);
    } else if (watched) {
        drain(c);
        if (c->blind_seq == s->blind_seq) {
            c->blind =
                false; /* since the scan began, no directory was made and no event was lost */
        }
    }
    close_scan(op);
    op_done(t, op);
}

void changes_poll(struct op *op, struct poll_set *set)
{
    struct scan *s = op->scan;
    s->slot_out = poll_set_add(set, s->out_fd, POLLIN);
    s->slot_report = poll_set_add(set, s->report_fd, POLLIN);
}

static void read_found(struct scan *s)
{
    while (s->out_fd >= 0 && !s->offended) {
        if (buf_reserve(&s->found, 1, NULL) < 0) {
            s->offended = true;
            return;
        }
        char chunk[READ_BYTES];
        ssize_t n = read(s->out_fd, chunk, sizeof(chunk));
        if (n < 0) {
            return;
        }
        if (n == 0) {
            fd_close(&s->out_fd);
        } else if (buf_add(&s->found, chunk, (size_t)n, NULL) < 0) {
            s->offended = true;
        }
    }
}

void changes_handle(struct changes *c, struct op_table *t, struct op *op,
                    const struct poll_set *set)
{
    struct scan *s = op->scan;
    if (poll_set_got(set, s->slot_out) != 0) {
        read_found(s);
    }
    if (poll_set_got(set, s->slot_report) == 0) {
        return;
    }
    char chunk[LIMIT_TEXT];
    ssize_t n = read(s->report_fd, chunk, sizeof(chunk));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        size_t used = 0;
        s->offended = s->offended || report_feed(&s->report, chunk, (size_t)n, &used, NULL) < 0;
        if (!s->offended && !s->report.done) {
            return;
        }
    }
    read_found(s); /* everything was written before the report */
    end_changes_op(c, t, op);
}

void changes_stop(const struct op *op)
{
    if (op->scan->pid > 0) {
        (void)kill(op->scan->pid, SIGKILL);
    }
}

void changes_drop(struct op *op)
{
    if (op->scan != NULL) {
        close_scan(op);
    }
}

bool changes_reaped(struct op *op, pid_t pid)
{
    if (op->scan == NULL || op->scan->pid != pid) {
        return false;
    }
    op->scan->pid = 0;
    return true;
}
