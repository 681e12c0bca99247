/*
 * What the service says of a sandbox. What is taken of it becomes part of requests, so it must be
 * made of what these may have. The same bytes are also what a daemon says of its processes.
 */
#include <string.h>

#include "common/io/json.h"
#include "tests/fuzz/fuzz.h"
#include "worker/backend/e2b/agent.h"
#include "worker/backend/e2b/box.h"

static void check_words(const char *text, bool lower)
{
    FUZZ_REQUIRE(text[0] != '\0');
    for (const char *p = text; *p != '\0'; p++) {
        FUZZ_REQUIRE(*p > ' ' && *p < 0x7f);
        FUZZ_REQUIRE(!lower || (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9'));
    }
}

static void read_one(const cJSON *json)
{
    struct e2b_box box;
    struct err err = ERR_INIT;
    if (e2b_box_read(json, &box, &err) < 0) {
        FUZZ_REQUIRE(err.text[0] != '\0');
        return;
    }
    check_words(box.id, true);
    if (box.token != NULL) {
        check_words(box.token, false);
    }
    if (box.domain != NULL) {
        check_words(box.domain, false);
        FUZZ_REQUIRE(strpbrk(box.domain, "/?#@") == NULL);
    }
    FUZZ_REQUIRE(!e2b_box_is_at_least(box.version, 1, 0, 0) ||
                 e2b_box_is_at_least(box.version, 0, 9, 9));
    e2b_box_finish(&box);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *json = NULL;
    if (json_parse((const char *)data, size, 1u << 20, 32, &json, NULL, NULL) < 0) {
        return 0;
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        read_one(item);
        FUZZ_REQUIRE(!e2b_box_is_of(item, "a") || cJSON_IsObject(item));
    }
    read_one(json);
    FUZZ_REQUIRE(!e2b_agent_is_listed(json, "s1") || cJSON_IsObject(json));
    cJSON_Delete(json);
    return 0;
}
