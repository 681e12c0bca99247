/*
 * The stub's operations, kept in its sandbox's directory, where a real sandbox has an agent. For
 * worker_stub.c only. One thread; an error ends the process.
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

/* The directory of the operations, and the worker that uses them. */
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

    /* Of this worker only, not in the file. */
    bool stopped; /* ended by CANCEL */
    bool forced;
    struct ipc_request *waiter;
    struct msg_wait wait; /* of the waiter */
    uint64_t wait_seq;
    uint64_t wait_since_ms;
    struct view echo; /* stdin_data, owned */
};

bool kept_has(const struct kept *k, const char *file);

/* Reads an operation that an earlier worker began; false if there is none. */
bool kept_load(const struct kept *k, const char *id, struct kept_op *op);

/* What it is to do: the code, or the module that it is to import. */
void kept_set_code(struct kept_op *op, const struct msg_start *start);

/* Writes the file of an operation that begins now. */
void kept_begin(const struct kept *k, struct kept_op *op);

/* Its state at this moment; its output so far in out and err. */
void kept_look(const struct kept *k, struct kept_op *op, struct msg_output *o, struct buf *out,
               struct buf *err);

/* Encodes OPS_OK: all operations in the directory, oldest first. */
void kept_ops(const struct kept *k, uint64_t seq, struct buf *reply);

/* Whether the code begins with this word; *ret_rest is the text after it. */
bool stub_word_is(const char *code, const char *word, const char **ret_rest);

/* Parses a number and moves *text behind it; 0 if there is none. */
uint64_t stub_number_at(const char **text);

/* True for the first stub that asks, in the life of the directory of notes. */
bool kept_is_first(void);

#endif
