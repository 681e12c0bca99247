/*
 * Bash needs no driver process, because an interactive shell already is a live interpreter. It
 * reads commands from its stdin, a pipe from the agent. SIGINT makes it read the next command
 * instead of ending it, and an error in a script does neither. Its own stderr, which gets prompts
 * and the newline after an interrupt, is /dev/null; user code gets the real one.
 *
 * A run is one line on that pipe, which sources a memory file that the agent has written. The file
 * sets the arguments, evals the code with stdin, stdout, stderr and environment of this run and
 * without our descriptors, and reports $?. An "exec >log" lasts for its own run only, since later
 * output would be lost otherwise. Inside a sourced file bash does not consider itself interactive,
 * so it prints neither "exit" nor job numbers. eval keeps the code out of a function, where
 * `declare` would be local. If the end of the file is not reached (return, an interrupt),
 * PROMPT_COMMAND (drivers/bash.sh) reports the run; the line restores PROMPT_COMMAND if code has
 * set its own. If the shell ends (exit, set -e, exec), its exit code is the outcome. An interrupt
 * skips the rest of the line, which tells it from a return. $? is then that of the interrupted
 * command, so an interrupted run is reported with 130.
 *
 * SIGINT is unreliable in bash. Bash forgets a SIGINT that comes while a program that it waits for
 * ends by itself. It does not forget a trap, so a trap (drivers/bash.sh) stops the list before its
 * next command (interrupt.c). Sometimes bash acts on an interrupt twice, and the second time it
 * discards the line that it is reading. So every step is idempotent: the file runs once per run
 * number, the first report of a run counts (interp.c), the rest of a line does nothing, and the
 * trap does nothing between runs. The interrupt is repeated until the run is reported. Before the
 * next run begins the shell must answer once, which shows that it reads commands and has no pending
 * trap. An interrupted `wait` also cuts short the next one, so PROMPT_COMMAND calls `wait` for a
 * process that never existed.
 *
 * Code may define functions and aliases as it likes, and a function comes before a builtin. So all
 * that is ours says "\builtin", which no alias replaces. A shell in which code has replaced or
 * disabled even that may come to the end of a run and not report it. Then it reads a blank that
 * interp.c writes (look_for_end()), and is ended with that reason. So it is if code makes the
 * variable of the status read-only: it is empty outside of reports, and an empty one is not
 * reported. PROMPT_COMMAND enables again what a run cannot begin without.
 *
 * A DEBUG trap lasts for its own run, since bash would call it for our commands and not for those
 * of later runs, which are in a sourced file. It is called for the first of ours before that can
 * remove it, and what it writes then goes to /dev/null.
 *
 * A child that bash forks in the moment of an interrupt may act on it as the shell does and read
 * our commands. The keeper avoids that as far as it can (interrupt.c), and PROMPT_COMMAND ends such
 * a child before it reads anything.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/fd.h"
#include "worker/agent/interp/drivers.h"
#include "worker/agent/interp/interp.h"
#include "worker/agent/link/request.h"

/* Descriptors in the shell. The numbers are above those that scripts use and outside of those that
 * bash takes for itself, which go up from 10 and down from 63. */
#define SCRIPT_FD 70
#define STDIN_FD  71
#define ERR_FD    72
#define REPORT_FD 73 /* in drivers/bash.sh too */
#define OUT_FD    74
#define INPUT_FD  75

#define INTERRUPTED 130 /* 128 + SIGINT */

#define QUOTE_GROWTH 4           /* ' becomes '\'' */
#define PARTS_MAX    64          /* of code that are written at once */
#define KEEP_BYTES   (64u << 10) /* a memory file that a run made larger is emptied afterwards */

static int start_bash(struct interp *i, struct interp_start *s, struct err *err)
{
    static const char *const argv[] = {"bash", "--noprofile", "--norc", "--noediting", "-i"};
    for (size_t k = 0; k < sizeof(argv) / sizeof(argv[0]); k++) {
        s->argv[k] = (char *)(uintptr_t)argv[k];
    }
    int rc = spawn_memory_file(i->spawn, "script", &i->script_fd, err);
    if (rc == 0) {
        rc = spawn_memory_file(i->spawn, "stdin", &i->stdin_fd, err);
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
        {s->report_end, REPORT_FD},     {s->out_end, OUT_FD},        {i->input_fd, INPUT_FD},
    };
    for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++) {
        s->job.fds[s->job.fd_count++] = fds[k];
    }
    return rc;
}

/* The file runs once per run number. It is one group, because an earlier line may make the shell
 * read the file while it is being written: half a group is a syntax error, which does nothing, and
 * the line that belongs to the file is still to come. */
#define BEGIN_RUN                                                                                  \
    "{ [[ $__cloister_run == %010" PRIu32 " ]] && \\builtin return; __cloister_run=%010" PRIu32 "; "

/* Records of report.h. They must be written whole or not at all. echo checks for interrupts after
 * each argument and before it flushes, but its stdout is line-buffered, so one argument that
 * contains its newline is written in one piece. An interrupted printf would leave half a record to
 * the next writer, so it is only for a shell whose echo has been disabled. */
#define REPORT_RUN                                                                                 \
    "{ __cloister_status=$?; \\builtin trap - DEBUG || [[ 1 ]]; } >/dev/null; "                    \
    "[[ -n $__cloister_status ]] && { "                                                            \
    "__cloister_report=\"X0000000${#__cloister_status}${__cloister_status}D0000000a%010" PRIu32    \
    "\n\"; \\builtin echo -n \"$__cloister_report\" >&%d || "                                      \
    "\\builtin printf %%s \"$__cloister_report\" >&%d; }; __cloister_told=%010" PRIu32 "; }\n"

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

/* What is before the code, which begins on the first line, so that its line numbers are right. */
static int build_begin(const struct interp *i, struct request *r, struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err, BEGIN_RUN "\\builtin set --", i->run, i->run);
    for (size_t k = 0; rc == 0 && k < r->arg_count; k++) {
        rc = buf_add(out, " ", 1, err);
        if (rc == 0) {
            rc = add_quoted(out, request_next(r), err);
        }
    }
    if (rc == 0) {
        rc = buf_add_str(out, r->env_count > 0 ? "; \\builtin unset -f eval; " : "; ", err);
    }
    for (size_t k = 0; rc == 0 && k < r->env_count; k++) {
        rc = add_assignment(out, request_next(r), err);
    }
    /* "builtin eval" drops the assignments after the first command */
    return rc < 0 ? rc : buf_add_str(out, r->env_count > 0 ? "\\eval " : "\\builtin eval ", err);
}

/* What is behind the code. */
static int build_end(const struct interp *i, const struct request *r, struct buf *out,
                     struct err *err)
{
    int rc;
    if (r->stdin_open) {
        rc = buf_printf(out, err, " </proc/self/fd/%d", INPUT_FD);
    } else if (r->has_stdin) {
        rc = buf_printf(out, err, " </proc/self/fd/%d", STDIN_FD);
    } else {
        rc = buf_add_str(out, " </dev/null", err);
    }
    if (rc == 0) {
        rc = buf_printf(out, err,
                        " >|/proc/self/fd/%d 2>|/proc/self/fd/%d "
                        "%d<&- %d<&- %d>&- %d>&- %d>&- %d<&-; ",
                        OUT_FD, ERR_FD, SCRIPT_FD, STDIN_FD, ERR_FD, REPORT_FD, OUT_FD, INPUT_FD);
    }
    return rc < 0 ? rc : buf_printf(out, err, REPORT_RUN, i->run, REPORT_FD, REPORT_FD, i->run);
}

static int write_parts(int fd, struct iovec *at, int count, struct err *err)
{
    while (count > 0) {
        ssize_t n = writev(fd, at, count);
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_IO, errno, "write to a memory file");
        }
        size_t left = n > 0 ? (size_t)n : 0;
        for (; count > 0 && left >= at->iov_len; at++, count--) {
            left -= at->iov_len;
        }
        if (count > 0) {
            at->iov_base = (char *)at->iov_base + left;
            at->iov_len -= left;
        }
    }
    return 0;
}

/* Writes the code in quotes from where it is, since it may be large. No part is empty. */
static int write_quoted(int fd, struct view code, struct err *err)
{
    static const char escaped[] = "'\\''";
    struct iovec parts[PARTS_MAX];
    int count = 0;
    int rc = fd_write_all(fd, "'", 1, err);
    while (rc == 0 && code.len > 0) {
        bool quote = code.data[0] == '\'';
        const char *next = quote ? code.data + 1 : memchr(code.data, '\'', code.len);
        size_t n = next != NULL ? (size_t)(next - code.data) : code.len;
        const char *part = quote ? escaped : code.data;
        /* iovec is not const for historical reasons only */
        parts[count++] = (struct iovec){(char *)(uintptr_t)part, quote ? sizeof(escaped) - 1 : n};
        code = view_bytes(code.data + n, code.len - n);
        if (count == PARTS_MAX) {
            rc = write_parts(fd, parts, count, err);
            count = 0;
        }
    }
    if (rc == 0) {
        rc = write_parts(fd, parts, count, err);
    }
    return rc < 0 ? rc : fd_write_all(fd, "'", 1, err);
}

static int fill(int fd, const void *data, size_t len, struct err *err)
{
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
        return err_sys(err, ERR_IO, errno, "empty a memory file");
    }
    return fd_write_all(fd, data, len, err);
}

/* Makes the shell source the script file, which must end with a report of i->run. */
static int source_script(struct interp *i, bool again, struct err *err)
{
    struct buf line;
    buf_init(&line, LIMIT_TEXT);
    /* the first newline ends the rest of an earlier line, if there is one */
    int rc = buf_printf(&line, err,
                        "%s\\builtin . /proc/self/fd/%d; { __cloister_left=$? "
                        "PROMPT_COMMAND=$__cloister_prompt; } >/dev/null\n",
                        again ? "\n" : "", SCRIPT_FD);
    if (rc == 0) {
        rc = interp_write(i, &line, err);
    }
    buf_finish(&line);
    return rc;
}

static int submit_to_bash(struct interp *i, struct buf *request, struct err *err)
{
    struct request r;
    struct buf begin;
    struct buf end;
    request_open(request, &r);
    buf_init(&begin, (size_t)LIMIT_FRAME * QUOTE_GROWTH);
    buf_init(&end, LIMIT_TEXT);
    int rc = build_begin(i, &r, &begin, err);
    if (rc == 0) {
        rc = build_end(i, &r, &end, err);
    }
    if (rc == 0 && r.has_stdin) {
        rc = fill(i->stdin_fd, r.stdin_data.data, r.stdin_data.len, err);
    }
    if (rc == 0) {
        rc = fill(i->script_fd, begin.data, begin.len, err);
    }
    if (rc == 0) {
        rc = write_quoted(i->script_fd, r.code, err);
    }
    if (rc == 0) {
        rc = fd_write_all(i->script_fd, end.data, end.len, err);
    }
    if (rc == 0) {
        rc = source_script(i, false, err);
    }
    buf_finish(&begin);
    buf_finish(&end);
    return rc;
}

/* Reports run i->run with this exit code and runs no code, unless that run has begun already. If
 * the line is lost or memory is short, retries and the deadline follow. */
static void empty_run(struct interp *i, int code)
{
    struct buf script;
    buf_init(&script, LIMIT_TEXT);
    if (buf_printf(&script, NULL, BEGIN_RUN "\\builtin return %d; }\n", i->run, i->run, code) ==
        0) {
        int rc = fill(i->script_fd, script.data, script.len, NULL);
        err_ignore(rc < 0 ? rc : source_script(i, true, NULL));
    }
    buf_finish(&script);
}

static void interrupted(struct interp *i)
{
    empty_run(i, INTERRUPTED);
}

static void sync_again(struct interp *i)
{
    empty_run(i, 0);
}

static void shrink(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > (off_t)KEEP_BYTES) {
        (void)!ftruncate(fd, 0);
    }
}

static void after_bash_run(struct interp *i)
{
    shrink(i->script_fd);
    shrink(i->stdin_fd);
}

const struct lang lang_bash = {
    .name = "bash",
    .program = "bash",
    .interrupt_by = INTERRUPT_NOTICE_TO_SHELL,
    .exit_is_result = true,
    .start = start_bash,
    .submit = submit_to_bash,
    .interrupted = interrupted,
    .sync = sync_again,
    .after = after_bash_run,
    .blank = " ",
};
