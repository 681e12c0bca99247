/*
 * One link with its surroundings controlled by a test: a host without a fleet, a process that only
 * exists, and the worker's end of the socket, which the test serves itself.
 *
 * Every wait runs the loop until the event has happened and fails the test after a deadline.
 */
#ifndef CLOISTER_TESTS_UNIT_FLEET_LINK_LAB_H
#define CLOISTER_TESTS_UNIT_FLEET_LINK_LAB_H

/* cmocka.h needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <uv.h>

#include "common/io/ipc.h"
#include "proto/msg.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/workers/link.h"

#define LAB_GENERATION 3

/* A request that has arrived at the worker's end; request is NULL if there is none. */
struct lab_request {
    struct ipc_request *request;
    uint64_t seq;
};

struct lab {
    uv_loop_t loop;
    uv_timer_t deadline;
    bool late;
    char step[48]; /* what a failed wait belongs to */
    struct fleet_host host;
    char dir[64];
    char socket[96];
    struct worker_args args;

    struct worker_link *link;
    int pid;
    bool reaped_by_hand; /* the process is not reaped by the loop */

    struct ipc_server *peer;
    bool peer_closed;
    bool silent; /* PINGs are not answered */
    struct lab_request hello, asked;

    /* Callbacks of the link's owner. */
    unsigned ready, dead, answered;
    struct worker_death death;
    char reason[256];
    int answer_rc;
    bool answer_refused; /* the answer was an error of the worker's */
};

int lab_setup(void **state);
int lab_teardown(void **state);

/* Makes a link to a new process, or to one that the link has not started itself. `behaviour` is the
 * stub's, "hello-hang" for a process that leaves the socket to the test. */
void lab_start(struct lab *lab, const char *behaviour);
void lab_adopt(struct lab *lab, const char *behaviour);
/* Starts only the process of lab_adopt(). */
void lab_spawn(struct lab *lab, const char *behaviour);

/* Dials as the worker, and waits until HELLO has arrived there. */
void lab_dial(struct lab *lab);
void lab_hang_up(struct lab *lab);
/* Answers the request and clears it. */
void lab_reply(struct lab_request *r, struct msg *m);
void lab_reply_garbage(struct lab_request *r);
void lab_say_hello(struct lab *lab);

/* Sends a request of the owner's (CLOSE). */
int lab_ask(struct lab *lab);

void lab_wait(struct lab *lab, const unsigned *count, unsigned wanted);
/* Runs the loop until the condition holds; fails after a deadline. */
#define LAB_WAIT_UNTIL(lab, is_so)                                                                 \
    do {                                                                                           \
        lab_wait_begin(lab);                                                                       \
        while (!(is_so)) {                                                                         \
            lab_wait_turn(lab, #is_so);                                                            \
        }                                                                                          \
        lab_wait_end(lab);                                                                         \
    } while (0)
void lab_wait_begin(struct lab *lab);
void lab_wait_turn(struct lab *lab, const char *what);
void lab_wait_end(struct lab *lab);
/* Runs the loop for this long. */
void lab_pass(struct lab *lab, uint64_t ms);
/* True if the process is alive, and not a zombie. */
bool lab_process_lives(const struct lab *lab);
/* Waits until all destroyed links are freed. */
void lab_bury(struct lab *lab);
/* Kills the process if there is one, destroys the link if it is dead, and waits until both are
 * gone; then the lab can be used again. */
void lab_clean(struct lab *lab);

#endif
