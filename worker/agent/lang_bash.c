/*
 * Bash needs no driver process: an interactive shell already has what a live interpreter needs. It
 * reads commands from its stdin, a pipe from us; SIGINT throws it back to reading the next
 * command instead of ending it; an error in a script does neither. Interactive noise (prompts, the
 * newline after an interrupt) goes to its own stderr, which is /dev/null; user code gets the real
 * one.
 *
 * A run is two lines on that pipe. The first sources a memory file that we have written: set the
 * arguments, then eval the code with stdin, stderr and environment of this run, and our
 * descriptors closed. Inside a sourced file bash does not consider itself interactive, so neither
 * "exit" nor job numbers are printed. eval keeps the code out of a function, where `declare` would
 * be local. The second line reports $?. Bash reads such a pipe byte by byte, so the lines are
 * short.
 *
 * SIGINT is a blunt tool here. Bash now and then overlooks one (when it is just forking), and now
 * and then acts on one twice: by itself, and because the program it waited for died of it. The
 * second time it throws away the line that it is reading, which may be our second line. Therefore
 * an interrupt is followed by one more report line, of a code that says what happened, and both are
 * repeated while no report comes. The first report of a run counts (interp.c). And before the next
 * run begins, the shell has to answer once, so that it is known to read from the start of a line.
 * If the shell ends (exit, set -e, exec), its exit code is the outcome.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fd.h"
#include "worker/agent/drivers.h"
#include "worker/agent/interp.h"
#include "worker/agent/request.h"

/* In the shell. Above the numbers that scripts use and that bash takes for itself. */
#define SCRIPT_FD 60
#define STDIN_FD  61
#define ERR_FD    62
#define REPORT_FD 63

#define INTERRUPTED "130" /* 128 + SIGINT */

#define QUOTE_GROWTH 4           /* ' becomes '\'' */
#define KEEP_BYTES   (64u << 10) /* memory files are emptied after a run that made them larger */

static int memory_file(const char *name, int *ret_fd, struct err *err)
{
    *ret_fd = memfd_create(name, MFD_CLOEXEC);
    return *ret_fd < 0 ? err_sys(err, ERR_IO, errno, "cannot make a memory file") : 0;
}

static int start(struct interp *i, struct interp_start *s, struct err *err)
{
    static const char *const argv[] = {"bash", "--noprofile", "--norc", "--noediting", "-i"};
    for (size_t k = 0; k < sizeof(argv) / sizeof(argv[0]); k++) {
        s->argv[k] = (char *)(uintptr_t)argv[k];
    }
    int rc = memory_file("script", &i->script_fd, err);
    if (rc == 0) {
        rc = memory_file("stdin", &i->stdin_fd, err);
    }
    struct buf setup;
    buf_init(&setup, LIMIT_CODE);
    if (rc == 0) {
        rc = buf_add_str(&setup, driver_bash, err);
    }
    if (rc == 0) {
        rc = interp_write(i, &setup, err);
    }
    buf_finish(&setup);
    const struct keeper_fd fds[] = {
        {s->request_end, STDIN_FILENO}, {s->out_end, STDOUT_FILENO}, {s->null_fd, STDERR_FILENO},
        {i->script_fd, SCRIPT_FD},      {i->stdin_fd, STDIN_FD},     {s->err_end, ERR_FD},
        {s->report_end, REPORT_FD},
    };
    for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++) {
        s->job.fds[s->job.fd_count++] = fds[k];
    }
    return rc;
}

static int add_quoted(struct buf *out, struct view v, struct err *err)
{
    int rc = buf_add(out, "'", 1, err);
    const char *p = v.data;
    size_t left = v.len;
    while (rc == 0 && left > 0) {
        const char *quote = memchr(p, '\'', left);
        size_t n = quote != NULL ? (size_t)(quote - p) : left;
        rc = buf_add(out, p, n, err);
        if (rc == 0 && quote != NULL) {
            rc = buf_add_str(out, "'\\''", err);
            n++;
        }
        p += n;
        left -= n;
    }
    return rc < 0 ? rc : buf_add(out, "'", 1, err);
}

/* NAME='value' */
static int add_assignment(struct buf *out, struct view entry, struct err *err)
{
    const char *equals = memchr(entry.data, '=', entry.len);
    size_t name = (size_t)(equals - entry.data) + 1;
    int rc = buf_add(out, entry.data, name, err);
    if (rc == 0) {
        rc = add_quoted(out, view_bytes(equals + 1, entry.len - name), err);
    }
    return rc < 0 ? rc : buf_add(out, " ", 1, err);
}

static int build_script(struct request *r, struct buf *out, struct err *err)
{
    int rc = buf_add_str(out, "builtin set --", err);
    for (size_t k = 0; rc == 0 && k < r->arg_count; k++) {
        rc = buf_add(out, " ", 1, err);
        if (rc == 0) {
            rc = add_quoted(out, request_next(r), err);
        }
    }
    if (rc == 0) {
        rc = buf_add_str(out, "; ", err);
    }
    for (size_t k = 0; rc == 0 && k < r->env_count; k++) {
        rc = add_assignment(out, request_next(r), err);
    }
    if (rc == 0) {
        /* not "builtin eval", which forgets the assignments after the first command */
        rc = buf_add_str(out, "eval ", err);
    }
    if (rc == 0) {
        rc = add_quoted(out, r->code, err);
    }
    if (rc == 0 && r->has_stdin) {
        rc = buf_printf(out, err, " </proc/self/fd/%d", STDIN_FD);
    } else if (rc == 0) {
        rc = buf_add_str(out, " </dev/null", err);
    }
    if (rc == 0) {
        rc = buf_printf(out, err, " 2>&%d %d<&- %d<&- %d>&- %d>&-\n", ERR_FD, SCRIPT_FD, STDIN_FD,
                        ERR_FD, REPORT_FD);
    }
    return rc;
}

static int fill(int fd, const void *data, size_t len, struct err *err)
{
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        return err_sys(err, ERR_IO, errno, "empty a memory file");
    }
    return fd_write_all(fd, data, len, err);
}

/* Reports a run: the exit code as three digits, the run number as ten. */
static int add_report_line(const struct interp *i, const char *code, struct buf *out,
                           struct err *err)
{
    return buf_printf(out, err,
                      "builtin printf X\\\\0\\\\0\\\\0\\\\3%%03dD\\\\0\\\\0\\\\0\\\\012%010" PRIu32
                      " %s >&%d\n",
                      i->run, code, REPORT_FD);
}

static int submit(struct interp *i, struct buf *request, struct err *err)
{
    struct request r;
    struct buf script;
    struct buf lines;
    request_open(request, &r);
    buf_init(&script, (size_t)LIMIT_FRAME * QUOTE_GROWTH);
    buf_init(&lines, LIMIT_TEXT);
    int rc = build_script(&r, &script, err);
    if (rc == 0) {
        rc = fill(i->script_fd, script.data, script.len, err);
    }
    if (rc == 0 && r.has_stdin) {
        rc = fill(i->stdin_fd, r.stdin_data.data, r.stdin_data.len, err);
    }
    if (rc == 0) {
        rc = buf_printf(&lines, err, ". /proc/self/fd/%d\n", SCRIPT_FD);
    }
    if (rc == 0) {
        rc = add_report_line(i, "\"$?\"", &lines, err);
    }
    if (rc == 0) {
        rc = interp_write(i, &lines, err);
    }
    buf_finish(&lines);
    buf_finish(&script);
    return rc;
}

/* A report on a line of its own; whatever is left of a half-read line ends before it. If memory is
 * out, there are the retries and the deadline. */
static void report_again(struct interp *i, const char *code)
{
    struct buf again;
    buf_init(&again, LIMIT_TEXT);
    if (buf_add(&again, "\n", 1, NULL) == 0 && add_report_line(i, code, &again, NULL) == 0) {
        err_ignore(interp_write(i, &again, NULL));
    }
    buf_finish(&again);
}

static void interrupted(struct interp *i)
{
    report_again(i, INTERRUPTED);
}

static void sync_again(struct interp *i)
{
    report_again(i, "0");
}

static void shrink(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > (off_t)KEEP_BYTES) {
        (void)!ftruncate(fd, 0);
    }
}

static void after(struct interp *i)
{
    shrink(i->script_fd);
    shrink(i->stdin_fd);
}

const struct lang lang_bash = {
    .name = "bash",
    .program = "bash",
    .exit_is_result = true,
    .start = start,
    .submit = submit,
    .interrupted = interrupted,
    .sync = sync_again,
    .after = after,
};
