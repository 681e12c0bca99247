/*
 * A real cloister-agent in a process of its own, and a worker's side of its link, for tests.
 *
 * Everything blocks with a deadline. A failure is a negative code and a text in err, as everywhere.
 */
#ifndef CLOISTER_TESTS_LIB_AGENT_CLIENT_H
#define CLOISTER_TESTS_LIB_AGENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/buf.h"
#include "common/err.h"
#include "proto/msg.h"

#define AGENT_CLIENT_WAIT_MS 60000 /* deadline of any event */

struct agent_options {
    const char *program;   /* path of cloister-agent */
    uint64_t grace_ms;     /* 0: 60 s */
    uint64_t nproc;        /* 0: no limit */
    uint64_t data_bytes;   /* 0: no limit */
    uint64_t memory_bytes; /* memory limit that the agent is told; 0: none */
    bool own_namespace;    /* as pid 1 of a pid namespace, with its own /proc */
    const char *path_env;  /* PATH; NULL: ours */
    bool packages;         /* it has a directory of packages, `packages` below its own */
    bool installs;         /* code may ask for packages, by `installs` below its own directory */
    bool listens; /* makes its socket itself, with a delay, and accepts any process with our uid */
    bool relays_stdio; /* with its own relay, on these two; needs `listens` */
    int stdin_fd, stdout_fd;
};

struct agent_process {
    pid_t pid;    /* the agent, or its parent in own_namespace */
    char dir[64]; /* temporary, removed by agent_stop() */
    char workspace[96];
    char socket[96];
    uid_t user; /* uid of user code */
};

/* -ERR_DENIED if this machine does not allow what the options need (a test skips then). */
int agent_start(struct agent_process *p, const struct agent_options *o, struct err *err);

/* The same in an existing directory, after an earlier agent has ended. */
int agent_start_again(struct agent_process *p, const struct agent_options *o, struct err *err);

/* Waits for the agent to end; its exit code, 128 + n for a signal, -1 if it did not end in time. */
int agent_wait(struct agent_process *p);

/* Kills all remaining processes and removes the directory. */
void agent_stop(struct agent_process *p);

struct agent_client {
    int fd; /* -1: not connected */
    uint64_t seq;
    struct buf in;
    size_t used;     /* bytes of `in` that the last message occupies */
    unsigned events; /* RUNNING events received while waiting for replies */
    unsigned turns;  /* how many of them are of operations that waited */
    char last_event[LIMIT_NAME + 1];
    uint64_t last_ran_us;
    bool last_waited;
};

int agent_connect(struct agent_client *c, const struct agent_process *p, struct err *err);

/* Makes a HELLO that the agent accepts, and sends one. */
struct msg agent_hello_message(uint64_t generation);
int agent_hello(struct agent_client *c, uint64_t generation, struct msg *reply, struct err *err);

void agent_disconnect(struct agent_client *c);

/* A client on a connected stream; it owns fd, a socket. */
void agent_adopt(struct agent_client *c, int fd);

/* Sends with the next seq, which is set in m->seq. */
int agent_send_msg(struct agent_client *c, struct msg *m, struct err *err);

/* Next message, events included; borrowed until the next call. -ERR_TIMEOUT, -ERR_GONE. */
int agent_receive(struct agent_client *c, struct msg *ret, uint64_t wait_ms, struct err *err);

/* Next message that is no event; events are counted. The wait time is that of each message. */
int agent_receive_reply(struct agent_client *c, struct msg *ret, uint64_t wait_ms, struct err *err);

/* Sends and waits for the reply with that seq; events are counted, other replies dropped. */
int agent_ask(struct agent_client *c, struct msg *m, struct msg *reply, struct err *err);

/* One representation of a display, or one changed file (without number and type). */
struct agent_item {
    uint64_t number;
    char mime[LIMIT_NAME + 1];
    char *path; /* owned */
    uint64_t size;
};

/* The outcome of an operation, with all of its output. */
struct agent_result {
    struct msg_output last; /* the final OUTPUT; its views are not valid, see below */
    char *out, *err;        /* NUL-terminated, owned */
    size_t out_len, err_len;
    char *result, *name, *message, *traceback; /* owned */
    struct agent_item *displays, *files;       /* owned */
    size_t display_count, file_count;
    int failed; /* code of FAILED if there is no outcome; else 0 */
};

void agent_result_finish(struct agent_result *r);

/* Sends START with these fields (op, kind, ... filled in by the caller) and WAIT until it is
 * done. */
int agent_run_op(struct agent_client *c, const struct msg_start *start, struct agent_result *ret,
                 struct err *err);

/* Sends WAIT for an operation that was started before, from these offsets on, until it is done. */
int agent_follow(struct agent_client *c, const char *op, uint64_t out_from, uint64_t err_from,
                 struct agent_result *ret, struct err *err);

/* A START message for code with a fresh id: NUL-terminated, valid until the 16th next call. */
struct msg_start agent_code(struct agent_client *c, const char *language, const char *code);

#endif
