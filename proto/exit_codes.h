/*
 * Exit codes of our processes. The process that exits and the one that reaps it share them, so that
 * log lines name a reason instead of a number. Numbers are stable.
 */
#ifndef CLOISTER_PROTO_EXIT_CODES_H
#define CLOISTER_PROTO_EXIT_CODES_H

#include "common/alloc.h"

/*   X(NAME, number, text) */
#define EXIT_CODE_LIST(X)                                                                          \
    X(OK, 0, "finished")                                                                           \
    X(USAGE, 64, "bad command line")                                                               \
    X(SETUP, 65, "could not set itself up")                                                        \
    X(SANDBOX_GONE, 66, "its sandbox ended")                                                       \
    X(ORPHANED, 67, "its supervisor went away")                                                    \
    X(PROTOCOL, 68, "its peer broke the protocol")                                                 \
    X(NO_MEMORY, 69, "out of memory")                                                              \
    X(REPLACED, 70, "its sandbox has another worker")

enum exit_code {
#define X(name, number, text) EXIT_CODE_##name = number,
    EXIT_CODE_LIST(X)
#undef X
};

_Static_assert(EXIT_CODE_NO_MEMORY == ALLOC_EXIT_CODE, "common/alloc.h says the same");

/* Text for a number of the list, NULL for any other. */
const char *exit_code_text(int code);

#endif
