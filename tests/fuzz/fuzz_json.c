/*
 * JSON from outside. Accepted text must print, and the printed text must parse to the same again.
 */
#include <string.h>

#include "common/io/json.h"
#include "proto/limits.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *json = NULL;
    bool has_nul = false;
    struct err err = ERR_INIT;
    int rc = json_parse((const char *)data, size, LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH, &json,
                        &has_nul, &err);
    if (rc < 0) {
        FUZZ_REQUIRE(json == NULL && err.text[0] != '\0');
        return 0;
    }
    FUZZ_REQUIRE(json != NULL);
    if (!has_nul) {
        char *once = json_print(json);
        FUZZ_REQUIRE(once != NULL && strstr(once, "\xc2\x85") == NULL &&
                     strstr(once, "\xe2\x80\xa8") == NULL && strstr(once, "\n") == NULL);
        cJSON *again = NULL;
        FUZZ_REQUIRE(json_parse(once, strlen(once), 4 * (size_t)LIMIT_LINE_BYTES, LIMIT_JSON_DEPTH,
                                &again, NULL, &err) == 0);
        char *twice = json_print(again);
        FUZZ_REQUIRE(twice != NULL && strcmp(once, twice) == 0);
        cJSON_free(twice);
        cJSON_Delete(again);
        cJSON_free(once);
    }
    cJSON_Delete(json);
    return 0;
}
