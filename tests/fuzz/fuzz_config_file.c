/*
 * The configuration file. Whatever the bytes are, only options of the table are given, each once
 * but for the items of a list, and a refusal is one line.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/config_file.h"
#include "supervisor/base/options.h"
#include "tests/fuzz/fuzz.h"

static int count_given(void *arg, const struct option *o, const char *value, bool begins,
                       struct err *err)
{
    size_t *given = arg;
    (void)err;
    FUZZ_REQUIRE(o >= options && o < options + option_count);
    FUZZ_REQUIRE(strcmp(o->name, CONFIG_FILE_OPTION) != 0);
    bool is_list = o->type == OPTION_LIST || o->type == OPTION_TEXTS;
    FUZZ_REQUIRE(begins == (given[o - options] == 0));
    FUZZ_REQUIRE(begins || is_list);
    FUZZ_REQUIRE(value != NULL || (begins && is_list));
    given[o - options]++;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    CLEANUP_FREE size_t *given = alloc_array(option_count, sizeof(*given));
    if (config_file_parse(view_bytes(data, size), count_given, given, &err) < 0) {
        FUZZ_REQUIRE(err.code == ERR_CONFIG && err.text[0] != '\0');
        FUZZ_REQUIRE(strchr(err.text, '\n') == NULL);
    }
    return 0;
}
