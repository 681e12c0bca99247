/*
 * Python: the driver (drivers/python.py) is the program, read from a memory file so that process
 * lists stay readable. The parts that it needs only to show values, after a stop, or for notebook
 * code, follow in the same file, each after a NUL. Last comes the driver as the Python of the build
 * has compiled it: an interpreter with the same magic number takes that, since compiling the source
 * costs time and a megabyte that an interpreter never gives back; any other compiles it. It starts
 * in the root directory, so that files of the workspace cannot replace its imports, and changes to
 * the workspace when it is ready. It reads packed requests (request.h) as they are.
 *
 * The keeper kills the processes of a stopped run, so the run's code cannot wait for its children.
 * As zombies they count against the user's process limit until the driver reaps them. The agent
 * asks for that by a request that is shorter than any other and holds the clock tick in which the
 * run began. The next run's request comes after it, so the next run finds the children reaped.
 */
#include <errno.h>
#include <unistd.h>

#include "common/fd.h"
#include "worker/agent/interp/drivers.h"
#include "worker/agent/interp/interp.h"
#include "worker/agent/run/source.h"

#define REQUEST_FD 3 /* the driver moves these to higher numbers */
#define REPORT_FD  4
#define SOURCE_FD  5 /* named in the loader */
#define INPUT_FD   6 /* as the first two */

#define STOPPED_BYTES 16 /* in drivers/python.py, too */

/* The driver has a file name of its own, compiled here or by the build, so that tracebacks can tell
 * its frames from user code. The magic number is asked for without importlib, which would cost
 * memory. */
static const char loader[] =
    "import marshal, sys; f = open(5, 'rb'); "
    "s, rich, dead, notebook, c = f.read().split(bytes(1), 4); f.close(); "
    "m = getattr(sys.modules.get('_frozen_importlib_external'), 'MAGIC_NUMBER', 0); "
    "s = marshal.loads(c[4:]) if c[:4] == m else compile(s, '<cloister>', 'exec'); "
    "del c; exec(s)";

/* Each part after the first follows a NUL, and then the compiled driver. */
static const char *const parts[][2] = {
    {driver_python, ""},
    {driver_python_rich, driver_python_ipython},
    {driver_python_dead, ""},
    {driver_python_notebook, ""},
};

/* *fd may be open after a failure; the caller closes it either way. */
static int offer_python_source(const struct interp *i, int *fd, struct err *err)
{
    int rc = spawn_memory_file(i->spawn, "driver", fd, err);
    for (size_t k = 0; rc == 0 && k < sizeof(parts) / sizeof(parts[0]); k++) {
        rc = k > 0 ? fd_write_all(*fd, "", 1, err) : 0;
        if (rc == 0) {
            rc = source_write(*fd, parts[k][0], err);
        }
        if (rc == 0) {
            rc = source_write(*fd, parts[k][1], err);
        }
    }
    if (rc == 0) {
        rc = fd_write_all(*fd, "", 1, err);
    }
    if (rc == 0) {
        rc = source_write_bytes(*fd, driver_python_code, driver_python_code_size, err);
    }
    if (rc == 0 && lseek(*fd, 0, SEEK_SET) < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot rewind a memory file");
    }
    return rc;
}

static int start_python(struct interp *i, struct interp_start *s, struct err *err)
{
    const char *packages = i->spawn->packages != NULL ? i->spawn->packages : "";
    /* argv is not const for historical reasons only */
    char *const argv[] = {
        (char *)(uintptr_t) "python3", (char *)(uintptr_t) "-X",  (char *)(uintptr_t) "utf8",
        (char *)(uintptr_t) "-c",      (char *)(uintptr_t)loader, (char *)(uintptr_t)i->spawn->cwd,
        (char *)(uintptr_t)packages,
    };
    for (size_t k = 0; k < sizeof(argv) / sizeof(argv[0]); k++) {
        s->argv[k] = argv[k];
    }
    int rc = offer_python_source(i, &s->source_fd, err);
    if (rc < 0) {
        return rc;
    }
    const struct keeper_fd fds[] = {
        {s->null_fd, STDIN_FILENO},   {s->out_end, STDOUT_FILENO}, {s->err_end, STDERR_FILENO},
        {s->request_end, REQUEST_FD}, {s->report_end, REPORT_FD},  {s->source_fd, SOURCE_FD},
        {i->input_fd, INPUT_FD},
    };
    for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++) {
        s->job.fds[s->job.fd_count++] = fds[k];
    }
    s->job.cwd = "/";
    return 0;
}

static void put(uint8_t *at, uint64_t value, size_t size)
{
    while (size-- > 0) {
        at[size] = (uint8_t)value;
        value >>= 8;
    }
}

/* length (4) | 0 (4) | the tick (8). If this fails for lack of memory, the zombies stay.
 */
static void stopped(struct interp *i)
{
    uint8_t request[STOPPED_BYTES] = {0};
    struct buf out;
    put(request, sizeof(request) - 4, 4);
    put(request + 8, i->begun.ticks, 8);
    buf_init(&out, LIMIT_FRAME);
    if (buf_add(&out, request, sizeof(request), NULL) == 0) {
        err_ignore(interp_write(i, &out, NULL));
    }
    buf_finish(&out);
}

const struct lang lang_python = {
    .name = "python",
    .program = "python3",
    .prestart = true,
    .preloads = true,
    .hold_interrupt = true,
    .start = start_python,
    .submit = interp_write,
    .stopped = stopped,
};
