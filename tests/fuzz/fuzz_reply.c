/*
 * An agent's reply on the whole way to its use: it is decoded, then checked against the question.
 * The first byte chooses the question. An accepted reply must be of the question's type, and every
 * item of a list of operations must be readable.
 */
#include <string.h>

#include "proto/codec.h"
#include "proto/outcome.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent_reply.h"

static void require_ops(const struct msg_ops_ok *m)
{
    FUZZ_REQUIRE(m->ops.count <= LIMIT_OPS);
    for (size_t i = 0; i < m->ops.count; i++) {
        struct err err = ERR_INIT;
        struct msg info;
        struct view item = m->ops.items[i];
        FUZZ_REQUIRE(msg_decode(MSG_LINK_W, item.data, item.len, &info, &err) == 0);
        FUZZ_REQUIRE(info.type == MSG_OP_INFO && info.op_info.op.len > 0);
        msg_finish(&info);
    }
}

/* Each representation has a valid type and an absolute path; no changed file is outside its
 * directory. */
static void require_shown(const struct msg_output *m)
{
    FUZZ_REQUIRE(m->displays.count <= LIMIT_DISPLAYS && m->files.count <= LIMIT_CHANGED);
    for (size_t i = 0; i < m->displays.count; i++) {
        struct msg d;
        struct view item = m->displays.items[i];
        FUZZ_REQUIRE(msg_decode(MSG_LINK_W, item.data, item.len, &d, NULL) == 0);
        FUZZ_REQUIRE(d.type == MSG_DISPLAY && d.display.number > 0);
        FUZZ_REQUIRE(d.display.path.len > 1 && d.display.path.data[0] == '/');
        FUZZ_REQUIRE(d.display.mime.len > 2 &&
                     memchr(d.display.mime.data, '/', d.display.mime.len));
        msg_finish(&d);
    }
    for (size_t i = 0; i < m->files.count; i++) {
        struct msg e;
        struct view item = m->files.items[i];
        FUZZ_REQUIRE(msg_decode(MSG_LINK_A, item.data, item.len, &e, NULL) == 0);
        FUZZ_REQUIRE(e.type == MSG_ENTRY && e.entry.path.len > 0 && e.entry.path.data[0] != '/');
        FUZZ_REQUIRE(e.entry.type == FILE_TYPE_FILE);
        msg_finish(&e);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum msg_type types[] = {MSG_HELLO,  MSG_START, MSG_WAIT,  MSG_CANCEL,
                                          MSG_STATUS, MSG_OPS,   MSG_LIMITS};
    struct err err = ERR_INIT;
    struct msg reply;
    if (size < 1 || msg_decode(MSG_LINK_A, data + 1, size - 1, &reply, &err) < 0) {
        return 0;
    }
    struct msg request = {.type = types[data[0] % (sizeof(types) / sizeof(types[0]))]};
    if (request.type == MSG_WAIT) {
        request.wait.op = view_of("op");
        request.wait.out_from = 300;
        request.wait.skip = data[0] >= 0x80;
    }
    struct agent_question question;
    agent_question_init(&question, &request);
    int rc = agent_reply_check(&question, &reply, &err);
    FUZZ_REQUIRE(rc == 0 || (rc == -ERR_PROTOCOL && err.text[0] != '\0'));
    if (rc == 0 && reply.type == MSG_OPS_OK) {
        FUZZ_REQUIRE(request.type == MSG_OPS);
        require_ops(&reply.ops_ok);
    } else if (rc == 0 && reply.type == MSG_OUTPUT) {
        FUZZ_REQUIRE(request.type == MSG_START || request.type == MSG_WAIT);
        FUZZ_REQUIRE(request.type != MSG_WAIT || reply.output.out_from >= 300);
        require_shown(&reply.output);
        FUZZ_REQUIRE(outcome_check_installs(reply.output.installs, &err) == 0);
        FUZZ_REQUIRE(reply.output.state != OP_DONE || reply.output.installs.count == 0);
    }
    msg_finish(&reply);
    return 0;
}
