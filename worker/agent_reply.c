/*
 * The agent runs beside user code, so its answers are read as hostile input: an answer must have
 * the type that belongs to its question, be about the same operation and the same bytes, and
 * contain only valid numbers. Valid answers are passed on decoded, field by field; messages within
 * a message (the list of operations, displays, changed files) are decoded here as strictly.
 */
#include "worker/agent_reply.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/outcome.h"

void agent_question_init(struct agent_question *q, const struct msg *request)
{
    struct view op = {NULL, 0};
    *q = (struct agent_question){.type = request->type};
    if (request->type == MSG_START) {
        op = request->start.op;
        q->out_from = request->start.out_from;
        q->err_from = request->start.err_from;
        q->skip = request->start.skip;
    } else if (request->type == MSG_WAIT) {
        op = request->wait.op;
        q->out_from = request->wait.out_from;
        q->err_from = request->wait.err_from;
        q->skip = request->wait.skip;
    }
    if (op.len > 0) {
        memcpy(q->op, op.data, op.len);
    }
}

static bool fits_offset(uint64_t asked, uint64_t answered, bool skip)
{
    return answered == asked || (skip && answered > asked);
}

static int check_output(const struct agent_question *q, const struct msg_output *m, struct err *err)
{
    bool done = m->state == OP_DONE;
    if (!view_is(m->op, q->op)) {
        return err_set(err, ERR_PROTOCOL, "output of another operation than the one asked about");
    }
    if (!fits_offset(q->out_from, m->out_from, q->skip) ||
        !fits_offset(q->err_from, m->err_from, q->skip)) {
        return err_set(err, ERR_PROTOCOL, "output from another offset than the one asked for");
    }
    if (m->state < OP_QUEUED || m->state > OP_DONE || m->interpreter > OP_INTERPRETER_RESTARTED ||
        m->file_type > FILE_TYPE_OTHER) {
        return err_set(err, ERR_PROTOCOL, "output with an impossible state");
    }
    if (done != (m->status >= OP_STATUS_OK && m->status <= OP_STATUS_FAILED)) {
        return err_set(err, ERR_PROTOCOL, "output whose status does not fit its state");
    }
    if (m->fail_code != 0 && !err_known(m->fail_code)) {
        return err_set(err, ERR_PROTOCOL, "output with an unknown fail code");
    }
    if (!done && (m->displays.count > 0 || m->files.count > 0 || m->files_more)) {
        return err_set(err, ERR_PROTOCOL, "displays or files of something that is not over");
    }
    if (done && m->installs.count > 0) {
        return err_set(err, ERR_PROTOCOL, "a wish for packages of something that is over");
    }
    int rc = outcome_check_displays(m->displays, err);
    rc = rc < 0 ? rc : outcome_check_installs(m->installs, err);
    return rc < 0 ? rc : outcome_check_files(m->files, err);
}

static int check_info(struct view item, struct err *err)
{
    struct msg m;
    int rc = msg_decode(MSG_LINK_A, item.data, item.len, &m, err);
    if (rc < 0) {
        return rc;
    }
    const struct msg_op_info *i = &m.op_info;
    if (m.type != MSG_OP_INFO || m.seq != 0) {
        rc = err_set(err, ERR_PROTOCOL, "%s among operations", msg_name(m.type));
    } else if (i->op.len == 0 || i->kind < OP_EVAL || i->kind > OP_PRELOAD ||
               i->state < OP_QUEUED || i->state > OP_DONE) {
        rc = err_set(err, ERR_PROTOCOL, "an impossible operation");
    }
    msg_finish(&m);
    return rc;
}

static int check_ops(const struct msg_ops_ok *m, struct err *err)
{
    int rc = 0;
    if (m->ops.count > LIMIT_OPS) {
        return err_set(err, ERR_PROTOCOL, "%zu operations, more than an agent remembers",
                       m->ops.count);
    }
    for (size_t i = 0; i < m->ops.count && rc == 0; i++) {
        rc = check_info(m->ops.items[i], err);
    }
    return rc;
}

int agent_reply_check(const struct agent_question *q, const struct msg *m, struct err *err)
{
    if (!msg_answers(m->type, q->type)) {
        return err_set(err, ERR_PROTOCOL, "%s as the answer to %s", msg_name(m->type),
                       msg_name(q->type));
    }
    if (m->type == MSG_FAILED) {
        return err_known(m->failed.code) ? 0 : err_set(err, ERR_PROTOCOL, "unknown error code");
    }
    if (m->type == MSG_OUTPUT) {
        return check_output(q, &m->output, err);
    }
    return m->type == MSG_OPS_OK ? check_ops(&m->ops_ok, err) : 0;
}
