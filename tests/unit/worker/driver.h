/*
 * Drives a real cloister-worker process over its real link, with the `fake` backend behind it, and
 * waits for events instead of sleeping. All failures are cmocka failures.
 */
#ifndef CLOISTER_TESTS_UNIT_WORKER_DRIVER_H
#define CLOISTER_TESTS_UNIT_WORKER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/buf.h"
#include "common/io/ipc.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"
#include "proto/msg.h"

#define DRIVER_SANDBOX "testsandbox"

struct driver {
    uv_loop_t loop;
    struct ipc_client *client;
    bool up; /* a worker is connected */
    uint64_t seq;
    char dir[64];
    char socket[96];
    const char *agent; /* path of cloister-agent */

    uv_process_t *process;
    bool running;
    int exit_code;
    int exit_signal;
    int lifeline; /* our end of the worker's descriptor 3 */
    int log;      /* stderr of the next worker */
};

/* The answer to one request. */
struct answer {
    bool done;
    int rc;
    struct msg m;
    struct buf data; /* the bytes that m borrows */
};

void driver_init(struct driver *d);
/* Listens on the socket, after driver_unlisten(). */
void driver_listen(struct driver *d);
void driver_unlisten(struct driver *d);
void driver_finish(struct driver *d);

/* For cmocka: the state is a driver. */
int driver_setup(void **state);
int driver_teardown(void **state);

/* Starts a worker process. */
void driver_launch(struct driver *d, uint64_t generation);
/* The same, and waits for its link. */
void driver_spawn(struct driver *d, uint64_t generation);
/* The same, and sends HELLO. */
void driver_start(struct driver *d, uint64_t generation);
void driver_kill(struct driver *d, int signal_number); /* and waits for the process to end */
int driver_wait_exit(struct driver *d);                /* its exit code */
void driver_wait_link(struct driver *d, bool up);

/* True if the agent of this sandbox is a live process. */
bool driver_agent_runs(const struct driver *d);

/* Runs the loop until *flag is true; fails the test after a deadline. */
void driver_wait_flag(struct driver *d, const bool *flag, const char *what);
/* Runs the loop for that time, for the rare cases in which nothing is expected to happen. */
void driver_idle(struct driver *d, uint64_t ms);

void driver_send(struct driver *d, struct msg *m, struct answer *a);
void driver_wait(struct driver *d, struct answer *a, enum msg_type want);
/* Sends, waits, and checks the type of the answer. Free it with answer_finish(). */
void driver_ask(struct driver *d, struct msg *m, struct answer *a, enum msg_type want);
void answer_finish(struct answer *a);

/* Requests with sensible values. Strings are borrowed. */
struct msg make_hello(uint64_t generation);
struct msg make_open(const char *image, bool attach);
struct msg make_start(const char *op, const char *script, uint64_t timeout_ms, uint64_t wait_ms);
struct msg make_wait(const char *op, uint64_t out_from, uint64_t wait_ms);
struct msg make_cancel(const char *op, bool force);

/* The supervisor dies, and another one connects and sends HELLO. */
void driver_succeed(struct driver *d, uint64_t generation);

/* Sends OPEN with this image, and drops the OPENED. */
void driver_open(struct driver *d, const char *image, bool attach);
/* The worker is killed, and another one takes the sandbox over. */
void driver_replace(struct driver *d, uint64_t generation);
/* Sends START, then WAIT until the end; *a is the last answer, *out the bytes of stdout. */
void driver_run(struct driver *d, const char *op, const char *script, uint64_t timeout_ms,
                struct answer *a, struct buf *out);
/* Sends CLOSE; the process must end with EXIT_CODE_OK. */
void driver_close(struct driver *d);

#endif
