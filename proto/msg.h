/*
 * The messages of messages.def as C: an enum, a struct each, a table of fields each, and the
 * enumerations that travel inside them.
 *
 * `struct msg` is one message of any type. After msg_decode() its views borrow from the decoded
 * bytes, and its lists from the message; both are valid until msg_finish() or the bytes are freed,
 * whichever comes first. A message that is built to be encoded borrows whatever it is given and
 * needs no msg_finish().
 */
#ifndef CLOISTER_PROTO_MSG_H
#define CLOISTER_PROTO_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/view.h"
#include "proto/limits.h"
#include "proto/messages.def"

enum msg_type {
    MSG_NONE = 0,
#define X(NAME, number, name, links, answer) MSG_##NAME = number,
    MESSAGE_LIST(X)
#undef X
};

/* Which link a message may travel on. */
enum msg_link { MSG_LINK_W = 1, MSG_LINK_A = 2, MSG_LINK_WA = 3 };

enum field_type { FIELD_UINT, FIELD_INT, FIELD_BOOL, FIELD_STR, FIELD_BIN, FIELD_LIST, FIELD_MSGS };

#define FIELD_C_UINT uint64_t
#define FIELD_C_INT  int64_t
#define FIELD_C_BOOL bool
#define FIELD_C_STR  struct view
#define FIELD_C_BIN  struct view
#define FIELD_C_LIST struct view_list
#define FIELD_C_MSGS struct view_list

/* The maximum of a field of type MSGS: of which type its items are, and how many there may be. */
#define MSGS_OF(NAME, most) ((uint64_t)MSG_##NAME << 32 | (most))

#define F(T, type, field, max) FIELD_C_##type field;
#define X(NAME, number, name, links, answer)                                                       \
    struct msg_##name {                                                                            \
        FIELDS_##name(F, )                                                                         \
    };
MESSAGE_LIST(X)
#undef X
#undef F

struct msg {
    enum msg_type type;
    uint64_t seq; /* set by the requester, echoed in the reply; 0 in events */
    union {
#define X(NAME, number, name, links, answer) struct msg_##name name;
        MESSAGE_LIST(X)
#undef X
    };
    struct view *list_items; /* owned storage behind decoded LIST fields; NULL if none */
};

struct msg_field {
    const char *name;
    enum field_type type;
    size_t offset; /* in struct msg */
    uint64_t max;
};

/* Of a field of type LIST or MSGS. */
static inline uint64_t msg_field_most(const struct msg_field *f)
{
    return f->type == FIELD_MSGS ? f->max & UINT32_MAX : f->max;
}

static inline enum msg_type msg_field_item(const struct msg_field *f)
{
    return f->type == FIELD_MSGS ? (enum msg_type)(f->max >> 32) : MSG_NONE;
}

struct msg_schema {
    enum msg_type type;
    const char *name;     /* "hello_ok" */
    unsigned links;       /* bits of enum msg_link */
    enum msg_type answer; /* to this request; MSG_NONE if it is none or has none */
    const struct msg_field *fields;
    size_t field_count;
};

/* All schemas, in the order of messages.def. */
extern const struct msg_schema msg_schemas[];
extern const size_t msg_schema_count;

/* NULL for an unknown number. */
const struct msg_schema *msg_schema_find(uint64_t number);

/* "start", ...; "?" for an unknown number. */
const char *msg_name(enum msg_type type);

static inline bool msg_is_request(enum msg_type type)
{
    return type < 100 && type % 2 == 0;
}

/* The reply to a request that could be done, still empty, with the type and seq that belong to it.
 */
struct msg msg_answer(enum msg_type request, uint64_t seq);

/* True if `reply` may answer `request`: FAILED may, and the type that messages.def names. */
bool msg_answers(enum msg_type reply, enum msg_type request);

/* What an operation does. */
enum op_kind {
    OP_EVAL = 1,       /* data = code for the live interpreter of `language` */
    OP_FILE_READ = 2,  /* path, offset, length (0: to the end); content on the out stream */
    OP_FILE_WRITE = 3, /* path, data, mode (0: 0644), flags */
    OP_FILE_LIST = 4,  /* path, flags, length = most entries; ENTRY frames on the out stream */
    OP_RUN = 5,        /* args = a program and its arguments, without a shell; path = where (""
                          is the workspace), env, stdin */
    OP_TELL = 6,       /* data for the INSTALL number `offset`: a part of its answer, with LAST the
                          end, and `mode` its exit code */
    OP_CONNECT = 7,    /* a connection to port `offset` of the sandbox's loopback; INPUT is what it
                          is told, the out stream what it says */
    OP_PRELOAD = 8,    /* args[0] = a module that the live interpreter of `language` imports, before
                          any code has run there */
};

/* True for what runs code of a client: its output is kept for the next server. */
static inline bool op_is_execution(enum op_kind kind)
{
    return kind == OP_EVAL || kind == OP_RUN;
}

/* True for what runs in an interpreter or a program: it may change files, and may need much memory.
 */
static inline bool op_is_run(enum op_kind kind)
{
    return op_is_execution(kind) || kind == OP_PRELOAD;
}

/* What a sandbox can reach. */
enum net {
    NET_NONE = 0,
    NET_FULL = 1, /* everything but this host's loopback */
    NET_DOOR = 2, /* no interface: what its worker lets out, by the agent's stream (worker/door) */
};

/* Who says that a place may be reached. */
enum door_kind {
    DOOR_PUBLIC = 0, /* we do: "public", only addresses of the internet */
    DOOR_OWN = 1,    /* the operator: "own", where it really is */
};

/* Bits of START.flags. */
enum op_flag {
    OP_FLAG_APPEND = 1,    /* OP_FILE_WRITE: add to the end */
    OP_FLAG_RECURSIVE = 2, /* OP_FILE_LIST: walk directories, never through symlinks */
    OP_FLAG_PART = 4,      /* OP_FILE_WRITE: a piece, at `offset`, of what args[0] stands for */
    OP_FLAG_LAST = 8,  /* with PART: and the last one, the file is there now; OP_TELL: the end */
    OP_FLAG_DROP = 16, /* with PART: no more pieces, forget those that came */
    OP_FLAG_STDIN_OPEN = 32, /* OP_EVAL, OP_RUN, OP_CONNECT: more stdin comes, by INPUT */
    OP_FLAG_TTY = 64,        /* the same, and it runs as a program in a terminal */
};

enum op_state { OP_QUEUED = 1, OP_RUNNING = 2, OP_DONE = 3 };

/* How an operation ended. Names are those clients see. X(NAME, number, wire name) */
#define OP_STATUS_LIST(X)                                                                          \
    X(OK, 1, "ok")                                                                                 \
    X(ERROR, 2, "error")                                                                           \
    X(TIMEOUT, 3, "timeout")                                                                       \
    X(MEMORY, 4, "memory_exceeded")                                                                \
    X(CANCELLED, 5, "cancelled")                                                                   \
    X(CRASHED, 6, "crashed")                                                                       \
    X(FAILED, 7, "failed") /* never reached user code or a file; fail_code says why */

enum op_status {
#define X(NAME, number, wire) OP_STATUS_##NAME = number,
    OP_STATUS_LIST(X)
#undef X
};
const char *op_status_name(uint64_t status); /* "?" if unknown */

/* What became of the live interpreter. */
enum op_interpreter {
    OP_INTERPRETER_NONE = 0,
    OP_INTERPRETER_FRESH = 1,     /* this operation was its first */
    OP_INTERPRETER_KEPT = 2,      /* earlier state was there */
    OP_INTERPRETER_RESTARTED = 3, /* earlier state is lost: it had to be started anew */
};
const char *op_interpreter_name(uint64_t value); /* "fresh" "kept" "restarted" ""; */

/* Who installs what INSTALL asks for. */
enum install_manager { INSTALL_PIP = 1, INSTALL_NPM = 2 };

enum op_stop { OP_STOP_CANCEL = 1, OP_STOP_TIMEOUT = 2 };

enum file_type {
    FILE_TYPE_FILE = 1,
    FILE_TYPE_DIRECTORY = 2,
    FILE_TYPE_SYMLINK = 3,
    FILE_TYPE_OTHER = 4,
    FILE_TYPE_SYMLINK_DIRECTORY = 5 /* a symlink that leads to a directory */
};
const char *file_type_name(uint64_t type); /* "file" "directory" "symlink" "other" */

#endif
