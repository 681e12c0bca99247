/*
 * Errors.
 *
 * A function that can fail returns 0 or a negative code (-ERR_*) and fills the caller's
 * `struct err`, which is always its last parameter. Rules:
 *
 *  - The object lives on the caller's stack: reporting cannot fail and nothing needs freeing.
 *  - A success never touches it, so one object can serve a whole function.
 *  - Low layers (common, proto, backend) report; only the top of a process logs.
 *  - err_wrap() puts context in front while unwinding: "outer: inner".
 *  - Where the result really does not matter, err_ignore(f(...)) says so; a plain call does not
 * compile.
 *
 * Thread: any. Nothing here blocks or allocates.
 */
#ifndef CLOISTER_COMMON_ERR_H
#define CLOISTER_COMMON_ERR_H

#include <stdbool.h>

#define WARN_UNUSED       __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* Numbers cross process borders: append only, never reuse.
 *   X(NAME, number, wire name, text) */
#define ERR_LIST(X)                                                                                \
    X(INTERNAL, 1, "internal", "internal error")                                                   \
    X(NO_MEMORY, 2, "internal", "out of memory")                                                   \
    X(TOO_BIG, 3, "too_large", "larger than allowed")                                              \
    X(PROTOCOL, 4, "internal", "malformed message")                                                \
    X(VERSION, 5, "internal", "protocol version mismatch")                                         \
    X(IO, 6, "internal", "input/output error")                                                     \
    X(TIMEOUT, 7, "engine_unavailable", "no answer in time")                                       \
    X(INVALID, 8, "invalid_argument", "invalid argument")                                          \
    X(SANDBOX_NOT_FOUND, 9, "sandbox_not_found", "no such sandbox")                                \
    X(SANDBOX_LIMIT, 10, "sandbox_limit", "too many sandboxes")                                    \
    X(ENGINE, 11, "engine_unavailable", "sandbox engine unavailable")                              \
    X(IMAGE, 12, "image_not_found", "image not found")                                             \
    X(PATH, 13, "path_invalid", "invalid path")                                                    \
    X(FILE_NOT_FOUND, 14, "file_not_found", "file not found")                                      \
    X(LANGUAGE, 15, "language_unavailable", "language not available")                              \
    X(EXECUTION_NOT_FOUND, 16, "execution_not_found", "no such execution")                         \
    X(SHUTTING_DOWN, 17, "shutting_down", "server is shutting down")                               \
    X(NO_SPACE, 18, "too_large", "no space left in the sandbox")                                   \
    X(GONE, 19, "sandbox_not_found", "the sandbox has ended")                                      \
    X(BUSY, 20, "internal", "too many operations at once")                                         \
    X(CONFIG, 21, "invalid_argument", "bad configuration")                                         \
    X(DENIED, 22, "path_invalid", "permission denied in the sandbox")                              \
    X(PACKAGE, 23, "package_failed", "the package could not be installed")                         \
    X(NETWORK, 24, "network_disabled", "this server gives sandboxes no network")

enum err_code {
    ERR_NONE = 0,
#define X(name, number, wire, text) ERR_##name = number,
    ERR_LIST(X)
#undef X
};

struct err {
    int code;       /* enum err_code, positive; 0 while unset */
    int sys;        /* errno of the failed call, 0 if none */
    char text[512]; /* NUL-terminated, one line, safe to log */
};

#define ERR_INIT                                                                                   \
    {                                                                                              \
        0, 0, ""                                                                                   \
    }

/* Fills *e and returns -code. `e` may be NULL when the caller wants the code only. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* As err_set, with ": strerror(sys)" appended and e->sys kept. */
int err_sys(struct err *e, enum err_code code, int sys, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Prefixes e->text with "<fmt>: ". Returns -e->code, so `return err_wrap(e, "...")` reads well. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Name of the closed list that clients see ("sandbox_not_found", ...). Accepts either sign. */
const char *err_wire_name(int code);

/* General sentence for a code. Accepts either sign. */
const char *err_text(int code);

/* True if `number` (from a peer) is a code of ERR_LIST. */
bool err_known(unsigned long long number);

static inline void err_ignore(int rc)
{
    (void)rc;
}

#endif
