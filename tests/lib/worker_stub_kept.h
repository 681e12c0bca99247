/*
 * What the stub of a worker keeps in its sandbox's directory, where a real sandbox has an agent.
 * For worker_stub.c only. One thread; what goes wrong ends the process.
 */
#ifndef CLOISTER_TESTS_LIB_WORKER_STUB_KEPT_H
#define CLOISTER_TESTS_LIB_WORKER_STUB_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/io/ipc.h"
#include "proto/msg.h"

#define OPS_MAX  64
#define TEXT_MAX 4096

/* Where it is kept, and which worker asks. */
struct kept {
    const char *dir;
    uint64_t generation;
};

struct kept_op {
    char id[LIMIT_NAME];
    char code[TEXT_MAX]; /* "<word> <arguments>" */
    uint64_t start_ms;
    uint64_t kind;
    uint64_t timeout_ms;

    /* Of this worker only. */
    bool stopped; /* ended by CANCEL */
    bool forced;
    struct ipc_request *waiter;
    struct msg_wait wait; /* of the waiter */
    uint64_t wait_seq;
    uint64_t wait_since_ms;
    struct view echo; /* stdin_data, owned */
};

bool kept_has(const struct kept *k, const char *file);

/* Reads back what an earlier worker began; false if there is no such operation. */
bool kept_load(const struct kept *k, const char *id, struct kept_op *op);

/* Writes it down as begun now. */
void kept_begin(const struct kept *k, struct kept_op *op);

/* Its state at this moment; its bytes so far in out and err. */
void kept_look(const struct kept *k, struct kept_op *op, struct msg_output *o, struct buf *out,
               struct buf *err);

/* Encodes OPS_OK: all operations that are there, oldest first. */
void kept_ops(const struct kept *k, uint64_t seq, struct buf *reply);

/* Does the code begin with this word? The rest of it, then. */
bool stub_word_is(const char *code, const char *word, const char **ret_rest);

/* Cuts a number off, 0 if there is none. */
uint64_t stub_number_at(const char **text);

#endif
