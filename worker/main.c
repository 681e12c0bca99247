/*
 * cloister-worker: reads its command line, arranges its descriptors, runs one loop with one worker
 * on it, and turns the reason of its end into an exit code.
 *
 * Started by the supervisor only. stdin and stdout are /dev/null; stderr is a pipe to the
 * supervisor, written without blocking, since a supervisor that does not read must not stop a
 * sandbox; descriptor 3, if open, is a pipe whose other end the supervisor holds and whose
 * end-of-file says that it died.
 *
 * The worker is a session of its own: a ^C on the terminal is for the supervisor, which ends its
 * workers in order. What it gives up at its start follows from the backend that it will be asked
 * for (common/confine.h), because later there are threads, each of which would have to do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/confine.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "config.h"
#include "proto/exit_codes.h"
#include "worker/worker.h"

#define LIFELINE_FD 3

struct program {
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    uv_pipe_t lifeline;
    bool has_lifeline;
    char byte; /* the lifeline carries no data */
    struct worker *worker;
    enum exit_code exit_code;
};

static int usage(const char *problem, const char *what)
{
    fprintf(stderr, "cloister-worker: %s%s\n", problem, what);
    fprintf(stderr, "usage: cloister-worker --socket PATH --sandbox ID --generation N --dir DIR\n"
                    "                       --shared-dir DIR --agent PATH [--backend NAME]\n"
                    "                       [--log-level LEVEL]\n");
    return EXIT_CODE_USAGE;
}

/* 0, or the exit code. */
static int parse(int argc, char **argv, struct worker_setup *setup, enum confine_role *ret_role)
{
    static const struct option options[] = {
        {"socket", required_argument, NULL, 's'},
        {"sandbox", required_argument, NULL, 'i'},
        {"generation", required_argument, NULL, 'g'},
        {"dir", required_argument, NULL, 'd'},
        {"shared-dir", required_argument, NULL, 'S'},
        {"agent", required_argument, NULL, 'a'},
        {"log-level", required_argument, NULL, 'l'},
        {"backend", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    struct err err = ERR_INIT;
    const struct backend_row *row;
    enum log_level level;
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 's':
            setup->socket = optarg;
            break;
        case 'i':
            setup->sandbox = optarg;
            break;
        case 'g':
            if (str_to_u64(optarg, 0, UINT32_MAX, &setup->generation, &err) < 0) {
                return usage("--generation: ", err.text);
            }
            break;
        case 'd':
            setup->dir = optarg;
            break;
        case 'S':
            setup->shared_dir = optarg;
            break;
        case 'a':
            setup->agent_path = optarg;
            break;
        case 'b': /* the supervisor's request will say that there is none, if so */
            row = backend_row_find(optarg);
            *ret_role = row != NULL ? row->worker_role : CONFINE_NOTHING;
            break;
        case 'l':
            if (!log_level_parse(optarg, &level)) {
                return usage("unknown log level: ", optarg);
            }
            log_set_level(level);
            break;
        default:
            return usage("unknown option", "");
        }
    }
    if (optind < argc) {
        return usage("unexpected argument: ", argv[optind]);
    }
    if (setup->socket == NULL || setup->sandbox == NULL || setup->dir == NULL ||
        setup->shared_dir == NULL || setup->agent_path == NULL) {
        return usage("an option is missing", "");
    }
    if (setup->sandbox[0] == '\0' ||
        strspn(setup->sandbox, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(setup->sandbox) ||
        strlen(setup->sandbox) > LIMIT_NAME) {
        return usage("not a sandbox id: ", setup->sandbox);
    }
    return 0;
}

static void harden(enum confine_role role)
{
    struct stat st;
    struct err err = ERR_INIT;
    if (setsid() < 0 && errno != EPERM) { /* EPERM: we lead a session already */
        log_debug("no session of our own: %s", strerror(errno));
    }
    umask(077);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    /* not for a terminal, whose mode would change for all processes that use it */
    if (fstat(STDERR_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) {
        err_ignore(fd_set_nonblock(STDERR_FILENO, &err)); /* then logging may block */
    }
    confine_memory();
    confine_process(role);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct program *p = handle->data;
    if (p->worker != NULL) {
        worker_stop(p->worker);
    }
}

static void on_lifeline_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    struct program *p = handle->data;
    *ret_buf = uv_buf_init(&p->byte, 1);
}

static void on_lifeline(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct program *p = stream->data;
    if (n < 0) {
        uv_close((uv_handle_t *)stream, NULL);
        p->has_lifeline = false;
        if (p->worker != NULL) {
            worker_supervisor_died(p->worker);
        }
    }
}

/* All handles are off the loop, or hang and are abandoned. */
static void on_worker_ended(void *arg, enum exit_code code)
{
    struct program *p = arg;
    p->worker = NULL;
    p->exit_code = code;
    uv_stop(&p->loop);
}

static int setup_program(struct program *p, const struct worker_setup *setup, bool has_lifeline)
{
    struct err err = ERR_INIT;
    int rc = uv_loop_init(&p->loop);
    if (rc == 0) {
        uv_signal_init(&p->loop, &p->term);
        uv_signal_init(&p->loop, &p->interrupt);
        p->term.data = p;
        p->interrupt.data = p;
        rc = uv_signal_start(&p->term, on_signal, SIGTERM);
    }
    if (rc == 0) {
        rc = uv_signal_start(&p->interrupt, on_signal, SIGINT);
    }
    if (rc == 0 && has_lifeline) {
        uv_pipe_init(&p->loop, &p->lifeline, 0);
        p->lifeline.data = p;
        rc = uv_pipe_open(&p->lifeline, LIFELINE_FD);
        if (rc == 0) {
            rc = uv_read_start((uv_stream_t *)&p->lifeline, on_lifeline_alloc, on_lifeline);
        }
        p->has_lifeline = true;
    }
    if (rc < 0) {
        log_error("cannot set up: %s", uv_strerror(rc));
        return EXIT_CODE_SETUP;
    }
    if (worker_create(&p->loop, setup, on_worker_ended, p, &p->worker, &err) < 0) {
        log_error("cannot set up: %s", err.text);
        return EXIT_CODE_SETUP;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct program program = {.exit_code = EXIT_CODE_SETUP};
    struct worker_setup setup = {0};
    struct err err = ERR_INIT;
    bool has_lifeline = fcntl(LIFELINE_FD, F_GETFD) >= 0;

    log_set_component("worker");
    alloc_share_heap(); /* there is a worker for each sandbox, and nng's threads do little */
    enum confine_role role = CONFINE_NOTHING;
    int rc = parse(argc, argv, &setup, &role);
    if (rc != 0) {
        return rc;
    }
    harden(role);
    if (has_lifeline && fd_set_cloexec(LIFELINE_FD, true, &err) < 0) {
        log_error("cannot set up: %s", err.text);
        return EXIT_CODE_SETUP;
    }
    rc = setup_program(&program, &setup, has_lifeline);
    if (rc != 0) {
        _exit(rc); /* the process is half set up; the supervisor only needs the code */
    }
    uv_run(&program.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&program.term, NULL);
    uv_close((uv_handle_t *)&program.interrupt, NULL);
    if (program.has_lifeline) {
        uv_close((uv_handle_t *)&program.lifeline, NULL);
    }
    uv_run(&program.loop, UV_RUN_NOWAIT);
    bool idle = uv_loop_close(&program.loop) == 0;
    log_line(program.exit_code == EXIT_CODE_OK ? LOG_DEBUG : LOG_INFO, "ends: %s",
             exit_code_text((int)program.exit_code));
    if (!idle) {
        _exit((int)program.exit_code); /* not to wait for the thread of a look-up (door/lookup.c) */
    }
    return (int)program.exit_code;
}
