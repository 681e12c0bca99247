/* Names for exit codes. */
#include "proto/exit_codes.h"

#include <stddef.h>

const char *exit_code_text(int code)
{
    switch (code) {
#define X(name, number, text)                                                                      \
    case number:                                                                                   \
        return text;
        EXIT_CODE_LIST(X)
#undef X
    default:
        return NULL;
    }
}
