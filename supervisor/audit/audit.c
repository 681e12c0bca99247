/*
 * Between the loop and the disk stands a queue with a limit. The writer takes one line at a time
 * and writes it without the lock, so the loop never waits for longer than it takes to link a line.
 * When the disk is full or slow, lines are lost and counted, and calls go on: who runs code on a
 * server whose log fails is decided by the operator's alerts, not by us.
 *
 * Everything behind the lock is named in the struct; the descriptor is the writer's own. The writer
 * takes no signals, so those of the server reach its loop, and that of a limit of file sizes
 * (SIGXFSZ) stays pending while write() reports the error.
 *
 * At the end the writer has a moment for what is queued. If a write hangs (a file server that is
 * away), the thread is left to the end of the process, with what it uses.
 */
#include "supervisor/audit/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "supervisor/audit/internal.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/http/digest.h"
#include "supervisor/web/http/rate_limit.h"

#define NS_PER_MS     UINT64_C(1000000)
#define LOOK_AGAIN_MS 20

struct queued_line {
    STAILQ_ENTRY(queued_line) node;
    char *text;
    size_t len;
};

struct audit {
    char *path;
    bool keep_code;
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;  /* there is something for the writer */
    uv_cond_t ended; /* the writer has ended */

    /* ---- behind the lock ---- */
    STAILQ_HEAD(, queued_line) queue;
    size_t lines, bytes; /* of the queue, and of the line that is being written */
    bool idle;           /* the writer waits to be woken */
    bool reopen, stop, is_over;
    uint64_t written, dropped_full, dropped_write;

    /* ---- the writer's ---- */
    int fd;
    bool doubtful;        /* of audit_file_write() */
    uint64_t missing;     /* lines since the last one that was written */
    uint64_t next_log_ms; /* of rate_limit() */
};

/* ---- the writer ------------------------------------------------------------------------------ */

static void free_line(struct queued_line *line)
{
    free(line->text);
    free(line);
}

static void open_again(struct audit *a)
{
    struct err err = ERR_INIT;
    int fd = audit_file_open(a->path, true, &err);
    if (fd < 0) {
        log_error("audit log: the file stays the old one: %s", err.text);
        return;
    }
    close(a->fd);
    a->fd = fd;
    a->doubtful = true;
    log_info("audit log: %s was opened again", a->path);
}

/* Returns whether it is there. */
static bool write_line(struct audit *a, const struct queued_line *line)
{
    if (audit_file_write(a->fd, line->text, line->len, &a->doubtful)) {
        if (a->missing > 0) {
            log_warn("audit log: %s is written again; %" PRIu64 " lines are missing", a->path,
                     a->missing);
        }
        a->missing = 0;
        return true;
    }
    int sys = errno;
    a->missing++;
    if (rate_limit(&a->next_log_ms)) {
        log_error("audit log: cannot write to %s: %s; calls go on without their lines", a->path,
                  strerror(sys));
    }
    return false;
}

/* Waits for something to do. Where calls follow each other, the writer looks by itself now and
 * then, so that the loop need not wake it for each: that would cost a call more than its line. */
static void wait_for_work(struct audit *a)
{
    (void)uv_cond_timedwait(&a->wake, &a->lock, LOOK_AGAIN_MS * NS_PER_MS); /* the caller looks */
    while (STAILQ_EMPTY(&a->queue) && !a->stop && !a->reopen) {
        a->idle = true;
        uv_cond_wait(&a->wake, &a->lock);
    }
    a->idle = false;
}

/* Takes the next line; NULL: there is none, and there will be none. */
static struct queued_line *next_queued(struct audit *a)
{
    if (STAILQ_EMPTY(&a->queue) && !a->stop && !a->reopen) {
        wait_for_work(a);
    }
    if (a->reopen) {
        a->reopen = false;
        uv_mutex_unlock(&a->lock);
        open_again(a);
        uv_mutex_lock(&a->lock);
        return next_queued(a);
    }
    struct queued_line *line = STAILQ_FIRST(&a->queue);
    if (line != NULL) {
        STAILQ_REMOVE_HEAD(&a->queue, node);
    }
    return line;
}

static void run_writer(void *arg)
{
    struct audit *a = arg;
    struct queued_line *line;
    sigset_t all;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL); /* cannot fail with these arguments */
    uv_mutex_lock(&a->lock);
    while ((line = next_queued(a)) != NULL) {
        uv_mutex_unlock(&a->lock);
        bool there = write_line(a, line);
        uv_mutex_lock(&a->lock);
        a->written += there;
        a->dropped_write += !there;
        a->lines--;
        a->bytes -= line->len;
        free_line(line);
    }
    a->is_over = true;
    uv_cond_signal(&a->ended);
    uv_mutex_unlock(&a->lock);
}

/* ---- the loop's side ------------------------------------------------------------------------- */

static void free_audit(struct audit *a)
{
    close(a->fd);
    free(a->path);
    free(a);
}

static int start_writer(struct audit *a, struct err *err)
{
    int rc = uv_mutex_init(&a->lock);
    if (rc == 0 && (rc = uv_cond_init(&a->wake)) < 0) {
        uv_mutex_destroy(&a->lock);
    } else if (rc == 0 && (rc = uv_cond_init(&a->ended)) < 0) {
        uv_cond_destroy(&a->wake);
        uv_mutex_destroy(&a->lock);
    } else if (rc == 0 && (rc = uv_thread_create(&a->thread, run_writer, a)) < 0) {
        uv_cond_destroy(&a->ended);
        uv_cond_destroy(&a->wake);
        uv_mutex_destroy(&a->lock);
    }
    return rc < 0 ? err_set(err, ERR_NO_MEMORY, "cannot start a thread: %s", uv_strerror(rc)) : 0;
}

static int open_log(const char *path, bool may_make, bool keep_code, struct audit **ret,
                    struct err *err)
{
    unsigned char probe[WEB_DIGEST_BYTES];
    /* loads GnuTLS now, so that an error shows at the start */
    int rc = web_digest_sha256(view_of(""), probe, err);
    if (rc < 0) {
        return err_wrap(err, "--audit-log");
    }
    int fd = audit_file_open(path, may_make, err);
    if (fd < 0) {
        return err_wrap(err, "--audit-log");
    }
    struct audit *a = alloc_one(struct audit);
    a->path = alloc_strdup(path);
    a->keep_code = keep_code;
    a->fd = fd;
    a->doubtful = true;
    STAILQ_INIT(&a->queue);
    rc = start_writer(a, err);
    if (rc < 0) {
        free_audit(a);
        return err_wrap(err, "--audit-log");
    }
    *ret = a;
    return 0;
}

int audit_open(const char *path, bool keep_code, struct audit **ret, struct err *err)
{
    return open_log(path, true, keep_code, ret, err);
}

int audit_open_made(const char *path, struct audit **ret, struct err *err)
{
    return open_log(path, false, false, ret, err);
}

void audit_call(struct audit *a, const struct audit_call *call)
{
    if (a == NULL) {
        return;
    }
    struct queued_line *line = alloc_one(struct queued_line);
    line->text = audit_line(call, clock_wall_ms(), a->keep_code, &line->len);
    uv_mutex_lock(&a->lock);
    bool fits = a->lines < AUDIT_QUEUE_LINES && a->bytes + line->len <= AUDIT_QUEUE_BYTES;
    if (fits) {
        STAILQ_INSERT_TAIL(&a->queue, line, node);
        a->lines++;
        a->bytes += line->len;
        if (a->idle) {
            uv_cond_signal(&a->wake);
        }
    } else {
        a->dropped_full++;
    }
    uv_mutex_unlock(&a->lock);
    if (!fits) {
        free_line(line);
    }
}

void audit_reopen(struct audit *a)
{
    if (a != NULL) {
        uv_mutex_lock(&a->lock);
        a->reopen = true;
        uv_cond_signal(&a->wake);
        uv_mutex_unlock(&a->lock);
    }
}

void audit_measure(struct audit *a)
{
    if (a != NULL) {
        uv_mutex_lock(&a->lock);
        metrics_set(METRIC_AUDIT_LINES, 0, 0, a->written);
        metrics_set(METRIC_AUDIT_DROPPED, METRIC_DROP_QUEUE_FULL, 0, a->dropped_full);
        metrics_set(METRIC_AUDIT_DROPPED, METRIC_DROP_WRITE_FAILED, 0, a->dropped_write);
        metrics_set(METRIC_AUDIT_QUEUE, 0, 0, a->lines);
        uv_mutex_unlock(&a->lock);
    }
}

/* Whether the writer has ended in time. */
static bool stop_writer(struct audit *a)
{
    uint64_t until_ns = uv_hrtime() + AUDIT_CLOSE_MS * NS_PER_MS;
    uint64_t now_ns;
    uv_mutex_lock(&a->lock);
    a->stop = true;
    uv_cond_signal(&a->wake);
    while (!a->is_over && (now_ns = uv_hrtime()) < until_ns) {
        (void)uv_cond_timedwait(&a->ended, &a->lock, until_ns - now_ns); /* the loop looks itself */
    }
    bool is_over = a->is_over;
    size_t left = a->lines;
    uv_mutex_unlock(&a->lock);
    if (!is_over) {
        log_error("audit log: %zu lines could not be written to %s in time", left, a->path);
    }
    return is_over;
}

void audit_close(struct audit *a)
{
    if (a == NULL || !stop_writer(a)) {
        return; /* a writer that hangs uses all of it */
    }
    uv_thread_join(&a->thread);
    uv_cond_destroy(&a->ended);
    uv_cond_destroy(&a->wake);
    uv_mutex_destroy(&a->lock);
    free_audit(a);
}
