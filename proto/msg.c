/*
 * The field tables, expanded from messages.def. They are data, which a debugger can step through
 * and a test can walk. So encoder, decoder, logs and mutation tests all use them, and no message
 * has its own code.
 */
#include "proto/msg.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define F(T, type, field, max) {#field, FIELD_##type, offsetof(struct msg, T.field), max},
#define X(NAME, number, name, links, answer)                                                       \
    static const struct msg_field fields_##name[] = {FIELDS_##name(F, name)};                      \
    _Static_assert(ARRAY_LEN(fields_##name) <= LIMIT_FIELDS, "too many fields in " #name);
MESSAGE_LIST(X)
#undef X
#undef F

const struct msg_schema msg_schemas[] = {
#define X(NAME, number, name, links, answer)                                                       \
    {MSG_##NAME, #name, MSG_LINK_##links, MSG_##answer, fields_##name, ARRAY_LEN(fields_##name)},
    MESSAGE_LIST(X)
#undef X
};
const size_t msg_schema_count = ARRAY_LEN(msg_schemas);

const struct msg_schema *msg_schema_find(uint64_t number)
{
    for (size_t i = 0; i < msg_schema_count; i++) {
        if ((uint64_t)msg_schemas[i].type == number) {
            return &msg_schemas[i];
        }
    }
    return NULL;
}

const char *msg_name(enum msg_type type)
{
    const struct msg_schema *schema = msg_schema_find((uint64_t)type);
    return schema != NULL ? schema->name : "?";
}

static enum msg_type answer_to(enum msg_type request)
{
    const struct msg_schema *schema = msg_schema_find((uint64_t)request);
    return schema != NULL ? schema->answer : MSG_NONE;
}

struct msg msg_answer(enum msg_type request, uint64_t seq)
{
    return (struct msg){.type = answer_to(request), .seq = seq};
}

bool msg_answers(enum msg_type reply, enum msg_type request)
{
    return reply == MSG_FAILED || (reply != MSG_NONE && reply == answer_to(request));
}

const char *op_status_name(uint64_t status)
{
    switch (status) {
#define X(NAME, number, wire)                                                                      \
    case number:                                                                                   \
        return wire;
        OP_STATUS_LIST(X)
#undef X
    default:
        return "?";
    }
}

const char *op_interpreter_name(uint64_t value)
{
    switch (value) {
    case OP_INTERPRETER_FRESH:
        return "fresh";
    case OP_INTERPRETER_KEPT:
        return "kept";
    case OP_INTERPRETER_RESTARTED:
        return "restarted";
    default:
        return "";
    }
}

const char *file_type_name(uint64_t type)
{
    switch (type) {
    case FILE_TYPE_FILE:
        return "file";
    case FILE_TYPE_DIRECTORY:
        return "directory";
    case FILE_TYPE_SYMLINK:
    case FILE_TYPE_SYMLINK_DIRECTORY:
        return "symlink";
    default:
        return "other";
    }
}
