/* The link to one worker, started by this server or an earlier one: every event in every state. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "proto/exit_codes.h"
#include "proto/version.h"
#include "supervisor/fleet/workers/link_internal.h"
#include "tests/unit/supervisor/fleet/link_lab.h"

#define STRANGER "hello-hang" /* a process that only exists */

/* ---- the table ---- */

static void only_declared_moves_are_possible(void **state)
{
    /* columns: starting ready leaving dying dead */
    static const char *const expected[LINK_STATE_COUNT] = {
        [LINK_STARTING] = ".++++", [LINK_READY] = "..+++", [LINK_LEAVING] = "...++",
        [LINK_DYING] = "....+",    [LINK_DEAD] = ".....",
    };
    for (unsigned from = 0; from < LINK_STATE_COUNT; from++) {
        struct sm m;
        sm_init(&m, link_states, LINK_STATE_COUNT, from);
        for (unsigned to = 0; to < LINK_STATE_COUNT; to++) {
            assert_int_equal(sm_may(&m, to), expected[from][to] == '+');
        }
    }
}

/* ---- state x event ---- */

enum event {
    HELLO_OK,
    HELLO_REFUSED, /* FAILED VERSION */
    HELLO_GARBAGE,
    REPLY,
    REPLY_FAILED,
    REPLY_GARBAGE,
    REPLY_OTHER_SEQ,
    LINK_LOST,
    REAPED,
    KILL,
    RETIRE,
    SILENCE,
    PATIENCE, /* the timeout of the state */
    ABANDON,
    EVENT_COUNT,
};

/* How a state is reached. The request sent before is unanswered in all of them. */
enum place {
    STARTING,
    READY,
    LEAVING_NEW,     /* retired before it said hello */
    LEAVING,         /* retired */
    LEAVING_LOST,    /* its link was lost */
    LEAVING_REAPED,  /* it has ended, but not all of its messages need have arrived */
    LEAVING_REFUSED, /* it is of another build */
    DYING_NEW,       /* killed before it said hello */
    DYING,
    DEAD,
    PLACE_COUNT,
};

/*
 * The result. First letter: the request. + answered, f refused, x told that there will be no
 * answer. Second letter: the reason of the death. e its process ended by itself (or by the test), o
 * another build, g garbage, q illegal in this state, l lost, w killed as the owner wanted, r did
 * not go, s silent, t no HELLO in time; a: none, it was abandoned.
 */
static const char *const outcomes[PLACE_COUNT][EVENT_COUNT] = {
    [STARTING] = {"xe", "xo", "xg", "+e", "fe", "xg", "xq", "xl", "xe", "xw", "xr", NULL, "xt",
                  "xa"},
    [READY] = {NULL, NULL, NULL, "+e", "fe", "xg", "xq", "xl", "xe", "xw", "xr", "xs", NULL, "xa"},
    [LEAVING_NEW] = {"xr", "xo", "xg", "+r", "fr", "xg", "xq", "xr", "xe", "xw", "xr", NULL, "xr",
                     "xa"},
    [LEAVING] = {NULL, NULL, NULL, "+r", "fr", "xg", "xq", "xr", "xe", "xw", "xr", NULL, "xr",
                 "xa"},
    [LEAVING_LOST] = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "xe", "xw", "xr", NULL, "xl",
                      "xa"},
    [LEAVING_REAPED] = {NULL, NULL, NULL, "+e", "fe", "xe", "xe", "xe", NULL, "xe", "xe", NULL,
                        "xe", "xa"},
    [LEAVING_REFUSED] = {NULL, NULL, NULL, "+o", "fo", "xo", "xo", "xo", "xo", "xo", "xo", NULL,
                         "xo", "xa"},
    [DYING_NEW] = {"xw", "xw", "xw", "xw", "xw", "xw", "xw", "xw", "xw", "xw", "xw", NULL, "xw",
                   "xa"},
    [DYING] = {NULL, NULL, NULL, "xw", "xw", "xw", "xw", "xw", "xw", "xw", "xw", NULL, "xw", "xa"},
    [DEAD] = {NULL, NULL, NULL, "xe", "xe", "xe", "xe", "xe", NULL, "xe", "xe", NULL, NULL, NULL},
};

static const char *reason_text(char letter, bool adopted)
{
    switch (letter) {
    case 'e':
        return adopted ? "only the server that started it" : "killed by signal 9";
    case 'o':
        return "belongs to another build of cloister";
    case 'g':
        return "sent garbage";
    case 'q':
        return "out of turn";
    case 'l':
        return "its link was lost";
    case 'w':
        return "the owner wants it so";
    case 'r':
        return "did not exit after it was closed";
    case 's':
        return "no sign of life";
    default:
        return "did not answer hello in time";
    }
}

/* Blocks the loop, as when this server itself is stopped. */
static void let_time_pass_unseen(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&t, &t) < 0) {
        /* a child has ended, which this must not notice */
    }
}

static void wait_ending(struct lab *lab)
{
    LAB_WAIT_UNTIL(lab, worker_link_is_ending(lab->link));
}

static void refuse_hello(struct lab *lab)
{
    struct msg m = {.type = MSG_FAILED, .seq = lab->hello.seq};
    m.failed.code = ERR_VERSION;
    m.failed.message = view_of("this worker speaks version 1, not version 99");
    lab_reply(&lab->hello, &m);
}

static void reach(struct lab *lab, enum place place, bool adopted)
{
    (adopted ? lab_adopt : lab_start)(lab, STRANGER);
    assert_int_equal(lab_ask(lab), 0);
    lab_dial(lab);
    LAB_WAIT_UNTIL(lab, lab->asked.request != NULL);
    if (place == READY || place == LEAVING || place == LEAVING_LOST || place == LEAVING_REAPED ||
        place == DYING || place == DEAD) {
        lab_say_hello(lab);
        lab_wait(lab, &lab->ready, 1);
    }
    switch (place) {
    case LEAVING_NEW:
    case LEAVING:
        worker_link_retire(lab->link, 200);
        break;
    case LEAVING_LOST:
        lab_hang_up(lab);
        wait_ending(lab);
        break;
    case LEAVING_REAPED:
        kill(lab->pid, SIGKILL);
        wait_ending(lab);
        break;
    case LEAVING_REFUSED:
        kill(lab->pid, SIGSTOP); /* it will be told to end, but cannot react */
        refuse_hello(lab);
        wait_ending(lab);
        break;
    case DYING_NEW:
    case DYING:
        worker_link_kill(lab->link, "the owner wants it so");
        break;
    case DEAD:
        kill(lab->pid, SIGKILL);
        lab_wait(lab, &lab->dead, 1);
        break;
    default:
        break;
    }
}

static void do_event(struct lab *lab, enum place place, enum event event)
{
    struct msg ok = {.type = MSG_OK, .seq = lab->asked.seq};
    struct msg failed = {.type = MSG_FAILED, .seq = lab->asked.seq};
    switch (event) {
    case HELLO_OK:
        lab_say_hello(lab);
        break;
    case HELLO_REFUSED:
        refuse_hello(lab);
        break;
    case HELLO_GARBAGE:
        lab_reply_garbage(&lab->hello);
        break;
    case REPLY:
        lab_reply(&lab->asked, &ok);
        break;
    case REPLY_FAILED:
        failed.failed.code = ERR_BUSY;
        failed.failed.message = view_of("not now");
        lab_reply(&lab->asked, &failed);
        break;
    case REPLY_GARBAGE:
        lab_reply_garbage(&lab->asked);
        break;
    case REPLY_OTHER_SEQ:
        ok.seq++;
        lab_reply(&lab->asked, &ok);
        break;
    case LINK_LOST:
        lab_hang_up(lab);
        break;
    case REAPED:
        kill(lab->pid, SIGKILL);
        break;
    case KILL:
        worker_link_kill(lab->link, "the owner wants it so");
        break;
    case RETIRE:
        worker_link_retire(lab->link, 200);
        break;
    case SILENCE:
        lab->silent = true;
        break;
    case PATIENCE:
        if (place == DYING || place == DYING_NEW) {
            let_time_pass_unseen(1100); /* so the timeout comes before its end is seen */
        }
        break;
    default:
        worker_link_abandon(lab->link);
        lab->link = NULL;
        break;
    }
}

/* The process of an abandoned link lives, unless it had been killed before. */
static void check_abandoned(struct lab *lab, enum place place)
{
    LAB_WAIT_UNTIL(lab, lab->host.held <= 1);
    assert_int_equal(lab->dead, 0);
    if (place < LEAVING_REAPED) {
        assert_true(lab_process_lives(lab));
    }
    /* The loop has reaped the child of LEAVING_REAPED, so the test does not wait for it. */
    lab->reaped_by_hand = lab->reaped_by_hand || place != LEAVING_REAPED;
}

/* Closes the link of a process that has ended, which the process itself would do. */
static void close_behind(struct lab *lab)
{
    LAB_WAIT_UNTIL(lab, lab->link->reaped || lab->dead > 0);
    if (lab->dead == 0 && lab->peer != NULL) {
        lab_hang_up(lab);
    }
}

/* What leaves has a tenth of a second or two to end, which may pass on a busy machine before the
 * event is seen. Where the event is to give the reason, that time does not end. */
static void wait_for_the_event_alone(struct lab *lab, enum place place, char reason)
{
    bool leaves = place == LEAVING_NEW || place == LEAVING || place == LEAVING_LOST;
    if (leaves && strchr("egq", reason) != NULL) {
        uv_timer_stop(&lab->link->patience);
    }
}

static void check(struct lab *lab, enum place place, enum event event, bool adopted)
{
    const char *expected = outcomes[place][event];
    snprintf(lab->step, sizeof(lab->step), "place %d, event %d", (int)place, (int)event);
    reach(lab, place, adopted);
    wait_for_the_event_alone(lab, place, expected[1]);
    do_event(lab, place, event);
    if (expected[1] == 'a') {
        check_abandoned(lab, place);
    } else {
        if (expected[1] == 'e' && place < LEAVING) {
            if (expected[0] != 'x') {
                lab_wait(lab, &lab->answered, 1);
            }
            if (event == HELLO_OK) {
                lab_wait(lab, &lab->ready, 1);
            }
            kill(lab->pid, SIGKILL);
        }
        if (place == LEAVING_REFUSED && (expected[0] == '+' || expected[0] == 'f')) {
            lab_wait(lab, &lab->answered, 1);
        }
        if (place == LEAVING_REFUSED && event != PATIENCE) {
            assert_true(worker_link_is_ending(lab->link));
            kill(lab->pid, SIGCONT); /* and it obeys SIGTERM */
        }
        if (event != PATIENCE) {
            close_behind(lab);
        }
        lab_wait(lab, &lab->dead, 1);
        if (strstr(lab->reason, reason_text(expected[1], adopted)) == NULL) {
            fail_msg("place %d, event %d: %s", (int)place, (int)event, lab->reason);
        }
        assert_int_equal(lab->death.other_version, expected[1] == 'o');
        assert_true(lab_ask(lab) < 0);
    }
    assert_int_equal(lab->answered, 1);
    if ((expected[0] == '+') != (lab->answer_rc == 0) ||
        (expected[0] == 'f') != lab->answer_refused) {
        fail_msg("place %d, event %d: answered %d", (int)place, (int)event, lab->answer_rc);
    }
    unsigned dead = lab->dead;
    uv_run(&lab->loop, UV_RUN_NOWAIT);
    assert_int_equal(lab->dead, dead);
    lab_clean(lab);
    assert_int_not_equal(access(lab->socket, F_OK), 0);
}

static void every_event_in_every_state(struct lab *lab, bool adopted)
{
    for (unsigned place = 0; place < PLACE_COUNT; place++) {
        for (unsigned event = 0; event < EVENT_COUNT; event++) {
            if (outcomes[place][event] != NULL) {
                check(lab, place, event, adopted);
            }
        }
    }
}

static void every_event_in_every_state_of_a_worker_of_ours(void **state)
{
    every_event_in_every_state(*state, false);
}

static void every_event_in_every_state_of_a_worker_found_again(void **state)
{
    every_event_in_every_state(*state, true);
}

/* ---- taking over ---- */

static void a_worker_finds_the_next_server(void **state)
{
    struct lab *lab = *state;
    lab_start(lab, "");
    lab_wait(lab, &lab->ready, 1);
    for (unsigned i = 0; i < 3; i++) {
        worker_link_abandon(lab->link);
        lab->reaped_by_hand = true;
        LAB_WAIT_UNTIL(lab, lab->host.held <= 1);
        lab_pass(lab, 300); /* its attempts have become less frequent meanwhile */
        lab_adopt(lab, "");
        lab_wait(lab, &lab->ready, 2 + i);
    }
    assert_true(worker_link_is_ready(lab->link));
    assert_int_equal(lab->dead, 0);
    /* The worker does what it is asked. */
    assert_int_equal(lab_ask(lab), 0);
    lab_wait(lab, &lab->answered, 1);
    assert_int_equal(lab->answer_rc, 0);
    worker_link_retire(lab->link, 5000);
    lab_wait(lab, &lab->dead, 1);
    assert_true(lab->death.said_hello);
    assert_int_equal(lab->death.exit_code, -1);
}

static void the_socket_of_a_dead_server_is_replaced(void **state)
{
    struct lab *lab = *state;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", lab->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd);
    assert_int_equal(access(lab->socket, F_OK), 0);
    lab_spawn(lab, "");
    lab_pass(lab, 300); /* its attempts fail */
    lab_adopt(lab, "");
    lab_wait(lab, &lab->ready, 1);
}

static void refuses_to_adopt(struct lab *lab, int pid, uint64_t start_time, int code,
                             const char *why)
{
    struct worker_link *link = NULL;
    struct err err = ERR_INIT;
    static const struct worker_link_events none = {.ready = NULL};
    int rc = worker_link_adopt(&lab->host, &lab->args, pid, start_time, &none, lab, &link, &err);
    assert_non_null(strstr(err.text, why));
    assert_int_equal(rc, -code);
    assert_null(link);
    lab_bury(lab); /* the socket's path can only be reused then */
}

static void a_worker_that_has_ended_is_not_taken_over(void **state)
{
    struct lab *lab = *state;
    lab_spawn(lab, STRANGER);
    uint64_t started = worker_process_start_time(lab->pid);
    assert_true(started > 0);
    refuses_to_adopt(lab, lab->pid, started + 1, ERR_GONE, "its number is another process's");
    refuses_to_adopt(lab, lab->pid, 0, ERR_IO, "when it started is not known");
    assert_true(lab_process_lives(lab));
    int pid = lab->pid;
    lab_clean(lab);
    refuses_to_adopt(lab, pid, started, ERR_GONE, "has ended");
    refuses_to_adopt(lab, -1, started, ERR_GONE, "has ended");
}

static void the_end_of_a_worker_that_never_dialled_is_seen(void **state)
{
    struct lab *lab = *state;
    lab_adopt(lab, STRANGER);
    kill(lab->pid, SIGKILL);
    lab_wait(lab, &lab->dead, 1);
    assert_non_null(strstr(lab->reason, reason_text('e', true)));
    assert_false(lab->death.said_hello);
    assert_int_equal(lab->death.exit_code, -1);
    lab_clean(lab);
    /* A zombie, whose pid still exists. */
    lab_spawn(lab, STRANGER);
    kill(lab->pid, SIGKILL);
    while (lab_process_lives(lab)) {
        lab_pass(lab, 1);
    }
    lab_adopt(lab, STRANGER);
    lab_wait(lab, &lab->dead, 1);
    assert_non_null(strstr(lab->reason, reason_text('e', true)));
}

static void a_worker_that_does_not_come_back_is_killed(void **state)
{
    struct lab *lab = *state;
    lab_adopt(lab, STRANGER);
    uint64_t begin_ms = clock_ms();
    lab_wait(lab, &lab->dead, 1);
    assert_true(clock_ms() - begin_ms >= TIME_ADOPT_MS - 100);
    assert_non_null(strstr(lab->reason, reason_text('t', true)));
    assert_false(lab_process_lives(lab));
}

/* Who waits for the end of a vfork() waits for a disk, as far as the kernel tells. */
static void a_worker_that_waits_for_the_machine_is_not_killed(void **state)
{
    struct lab *lab = *state;
    int ready[2];
    pid_t child = 0;
    assert_int_equal(pipe(ready), 0);
    lab->pid = fork();
    if (lab->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if a check fails */
        if (vfork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pid_t self = getpid();
            (void)!write(ready[1], &self, sizeof(self));
            pause();
            _exit(0);
        }
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
    struct waited waited = {.waits = false};
    while (!waited.waits) { /* the child runs before its parent waits */
        waited_begin(&waited, "", lab->pid, false, 1);
    }
    lab_adopt(lab, STRANGER);
    for (uint64_t end_ms = clock_ms() + 2 * TIME_ADOPT_MS; clock_ms() < end_ms;) {
        lab_pass(lab, 50);
    }
    assert_int_equal(lab->dead, 0);
    kill(child, SIGKILL);
    lab_wait(lab, &lab->dead, 1);
    assert_non_null(strstr(lab->reason, reason_text('t', true)));
    close(ready[0]);
    close(ready[1]);
}

static void hanging_worker(struct lab *lab, bool adopted)
{
    lab_start(lab, "");
    lab_wait(lab, &lab->ready, 1);
    if (adopted) {
        worker_link_abandon(lab->link);
        lab->reaped_by_hand = true;
        LAB_WAIT_UNTIL(lab, lab->host.held <= 1);
        lab_adopt(lab, "");
        lab_wait(lab, &lab->ready, 2);
    }
    kill(lab->pid, SIGSTOP);
    assert_int_equal(lab_ask(lab), 0);
    lab_wait(lab, &lab->dead, 1);
    assert_non_null(strstr(lab->reason, "no sign of life"));
    assert_int_equal(lab->answered, 1);
    lab_clean(lab);
}

static void a_stopped_worker_is_found_by_its_silence(void **state)
{
    hanging_worker(*state, false);
    hanging_worker(*state, true);
}

/* ---- another build ---- */

static void a_refusal_names_both_versions(struct lab *lab, bool adopted)
{
    struct msg m = {.type = MSG_HELLO_OK};
    (adopted ? lab_adopt : lab_start)(lab, STRANGER);
    lab_dial(lab);
    refuse_hello(lab);
    lab_wait(lab, &lab->dead, 1); /* by SIGTERM, which it obeys */
    assert_true(lab->death.other_version);
    assert_false(lab->death.said_hello);
    assert_non_null(strstr(lab->reason, "version 1, not version 99"));
    assert_int_equal(strstr(lab->reason, "reinstall") == NULL, adopted);
    lab_clean(lab);

    (adopted ? lab_adopt : lab_start)(lab, STRANGER);
    lab_dial(lab);
    m.seq = lab->hello.seq;
    m.hello_ok.protocol = view_of(PROTO_WORKER_NAME);
    m.hello_ok.version = PROTO_VERSION + 7;
    m.hello_ok.build = view_of("lab");
    m.hello_ok.pid = (uint64_t)lab->pid;
    lab_reply(&lab->hello, &m);
    lab_wait(lab, &lab->dead, 1);
    assert_true(lab->death.other_version);
    assert_int_equal(lab->ready, 0);
    lab_clean(lab);
}

static void another_build_is_told_to_end(void **state)
{
    a_refusal_names_both_versions(*state, false);
    a_refusal_names_both_versions(*state, true);
}

/* It has refused with a reason and exited: the reason counts, not the exit. */
static void a_refusal_survives_the_one_who_refused(void **state)
{
    struct lab *lab = *state;
    lab_adopt(lab, STRANGER);
    lab_dial(lab);
    kill(lab->pid, SIGKILL);
    refuse_hello(lab);
    lab_wait(lab, &lab->dead, 1);
    assert_true(lab->death.other_version);
}

/* ---- late messages ---- */

/* Messages on their way are waited for, however long the receiving threads take. */
static void an_answer_that_comes_long_after_the_exit_is_heard(void **state)
{
    struct lab *lab = *state;
    reach(lab, LEAVING_REAPED, false);
    lab_pass(lab, 400);
    assert_int_equal(lab->dead, 0);
    struct msg failed = {.type = MSG_FAILED, .seq = lab->asked.seq};
    failed.failed.code = ERR_ENGINE;
    failed.failed.message = view_of("no root could be made");
    lab_reply(&lab->asked, &failed);
    lab_wait(lab, &lab->dead, 1);
    assert_int_equal(lab->answered, 1);
    assert_true(lab->answer_refused);
}

/* ---- abandoning ---- */

static void on_exit_unexpected(void *arg, int exit_code, int signal)
{
    (void)arg, (void)exit_code, (void)signal;
    fail_msg("told of a process that was let go of");
}

static void on_exit_seen(void *arg, int exit_code, int signal)
{
    struct lab *lab = arg;
    assert_int_equal(exit_code, -1);
    assert_int_equal(signal, 0);
    lab->dead++;
}

static void who_only_watches_does_no_harm(void **state)
{
    struct lab *lab = *state;
    struct worker_process *p;
    struct err err = ERR_INIT;
    lab_spawn(lab, STRANGER);
    uint64_t started = worker_process_start_time(lab->pid);
    assert_int_equal(worker_watch(&lab->host, lab->pid, started, on_exit_unexpected, lab, &p, &err),
                     0);
    worker_process_release(p);
    assert_int_equal(worker_watch(&lab->host, lab->pid, started, on_exit_unexpected, lab, &p, &err),
                     0);
    worker_process_abandon(p);
    lab_pass(lab, 50);
    assert_true(lab_process_lives(lab));
    assert_int_equal(worker_watch(&lab->host, lab->pid, started, on_exit_seen, lab, &p, &err), 0);
    assert_int_equal(worker_process_pid(p), lab->pid);
    worker_process_stop(p);
    lab_wait(lab, &lab->dead, 1);
    assert_false(lab_process_lives(lab));
    worker_process_kill(p); /* too late, and without effect */
    worker_process_release(p);
    assert_int_equal(lab->dead, 1);
}

static void a_child_that_is_released_dies_and_is_buried(void **state)
{
    struct lab *lab = *state;
    struct worker_process *p;
    struct err err = ERR_INIT;
    setenv("WORKER_STUB", STRANGER, 1);
    assert_int_equal(worker_spawn(&lab->host, &lab->args, on_exit_unexpected, lab, &p, &err), 0);
    int pid = worker_process_pid(p);
    worker_process_release(p);
    LAB_WAIT_UNTIL(lab, lab->host.held <= 1);
    assert_int_equal(kill(pid, 0), -1); /* not even a zombie */
}

/* The two slow cases can be run alone, so that meson runs them in parallel with the others. */
int main(int argc, char **argv)
{
#define T(name) cmocka_unit_test_setup_teardown(name, lab_setup, lab_teardown)
    const char *part = argc > 1 ? argv[1] : "others";
    const struct CMUnitTest ours[] = {T(every_event_in_every_state_of_a_worker_of_ours)};
    const struct CMUnitTest found[] = {T(every_event_in_every_state_of_a_worker_found_again)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_declared_moves_are_possible),
        T(a_worker_finds_the_next_server),
        T(the_socket_of_a_dead_server_is_replaced),
        T(a_worker_that_has_ended_is_not_taken_over),
        T(the_end_of_a_worker_that_never_dialled_is_seen),
        T(a_worker_that_does_not_come_back_is_killed),
        T(a_worker_that_waits_for_the_machine_is_not_killed),
        T(a_stopped_worker_is_found_by_its_silence),
        T(another_build_is_told_to_end),
        T(a_refusal_survives_the_one_who_refused),
        T(an_answer_that_comes_long_after_the_exit_is_heard),
        T(who_only_watches_does_no_harm),
        T(a_child_that_is_released_dies_and_is_buried),
    };
    if (strcmp(part, "ours") == 0) {
        return cmocka_run_group_tests(ours, NULL, NULL);
    }
    if (strcmp(part, "found") == 0) {
        return cmocka_run_group_tests(found, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
