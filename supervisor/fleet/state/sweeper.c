/*
 *   waits for the end of its pipe: the server is gone
 *   kills what runs in every sandbox: all code is dead (firsts.c)
 *   removes sandboxes by turns, installers first (sweeper_rest.c)
 *   removes what it could not once more, a few times, further and further apart
 *   removes the instance's directory and ends
 *
 * Until its server is gone, the sweeper holds only the pipes and the lock, and sleeps. If something
 * remains after the last round, its directory remains, too, with a free lock, and the next server
 * finds it.
 *
 * Nobody waits for this process, and whoever ends the server may signal all processes that belong
 * to it, so the sweeper ignores the signals that can be ignored. SIGTERM makes it end sooner, since
 * an engine that does not answer would keep it for minutes: it makes TOLD_ROUNDS then.
 */
#include "supervisor/fleet/state/sweeper.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/confine.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/firsts.h"
#include "supervisor/fleet/state/sweeper_internal.h"
#include "supervisor/fleet/state/urgency.h"

#define AT_ONCE  16
#define TICK_MS  250
#define PAUSE_MS 1000 /* before the second round; doubled before each later one */
#define ROUNDS   6

#define TOLD_ROUNDS 2

enum { ARG_DIR, ARG_WORKER, ARG_AGENT, ARG_BACKEND, ARG_ENGINE, ARG_LOG_LEVEL, ARG_COUNT };

/* ---- rounds ---- */

static void start_half(struct sweeper_process *p);

static void free_rests(struct sweeper_process *p)
{
    struct rest *r;
    while ((r = TAILQ_FIRST(&p->rests)) != NULL) {
        TAILQ_REMOVE(&p->rests, r, node);
        rest_free(r);
    }
}

/* The signal is blocked and stays pending, so it is known whenever it came. */
static bool is_told_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1;
}

static bool may_try_again(const struct sweeper_process *p)
{
    if (p->failed && p->round >= TOLD_ROUNDS && p->round < ROUNDS && is_told_to_end()) {
        log_warn("told to end, so it is not tried again dir=%s", p->dir);
        return false;
    }
    return p->failed && p->round < ROUNDS;
}

static void begin_round(struct sweeper_process *p)
{
    p->round++;
    p->failed = false;
    p->installers = true;
    start_half(p);
}

static void on_pause(uv_timer_t *timer)
{
    struct sweeper_process *p = timer->data;
    if (!may_try_again(p)) {
        uv_close((uv_handle_t *)timer, NULL);
    } else if (uv_now(timer->loop) >= p->again_ms) {
        begin_round(p);
    }
}

/* Called by the timer, since the removal that has just ended is still on the stack. */
static void on_half_done(uv_timer_t *timer)
{
    struct sweeper_process *p = timer->data;
    free_rests(p);
    if (p->installers) {
        p->installers = false;
        start_half(p);
    } else if (may_try_again(p)) {
        p->again_ms = uv_now(timer->loop) + ((uint64_t)PAUSE_MS << (p->round - 1));
        uv_timer_start(timer, on_pause, TICK_MS, TICK_MS);
    } else {
        uv_close((uv_handle_t *)timer, NULL);
    }
}

static void on_sweeper_tick(uv_timer_t *timer)
{
    struct sweeper_process *p = timer->data;
    struct rest *r;
    TAILQ_FOREACH(r, &p->rests, node)
    {
        rest_check(r, uv_now(timer->loop));
    }
}

void sweeper_rest_done(struct rest *r, bool removed)
{
    struct sweeper_process *p = r->p;
    p->failed = p->failed || !removed;
    if (--p->pending == 0) {
        uv_timer_start(&p->tick, on_half_done, 0, 0);
    }
}

/* Installers are removed before the sandboxes whose packages they write. */
static void start_half(struct sweeper_process *p)
{
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes", p->dir);
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (instance_is_sandbox_id(entry->d_name) &&
            instance_is_installer_id(entry->d_name) == p->installers) {
            CLEANUP_FREE char *sandbox = alloc_printf("%s/%s", path, entry->d_name);
            rest_begin(p, entry->d_name, sandbox);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (p->pending > 0) {
        uv_timer_start(&p->tick, on_sweeper_tick, TICK_MS, TICK_MS);
    } else {
        uv_timer_start(&p->tick, on_half_done, 0, 0);
    }
}

/* ---- life ---- */

static void on_sweeper_released(struct fleet_host *host)
{
    (void)host; /* the loop ends when nothing is on it */
}

static void on_deferred_closed(void *arg)
{
    (void)arg;
}

static int set_up(struct sweeper_process *p, uv_loop_t *loop, char **argv)
{
    uv_file lifeline[2];
    int rc = uv_loop_init(loop);
    if (rc < 0 || (rc = uv_pipe(lifeline, 0, 0)) < 0) {
        log_error("cannot sweep: %s", uv_strerror(rc));
        return -1;
    }
    p->host.loop = loop;
    p->host.worker_path = argv[ARG_WORKER];
    p->host.agent_path = argv[ARG_AGENT];
    p->host.lifeline_read = lifeline[0];
    p->host.lifeline_write = lifeline[1];
    p->host.on_released = on_sweeper_released;
    TAILQ_INIT(&p->host.links);
    TAILQ_INIT(&p->rests);
    deferred_init(&p->host.deferred, loop);
    turns_init(&p->turns, &p->host.deferred, AT_ONCE);
    uv_timer_init(loop, &p->tick);
    p->tick.data = p;
    p->shared = alloc_printf("%s/shared", p->dir);
    return 0;
}

/* Takes the lock that we inherited or, if its file was replaced, the present one. -1: the instance
 * is gone, or belongs to another server. */
static int take_sweeper_lock(const char *dir)
{
    return instance_holds(dir, SWEEPER_LOCK_FD) ? SWEEPER_LOCK_FD : instance_claim(dir);
}

static void sweep_instance(struct sweeper_process *p, char **argv)
{
    uv_loop_t loop;
    if (set_up(p, &loop, argv) < 0) {
        return;
    }
    begin_round(p);
    uv_run(&loop, UV_RUN_DEFAULT);
    deferred_close(&p->host.deferred, on_deferred_closed, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    free(p->shared);
    close(p->host.lifeline_read);
    close(p->host.lifeline_write);
    uv_loop_close(&loop);
    CLEANUP_FREE char *sandboxes = alloc_printf("%s/sandboxes", p->dir);
    struct err err = ERR_INIT;
    if (p->failed) {
        log_error("something stays; the next server removes it dir=%s", p->dir);
    } else if ((rmdir(sandboxes) < 0 && errno != ENOENT) || dir_remove(p->dir, &err) < 0) {
        log_error("the instance's directory stays: %s dir=%s",
                  err.text[0] != '\0' ? err.text : strerror(errno), p->dir);
    }
}

static void wait_for_server(void)
{
    struct pollfd ends[] = {{.fd = SWEEPER_LOW_FD, .events = POLLIN},
                            {.fd = SWEEPER_HIGH_FD, .events = POLLIN}};
    int rc;
    do { /* nothing is ever written there */
        rc = poll(ends, sizeof(ends) / sizeof(ends[0]), -1);
    } while (rc < 0 && errno == EINTR);
}

static void harden(void)
{
    static const int ignored[] = {SIGINT, SIGHUP, SIGPIPE};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t kept;
    sigemptyset(&kept);
    sigaddset(&kept, SIGTERM);
    sigprocmask(SIG_BLOCK, &kept, NULL); /* libuv blocks nothing in our children */
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        sigaction(ignored[i], &ignore, NULL); /* libuv resets them for our children */
    }
    umask(077);
    confine_process(CONFINE_SUPERVISOR);
    err_ignore(fd_set_cloexec(SWEEPER_LOW_FD, true, NULL));
    err_ignore(fd_set_cloexec(SWEEPER_HIGH_FD, true, NULL));
    err_ignore(fd_set_cloexec(SWEEPER_LOCK_FD, true, NULL));
}

int sweeper_run(int argc, char **argv)
{
    enum log_level level;
    log_set_component("sweeper");
    if (argc != ARG_COUNT || !log_level_parse(argv[ARG_LOG_LEVEL], &level)) {
        log_error("a sweeper is started by a server only");
        return EXIT_CODE_USAGE;
    }
    /* Perhaps nobody reads the log any more, and a full pipe would block us. */
    log_set_level(level == LOG_INFO ? LOG_WARN : level);
    harden();
    /* All workers notice at the same time that their server is gone. */
    struct urgency before;
    urgency_raise(&before);
    wait_for_server();

    struct sweeper_process p;
    memset(&p, 0, sizeof(p));
    p.dir = argv[ARG_DIR];
    p.backend = argv[ARG_BACKEND];
    p.engine = argv[ARG_ENGINE];
    p.lock_fd = take_sweeper_lock(p.dir);
    if (p.lock_fd < 0) {
        return EXIT_CODE_OK; /* the instance is gone, or belongs to another server */
    }
    (void)firsts_kill(p.dir);
    urgency_restore(&before);
    sweep_instance(&p, argv);
    close(p.lock_fd);
    return EXIT_CODE_OK;
}
