/*
 * A file .env of any bytes: a value that is found is within its bounds, and is in the file; if
 * none is found, none is written.
 */
#include <stdlib.h>
#include <string.h>

#include "supervisor/base/dotenv.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char value[DOTENV_VALUE_SIZE] = "";
    struct view text = view_bytes((const char *)data, size);
    if (dotenv_find(text, "INTERPRETER_TYPE", value)) {
        size_t len = strlen(value);
        FUZZ_REQUIRE(len < DOTENV_VALUE_SIZE);
        FUZZ_REQUIRE(len == 0 || memmem(data, size, value, len) != NULL);
    } else {
        FUZZ_REQUIRE(value[0] == '\0');
    }
    return 0;
}
