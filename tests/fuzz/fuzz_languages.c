/*
 * The file of languages. Whatever the bytes are, an error is one line of text; the names in an
 * accepted file are found, and the agent accepts its table unchanged.
 */
#include <string.h>

#include "supervisor/languages/languages.h"
#include "tests/fuzz/fuzz.h"
#include "worker/agent/run/runners.h"

static void check_table(const struct languages *l)
{
    size_t names = 0;
    size_t words = 0;
    const char *const *name = languages_names(l, &names);
    const char *const *word = languages_words(l, &words);
    FUZZ_REQUIRE(names > 0 && words >= names && strcmp(name[0], "python") == 0);
    for (size_t i = 0; i < words; i++) {
        const char *found = languages_find(l, word[i]);
        FUZZ_REQUIRE(found != NULL && word[i][0] != '\0' && strpbrk(word[i], " \"\\\n<&") == NULL);
        FUZZ_REQUIRE(i >= names || found == word[i]);
    }
    struct err err = ERR_INIT;
    struct runners agents = {.count = 0};
    FUZZ_REQUIRE(runners_load(&agents, languages_runners(l), &err) == 0);
    FUZZ_REQUIRE(agents.count == languages_runners(l).count);
    for (size_t i = 0; i < agents.count; i++) {
        FUZZ_REQUIRE(languages_find(l, agents.items[i].language) != NULL);
    }
    runners_finish(&agents);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct languages *l = NULL;
    struct err err = ERR_INIT;
    if (languages_read(view_bytes(data, size), &l, &err) < 0) {
        FUZZ_REQUIRE(l == NULL && err.code == ERR_CONFIG && err.text[0] != '\0');
        FUZZ_REQUIRE(strchr(err.text, '\n') == NULL);
        return 0;
    }
    check_table(l);
    languages_destroy(l);
    return 0;
}
