/*
 * Checks whether an agent's answer fits its question, before any other code uses it.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_REPLY_H
#define CLOISTER_WORKER_AGENT_REPLY_H

#include <stdbool.h>

#include "common/err.h"
#include "proto/msg.h"

/* What an answer is checked against. */
struct agent_question {
    enum msg_type type;
    char op[LIMIT_NAME + 1]; /* of START and WAIT, as the rest */
    uint64_t out_from, err_from;
    bool skip;
};

/* Copies from a request what its answer is checked against; the fields must be within their
 * limits. */
void agent_question_init(struct agent_question *q, const struct msg *request);

/* -ERR_PROTOCOL with the reason if the answer does not fit the question. */
int agent_reply_check(const struct agent_question *q, const struct msg *reply,
                      struct err *err) WARN_UNUSED;

#endif
