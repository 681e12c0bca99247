/*
 * The command line. The input is split into arguments; accepted values must be within their bounds,
 * and a refusal must give a reason.
 */
#include <string.h>

#include "supervisor/base/config.h"
#include "tests/fuzz/fuzz.h"

enum { WORDS_MAX = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_REQUIRE(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    char *words[WORDS_MAX + 1] = {NULL};
    int count = 0;
    for (char *at = text; count < WORDS_MAX && at < text + size;) {
        words[count++] = at;
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        if (end == NULL) {
            break;
        }
        *end = '\0';
        at = end + 1;
    }

    struct config config;
    struct err err = ERR_INIT;
    int used = -1;
    if (config_load(&config, count, words, &used, &err) < 0) {
        FUZZ_REQUIRE(err.text[0] != '\0');
    } else {
        FUZZ_REQUIRE(used >= 0 && used <= count);
        FUZZ_REQUIRE(config.pids > 0 && config.memory_mb > 0 && config.cpu_milli > 0);
        FUZZ_REQUIRE(config.max_memory_mb >= config.memory_mb &&
                     config.max_cpu_milli >= config.cpu_milli && config.max_pids >= config.pids &&
                     config.max_disk_mb > 0 && config.max_disk_mb >= config.disk_mb &&
                     config.memory_budget_mb >= config.max_memory_mb);
        FUZZ_REQUIRE(config.timeout_s > 0 && config.max_sandboxes > 0);
        config_finish(&config);
    }
    free(text);
    return 0;
}
