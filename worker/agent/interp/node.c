/*
 * JavaScript: node gets the driver (drivers/node*.js) in a memory file. A loader of one line
 * compiles it under its own name, so that stack traces can tell its frames from user code.
 *
 * Node cannot replace the file of an open descriptor. So its stdin is one memory file, which the
 * agent fills and rewinds before each run, as for bash. For stdin that stays open the driver closes
 * descriptor 0 and opens the pipe, which then gets the lowest free number. Node cannot set
 * close-on-exec either, but sets it at start for all descriptors below 16, so requests and reports
 * have numbers there.
 *
 * Memory: V8 collects garbage lazily below its heap limit, which it derives from the machine and
 * not from the sandbox. So the limit is derived from the sandbox's memory. Code that needs more
 * ends with V8's own error, which names the reason on stderr and aborts.
 *
 * A script's declarations are globals, and code may define its own `class Set` or `function
 * process`. So the driver gets the globals that it uses as parameters, before any code runs.
 *
 * Interrupts: a SIGINT before the driver is ready would end node. The driver catches SIGURG last,
 * and the keeper waits for that as with bash (interrupt.c). A thread of node takes the SIGINT, so
 * the driver may see it late; after an interrupted run the driver waits for that before the next
 * run begins.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "worker/agent/interp/drivers.h"
#include "worker/agent/interp/interp.h"
#include "worker/agent/link/request.h"
#include "worker/agent/run/source.h"

#define REQUEST_FD 3 /* in drivers/node.js, too */
#define REPORT_FD  4
#define SOURCE_FD  5 /* named in the loader */
#define INPUT_FD   6 /* in drivers/node_streams.js */

#define HEAD_BYTES 17 /* of a packed request */
#define KIND_SYNC  3  /* in the place of stdin: no code, only a report; in drivers/node.js, too */

/* Older versions lack much that the driver and current packages need. The loader of an older node
 * exits with EXIT_TOO_OLD plus its version. */
#define OLDEST_NODE   18
#define EXIT_TOO_OLD  100
#define EXIT_TOO_OLD_ "100"
#define OLDEST_NODE_  "18"

static const char loader[] =
    "var v = parseInt(process.versions.node, 10); if (v < " OLDEST_NODE_
    ") process.exit(" EXIT_TOO_OLD_ " + v);"
    "var f = require('fs'), s = f.readFileSync(5, 'utf8'); f.closeSync(5);"
    "require('vm').runInThisContext(s, {filename: '<cloister>'})(require);";

/* The globals that the driver uses, except timers, which it takes itself. */
#define GLOBALS                                                                                    \
    "Array, Atomics, Buffer, Error, Int32Array, JSON, Math, Number, Object, Promise, Reflect, "    \
    "Set, SharedArrayBuffer, String, Symbol, SyntaxError, TypeError, Uint8Array, WeakMap, "        \
    "globalThis, process"

static int offer_node_source(struct interp *i, struct err *err)
{
    const char *const parts[] = {
        "(function (require, { " GLOBALS " } = this) { ",
        driver_node,
        "(require, ",
        driver_node_cells,
        ", ",
        driver_node_display,
        "(require), ",
        driver_node_streams,
        "(require)); })",
    };
    int rc = spawn_memory_file(i->spawn, "driver", &i->script_fd, err);
    for (size_t k = 0; rc == 0 && k < sizeof(parts) / sizeof(parts[0]); k++) {
        rc = source_write(i->script_fd, parts[k], err);
    }
    if (rc == 0 && lseek(i->script_fd, 0, SEEK_SET) < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot rewind a memory file");
    }
    return rc == 0 ? spawn_memory_file(i->spawn, "stdin", &i->stdin_fd, err) : rc;
}

/* Limits the heap to three quarters of the sandbox's memory; buffers and code are outside of the
 * heap. */
static bool heap_option(const struct interp *i, char *option, size_t size)
{
    uint64_t bytes = i->spawn->memory_bytes;
    snprintf(option, size, "--max-old-space-size=%llu",
             (unsigned long long)(bytes / 4 * 3 / (1u << 20)));
    return bytes > 0;
}

static int start_node(struct interp *i, struct interp_start *s, struct err *err)
{
    const char *packages = i->spawn->packages != NULL ? i->spawn->packages : "";
    /* argv is not const for historical reasons only */
    char *const rest[] = {
        (char *)(uintptr_t) "--expose-internals",
        (char *)(uintptr_t) "-e",
        (char *)(uintptr_t)loader,
        (char *)(uintptr_t) "--",
        (char *)(uintptr_t)i->spawn->cwd,
        (char *)(uintptr_t)packages,
    };
    size_t n = 0;
    s->argv[n++] = (char *)(uintptr_t) "node";
    if (heap_option(i, s->option, sizeof(s->option))) {
        s->argv[n++] = s->option;
    }
    for (size_t k = 0; k < sizeof(rest) / sizeof(rest[0]); k++) {
        s->argv[n++] = rest[k];
    }
    int rc = offer_node_source(i, err);
    if (rc < 0) {
        return rc;
    }
    const struct keeper_fd fds[] = {
        {i->stdin_fd, STDIN_FILENO},  {s->out_end, STDOUT_FILENO}, {s->err_end, STDERR_FILENO},
        {s->request_end, REQUEST_FD}, {s->report_end, REPORT_FD},  {i->script_fd, SOURCE_FD},
        {i->input_fd, INPUT_FD},
    };
    for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++) {
        s->job.fds[s->job.fd_count++] = fds[k];
    }
    s->job.cwd = "/";
    return 0;
}

static int offer_stdin(const struct interp *i, struct view data, struct err *err)
{
    if (ftruncate(i->stdin_fd, 0) < 0 || lseek(i->stdin_fd, 0, SEEK_SET) < 0) {
        return err_sys(err, ERR_IO, errno, "empty a memory file");
    }
    int rc = fd_write_all(i->stdin_fd, data.data, data.len, err);
    if (rc == 0 && lseek(i->stdin_fd, 0, SEEK_SET) < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot rewind a memory file");
    }
    return rc;
}

/* Written from where it is, since code may be large. */
static int submit_to_node(struct interp *i, struct buf *request, struct err *err)
{
    struct request r;
    request_open(request, &r);
    int rc = offer_stdin(i, r.has_stdin ? r.stdin_data : view_bytes(NULL, 0), err);
    if (rc == 0) {
        request_drop_stdin(request);
        rc = interp_write(i, request, err);
    }
    return rc;
}

/* If this fails for lack of memory, a retry follows. */
static void ask(struct interp *i)
{
    const uint8_t head[HEAD_BYTES] = {[3] = HEAD_BYTES - 4, [8] = KIND_SYNC};
    struct buf out;
    buf_init(&out, LIMIT_TEXT);
    if (buf_add(&out, head, sizeof(head), NULL) == 0) {
        request_set_run(&out, i->run);
        err_ignore(interp_write(i, &out, NULL));
    }
    buf_finish(&out);
}

/* Empties the stdin file, which would keep its content until the next run. */
static void after_node_run(struct interp *i)
{
    (void)!ftruncate(i->stdin_fd, 0);
}

static bool said(const struct buf *output, const char *words)
{
    return output->len > 0 && memmem(output->data, output->len, words, strlen(words)) != NULL;
}

static int explain_death(int wait_status, const struct op_stream *err, char *text, size_t size)
{
    static const char heap[] = "JavaScript heap out of memory";
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) >= EXIT_TOO_OLD &&
        WEXITSTATUS(wait_status) < EXIT_TOO_OLD + OLDEST_NODE) {
        snprintf(text, size, "node in this sandbox is version %d, and %d is the oldest that works",
                 WEXITSTATUS(wait_status) - EXIT_TOO_OLD, OLDEST_NODE);
        return ERR_LANGUAGE;
    }
    if (WIFSIGNALED(wait_status) && (said(&err->head, heap) || said(&err->tail, heap))) {
        snprintf(text, size,
                 "node's heap is full: the code needs more memory than the sandbox has");
        return ERR_NO_MEMORY;
    }
    return 0;
}

const struct lang lang_node = {
    .name = "javascript",
    .program = "node",
    .interrupt_by = INTERRUPT_WITH_NOTICE,
    .start = start_node,
    .submit = submit_to_node,
    .sync = ask,
    .after = after_node_run,
    .explain_death = explain_death,
};
