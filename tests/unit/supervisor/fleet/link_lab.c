#include "tests/unit/supervisor/fleet/link_lab.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/version.h"

#define WAIT_MS 30000 /* HELLO has a timeout of 10 s */

/* ---- the lab itself ---- */

static void on_released(struct fleet_host *host)
{
    (void)host; /* a test checks host.held, so there is nothing to do */
}

int lab_setup(void **state)
{
    struct lab *lab = alloc_one(struct lab);
    const char *stub = getenv("WORKER_STUB_PATH");
    int lifeline[2];
    log_set_level(getenv("TEST_LOG") != NULL ? LOG_DEBUG : LOG_ERROR);
    assert_non_null(stub);
    snprintf(lab->dir, sizeof(lab->dir), "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(lab->dir));
    snprintf(lab->socket, sizeof(lab->socket), "%s/w%d.sock", lab->dir, LAB_GENERATION);
    assert_int_equal(uv_loop_init(&lab->loop), 0);
    uv_timer_init(&lab->loop, &lab->deadline);
    lab->deadline.data = lab;
    assert_int_equal(uv_pipe(lifeline, 0, 0), 0);
    lab->host.loop = &lab->loop;
    lab->host.worker_path = alloc_strdup(stub);
    lab->host.agent_path = alloc_strdup(stub);
    lab->host.lifeline_read = lifeline[0];
    lab->host.lifeline_write = lifeline[1];
    lab->host.on_released = on_released;
    lab->host.held = 1; /* for the lab itself */
    TAILQ_INIT(&lab->host.links);
    lab->args = (struct worker_args){
        .sandbox = "sandbox",
        .dir = lab->dir,
        .shared_dir = lab->dir,
        .generation = LAB_GENERATION,
    };
    *state = lab;
    return 0;
}

int lab_teardown(void **state)
{
    struct lab *lab = *state;
    lab_clean(lab);
    unsetenv("WORKER_STUB");
    uv_close((uv_handle_t *)&lab->deadline, NULL);
    uv_run(&lab->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&lab->loop), 0);
    close(lab->host.lifeline_read);
    close(lab->host.lifeline_write);
    free(lab->host.worker_path);
    free(lab->host.agent_path);
    err_ignore(dir_remove(lab->dir, NULL));
    free(lab);
    return 0;
}

/* ---- waiting ---- */

static void on_deadline(uv_timer_t *timer)
{
    struct lab *lab = timer->data;
    lab->late = true;
}

static void set_deadline(struct lab *lab, uint64_t ms)
{
    lab->late = false;
    uv_update_time(&lab->loop);
    uv_timer_start(&lab->deadline, on_deadline, ms, 0);
}

void lab_wait(struct lab *lab, const unsigned *count, unsigned wanted)
{
    set_deadline(lab, WAIT_MS);
    while (*count < wanted && !lab->late) {
        uv_run(&lab->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&lab->deadline);
    assert_int_equal(*count, wanted);
}

void lab_wait_begin(struct lab *lab)
{
    set_deadline(lab, WAIT_MS);
}

void lab_wait_turn(struct lab *lab, const char *what)
{
    if (lab->late) {
        fail_msg("%s: not within %d ms: %s", lab->step, WAIT_MS, what);
    }
    uv_run(&lab->loop, UV_RUN_ONCE);
}

void lab_wait_end(struct lab *lab)
{
    uv_timer_stop(&lab->deadline);
}

void lab_pass(struct lab *lab, uint64_t ms)
{
    set_deadline(lab, ms);
    while (!lab->late) {
        uv_run(&lab->loop, UV_RUN_ONCE);
    }
}

static void wait_flag(struct lab *lab, const bool *flag)
{
    set_deadline(lab, WAIT_MS);
    while (!*flag && !lab->late) {
        uv_run(&lab->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&lab->deadline);
    assert_true(*flag);
}

static void wait_request(struct lab *lab, const struct lab_request *r)
{
    set_deadline(lab, WAIT_MS);
    while (r->request == NULL && !lab->late) {
        uv_run(&lab->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&lab->deadline);
    assert_non_null(r->request);
}

/* ---- the owner ---- */

static void on_ready(void *arg)
{
    struct lab *lab = arg;
    lab->ready++;
}

static void on_dead(void *arg, const struct worker_death *death)
{
    struct lab *lab = arg;
    lab->dead++;
    lab->death = *death;
    snprintf(lab->reason, sizeof(lab->reason), "%s", death->reason);
}

static void on_answer(void *arg, int rc, const struct msg *reply, const struct err *err,
                      const char *hint)
{
    struct lab *lab = arg;
    assert_int_equal(lab->dead, 0); /* requests are answered before the death is reported */
    assert_non_null(hint);
    assert_int_equal(rc == 0, reply != NULL);
    lab->answered++;
    lab->answer_rc = rc;
    lab->answer_refused = err != NULL;
}

int lab_ask(struct lab *lab)
{
    struct msg m = {.type = MSG_CLOSE};
    return worker_link_ask(lab->link, &m, 0, on_answer, lab, NULL);
}

static const struct worker_link_events events = {.ready = on_ready, .dead = on_dead};

void lab_start(struct lab *lab, const char *behaviour)
{
    struct err err = ERR_INIT;
    setenv("WORKER_STUB", behaviour, 1);
    if (worker_link_start(&lab->host, &lab->args, &events, lab, &lab->link, &err) < 0) {
        fail_msg("%s", err.text);
    }
    lab->pid = worker_link_pid(lab->link);
}

static void on_exit_of_a_stranger(void *arg, int exit_code, int signal)
{
    (void)arg, (void)exit_code, (void)signal;
    fail_msg("told of a process that was let go of");
}

void lab_spawn(struct lab *lab, const char *behaviour)
{
    struct worker_process *process;
    struct err err = ERR_INIT;
    setenv("WORKER_STUB", behaviour, 1);
    if (worker_spawn(&lab->host, &lab->args, on_exit_of_a_stranger, lab, &process, &err) < 0) {
        fail_msg("%s", err.text);
    }
    lab->pid = worker_process_pid(process);
    lab->reaped_by_hand = true;
    worker_process_abandon(process);
}

void lab_adopt(struct lab *lab, const char *behaviour)
{
    struct err err = ERR_INIT;
    if (lab->pid == 0) {
        lab_spawn(lab, behaviour);
    }
    if (worker_link_adopt(&lab->host, &lab->args, lab->pid, worker_process_start_time(lab->pid),
                          &events, lab, &lab->link, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(worker_link_pid(lab->link), lab->pid);
}

/* ---- the worker's end ---- */

void lab_reply(struct lab_request *r, struct msg *m)
{
    CLEANUP_BUF struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, LIMIT_FRAME);
    assert_non_null(r->request);
    if (msg_encode(&out, m, &err) < 0) {
        fail_msg("%s", err.text);
    }
    ipc_reply(r->request, out.data, out.len);
    r->request = NULL;
}

void lab_reply_garbage(struct lab_request *r)
{
    assert_non_null(r->request);
    ipc_reply(r->request, "\xc1garbage", 8);
    r->request = NULL;
}

static void on_request(void *arg, struct ipc_request *request, const void *data, size_t len)
{
    struct lab *lab = arg;
    struct msg m;
    struct err err = ERR_INIT;
    if (msg_decode(MSG_LINK_W, data, len, &m, &err) < 0) {
        fail_msg("%s", err.text);
    }
    struct lab_request r = {request, m.seq};
    struct msg pong = {.type = MSG_PONG, .seq = m.seq};
    switch (m.type) {
    case MSG_HELLO:
        assert_int_equal(m.hello.generation, LAB_GENERATION);
        assert_int_equal(m.hello.version, PROTO_VERSION);
        lab->hello = r;
        break;
    case MSG_PING:
        pong.pong.value = m.ping.value;
        if (!lab->silent) {
            lab_reply(&r, &pong);
        }
        break;
    default:
        assert_int_equal(m.type, MSG_CLOSE);
        lab->asked = r;
        break;
    }
    msg_finish(&m);
}

static void on_peer_link(void *arg, bool up)
{
    (void)arg, (void)up;
}

void lab_dial(struct lab *lab)
{
    struct err err = ERR_INIT;
    if (ipc_server_open(&lab->loop, lab->socket, 8, LIMIT_FRAME, on_request, on_peer_link, lab,
                        &lab->peer, &err) < 0) {
        fail_msg("%s", err.text);
    }
    wait_request(lab, &lab->hello);
}

static void on_peer_closed(void *arg)
{
    struct lab *lab = arg;
    lab->peer_closed = true;
}

void lab_hang_up(struct lab *lab)
{
    if (lab->peer != NULL) {
        lab->peer_closed = false;
        ipc_server_close(lab->peer, on_peer_closed, lab);
        lab->peer = NULL;
        lab->hello.request = NULL;
        lab->asked.request = NULL;
        wait_flag(lab, &lab->peer_closed);
    }
}

void lab_say_hello(struct lab *lab)
{
    struct msg m = {.type = MSG_HELLO_OK, .seq = lab->hello.seq};
    m.hello_ok.protocol = view_of(PROTO_WORKER_NAME);
    m.hello_ok.version = PROTO_VERSION;
    m.hello_ok.build = view_of("lab");
    m.hello_ok.pid = (uint64_t)lab->pid;
    lab_reply(&lab->hello, &m);
}

/* ---- the end ---- */

bool lab_process_lives(const struct lab *lab)
{
    siginfo_t info = {.si_pid = 0};
    /* False for a process that libuv has reaped, which is no child any more. */
    return waitid(P_PID, (id_t)lab->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

void lab_bury(struct lab *lab)
{
    set_deadline(lab, WAIT_MS);
    while (lab->host.held > 1 && !lab->late) {
        uv_run(&lab->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&lab->deadline);
    assert_int_equal(lab->host.held, 1);
    assert_true(TAILQ_EMPTY(&lab->host.links));
}

void lab_clean(struct lab *lab)
{
    if (lab->link != NULL) {
        if (lab->dead == 0) {
            worker_link_kill(lab->link, "cleaned away");
            lab_wait(lab, &lab->dead, 1);
        }
        worker_link_destroy(lab->link);
        lab->link = NULL;
    }
    lab_hang_up(lab);
    if (lab->reaped_by_hand) {
        kill(lab->pid, SIGKILL);
        assert_int_equal(waitpid(lab->pid, NULL, 0), lab->pid);
    }
    lab_bury(lab);
    lab->pid = 0;
    lab->reaped_by_hand = false;
    lab->silent = false;
    lab->ready = lab->dead = lab->answered = 0;
    lab->answer_rc = 0;
    lab->answer_refused = false;
    lab->reason[0] = '\0';
}
