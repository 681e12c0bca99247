/*
 * A worker logs to its stderr in the format of common/log.h; the programs that it runs write to it
 * in no format at all. After an escape from a sandbox all of it may be hostile in amount and
 * content. So output is cut into lines of bounded length, limited in rate (dropped lines are
 * counted and reported), stripped of the sender's timestamp, and labelled with facts that the
 * sender cannot choose. The level is taken from the line if it has one.
 *
 * When the worker has died, the pipe is read until it is empty, not until end of file: another
 * process may hold its other end open for ever.
 */
#include "supervisor/fleet/host/child_log.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/host.h"

#define LINE_BYTES     1024 /* longer lines are cut */
#define LINES_BURST    200  /* burst of the rate limit ... */
#define LINES_PER_S    50   /* ... and its rate */
#define LAST_BYTES_MAX (64u << 10)

struct child_log {
    uv_pipe_t pipe;
    struct fleet_host *host;
    char sandbox[FLEET_ID_SIZE];
    uint64_t generation;
    int pid;
    char line[LINE_BYTES];
    size_t line_len;
    bool cut;           /* the current line is longer than line[] */
    uint64_t tokens_ms; /* rate limit: time credit, one line costs 1000 / LINES_PER_S */
    uint64_t refilled_ms;
    uint64_t dropped;
    char chunk[4096];
};

/* Returns the text after "<time> <level> <component>: ", or the whole line if it has no such
 * head. */
static const char *parse_head(const char *line, enum log_level *ret_level)
{
    const char *level = strchr(line, ' ');
    if (level == NULL || strchr("0123456789", line[0]) == NULL) {
        return line;
    }
    level++;
    size_t level_len = strcspn(level, " ");
    char name[8];
    if (level_len >= sizeof(name)) {
        return line;
    }
    memcpy(name, level, level_len);
    name[level_len] = '\0';
    const char *text = strstr(level, ": ");
    if (text == NULL || !log_level_parse(name, ret_level)) {
        return line;
    }
    return text + 2;
}

static bool take_token(struct child_log *log)
{
    uint64_t now_ms = uv_now(log->pipe.loop);
    log->tokens_ms += now_ms - log->refilled_ms;
    log->refilled_ms = now_ms;
    uint64_t most_ms = LINES_BURST * 1000 / LINES_PER_S;
    if (log->tokens_ms > most_ms) {
        log->tokens_ms = most_ms;
    }
    if (log->tokens_ms < 1000 / LINES_PER_S) {
        log->dropped++;
        return false;
    }
    log->tokens_ms -= 1000 / LINES_PER_S;
    return true;
}

static void report_dropped(struct child_log *log)
{
    if (log->dropped > 0) {
        log_warn("worker log: %llu lines dropped, too many at once sandbox=%s pid=%d gen=%llu",
                 (unsigned long long)log->dropped, log->sandbox, log->pid,
                 (unsigned long long)log->generation);
        log->dropped = 0;
    }
}

static void end_line(struct child_log *log)
{
    if (log->line_len > 0 && take_token(log)) {
        report_dropped(log);
        log->line[log->line_len] = '\0';
        /* the level of output without a format, which is not from the worker's own log */
        enum log_level level = LOG_WARN;
        const char *text = parse_head(log->line, &level);
        log_line(level, "worker: %s%s sandbox=%s pid=%d gen=%llu", text, log->cut ? "..." : "",
                 log->sandbox, log->pid, (unsigned long long)log->generation);
    }
    log->line_len = 0;
    log->cut = false;
}

static void feed(struct child_log *log, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (c == '\n') {
            end_line(log);
        } else if (log->line_len == LINE_BYTES - 1) {
            log->cut = true;
        } else {
            log->line[log->line_len++] = c == '\0' ? ' ' : c;
        }
    }
}

static void on_log_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct child_log *log = handle->data;
    (void)suggested;
    *ret_buf = uv_buf_init(log->chunk, sizeof(log->chunk));
}

static void on_log_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
    struct child_log *log = stream->data;
    if (n > 0) {
        feed(log, data->base, (size_t)n);
    } else if (n < 0) {
        uv_read_stop(stream);
    }
}

static void on_log_closed(uv_handle_t *handle)
{
    struct child_log *log = handle->data;
    fleet_host_release(log->host);
    free(log);
}

int child_log_start(struct fleet_host *host, int pipe_fd, const char *sandbox, uint64_t generation,
                    struct child_log **ret, struct err *err)
{
    struct child_log *log = alloc_one(struct child_log);
    log->host = host;
    strncpy(log->sandbox, sandbox, sizeof(log->sandbox) - 1);
    log->generation = generation;
    log->tokens_ms = LINES_BURST * 1000 / LINES_PER_S;
    log->refilled_ms = uv_now(host->loop);
    uv_pipe_init(host->loop, &log->pipe, 0);
    log->pipe.data = log;
    fleet_host_hold(host);

    int rc = uv_pipe_open(&log->pipe, pipe_fd);
    if (rc < 0) {
        close(pipe_fd);
    } else {
        rc = uv_read_start((uv_stream_t *)&log->pipe, on_log_alloc, on_log_read);
    }
    if (rc < 0) {
        uv_close((uv_handle_t *)&log->pipe, on_log_closed);
        return err_sys(err, ERR_IO, -rc, "reading a worker's log");
    }
    *ret = log;
    return 0;
}

void child_log_set_pid(struct child_log *log, int pid)
{
    log->pid = pid;
}

void child_log_stop(struct child_log *log)
{
    if (log == NULL) {
        return;
    }
    uv_os_fd_t fd;
    if (uv_is_active((uv_handle_t *)&log->pipe) && uv_fileno((uv_handle_t *)&log->pipe, &fd) == 0) {
        size_t total = 0;
        ssize_t n;
        while (total < LAST_BYTES_MAX && (n = read(fd, log->chunk, sizeof(log->chunk))) > 0) {
            feed(log, log->chunk, (size_t)n);
            total += (size_t)n;
        }
    }
    end_line(log);
    report_dropped(log);
    uv_close((uv_handle_t *)&log->pipe, on_log_closed);
}
