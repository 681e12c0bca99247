/*
 * Python: the driver (drivers/python.py) is the program, read from a memory file so that process
 * lists stay readable. What it needs only to show things stands in the same file behind a NUL. It
 * starts in the root directory, so that its own imports cannot be caught by files of the workspace,
 * and goes to the workspace when it is up. Requests go to it as they are packed (request.h).
 */
#include <errno.h>
#include <unistd.h>

#include "common/fd.h"
#include "worker/agent/interp/drivers.h"
#include "worker/agent/interp/interp.h"
#include "worker/agent/run/source.h"

#define REQUEST_FD 3 /* the driver moves both out of user code's way */
#define REPORT_FD  4
#define SOURCE_FD  5 /* named in the loader */

/* Gives the driver a file name of its own, so that tracebacks can tell its frames from user code.
 */
static const char loader[] =
    "f = open(5, 'rb'); s, _, rich = f.read().partition(bytes(1)); f.close(); "
    "exec(compile(s, '<cloister>', 'exec'))";

static int offer_source(struct interp *i, struct err *err)
{
    int rc = spawn_memory_file(i->spawn, "driver", &i->script_fd, err);
    if (rc == 0) {
        rc = source_write(i->script_fd, driver_python, err);
    }
    if (rc == 0) {
        rc = fd_write_all(i->script_fd, "", 1, err);
    }
    if (rc == 0) {
        rc = source_write(i->script_fd, driver_python_rich, err);
    }
    if (rc == 0) {
        rc = source_write(i->script_fd, driver_python_ipython, err);
    }
    if (rc == 0 && lseek(i->script_fd, 0, SEEK_SET) < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot rewind a memory file");
    }
    return rc;
}

static int start(struct interp *i, struct interp_start *s, struct err *err)
{
    const char *packages = i->spawn->packages != NULL ? i->spawn->packages : "";
    /* argv is not const by tradition only */
    char *const argv[] = {
        (char *)(uintptr_t) "python3", (char *)(uintptr_t) "-X",
        (char *)(uintptr_t) "utf8",    (char *)(uintptr_t) "-c",
        (char *)(uintptr_t)loader,     (char *)(uintptr_t)i->spawn->workspace,
        (char *)(uintptr_t)packages,
    };
    for (size_t k = 0; k < sizeof(argv) / sizeof(argv[0]); k++) {
        s->argv[k] = argv[k];
    }
    int rc = offer_source(i, err);
    if (rc < 0) {
        return rc;
    }
    const struct keeper_fd fds[] = {
        {s->null_fd, STDIN_FILENO},   {s->out_end, STDOUT_FILENO}, {s->err_end, STDERR_FILENO},
        {s->request_end, REQUEST_FD}, {s->report_end, REPORT_FD},  {i->script_fd, SOURCE_FD},
    };
    for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++) {
        s->job.fds[s->job.fd_count++] = fds[k];
    }
    s->job.cwd = "/";
    return 0;
}

const struct lang lang_python = {
    .name = "python",
    .program = "python3",
    .prestart = true,
    .hold_interrupt = true,
    .start = start,
    .submit = interp_write,
};
