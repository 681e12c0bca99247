/*
 * Python: the driver (drivers/python.py) is the program, given on the command line. It starts in
 * the root directory, so that its own imports cannot be caught by files of the workspace, and goes
 * to the workspace when it is up. Requests go to it as they are packed (request.h).
 */
#include <unistd.h>

#include "worker/agent/drivers.h"
#include "worker/agent/interp.h"

#define REQUEST_FD 3 /* the driver moves both out of user code's way */
#define REPORT_FD  4

/* Gives the driver a file name of its own, so that tracebacks can tell its frames from user code.
 */
static const char loader[] = "import sys\nexec(compile(sys.argv.pop(1), '<cloister>', 'exec'))\n";

static int start(struct interp *i, struct interp_start *s, struct err *err)
{
    /* argv is not const by tradition only */
    char *const argv[] = {
        (char *)(uintptr_t) "python3",
        (char *)(uintptr_t) "-X",
        (char *)(uintptr_t) "utf8",
        (char *)(uintptr_t) "-c",
        (char *)(uintptr_t)loader,
        (char *)(uintptr_t)driver_python,
        (char *)(uintptr_t)i->spawn->workspace,
    };
    for (size_t k = 0; k < sizeof(argv) / sizeof(argv[0]); k++) {
        s->argv[k] = argv[k];
    }
    const struct keeper_fd fds[] = {
        {s->null_fd, STDIN_FILENO},   {s->out_end, STDOUT_FILENO}, {s->err_end, STDERR_FILENO},
        {s->request_end, REQUEST_FD}, {s->report_end, REPORT_FD},
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
    .start = start,
    .submit = interp_write,
};
