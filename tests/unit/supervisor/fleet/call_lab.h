/*
 * Calls and executions without workers: call_lab.c defines the functions of sandbox.c and
 * supervisor/fleet/workers/link.c that call.c needs, so the linker takes these instead. The link is
 * in this process, and answers as a test chooses.
 */
#ifndef CLOISTER_TESTS_UNIT_FLEET_CALL_LAB_H
#define CLOISTER_TESTS_UNIT_FLEET_CALL_LAB_H

/* cmocka.h needs these headers before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "supervisor/base/config.h"
#include "supervisor/calls/call.h"
#include "supervisor/calls/executions.h"

struct world {
    uv_loop_t loop;
    struct config config;
    struct fleet_host host;
    struct sandbox s;
    enum sandbox_state state;
    /* the pending request */
    bool out;
    struct msg_start start;
    bool is_start;
    uint64_t out_from;
    bool skip;
    char op[FLEET_ID_SIZE];
    worker_reply_fn done;
    void *arg;
    /* the pending INPUT, which may be out beside the other request */
    struct {
        bool out;
        uint64_t at;
        char data[64];
        worker_reply_fn done;
        void *arg;
        unsigned unsent; /* how many of the next ones cannot be sent */
    } input;
    unsigned starts, interrupts, kills, acks;
    uint64_t began_ms; /* when the first operation began, as its replies say */
    bool killed;
    bool closed;
};

extern struct world w;

/* The answer to a caller that waits for an execution. */
struct told {
    unsigned times;
    int rc;
    enum op_state state;
    uint64_t status;
    char op[FLEET_ID_SIZE];
    char language[16];
    char out[64];
    uint64_t out_bytes;
    bool unconfirmed;
    char err[512];
};

int setup(void **state);
void turn(void);
int teardown(void **state);
void reply_with(int rc, const struct msg *m, const struct err *err);
struct msg output(enum op_state op_state, const char *text, uint64_t from);
void reply(enum op_state op_state, const char *text);
void reply_error(enum err_code code);
void reply_input(uint64_t next);
/* The worker does not answer what is out any more. */
void lose_requests(void);
void lose_worker(void);
void resume(void);
void on_told(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
             const char *hint);
char letter(const struct told *t);
struct fleet_await *begin(char id[FLEET_ID_SIZE], struct told *told);
void ask(const char *owner, const char *id, struct told *told);

#endif
