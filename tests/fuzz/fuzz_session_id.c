/*
 * Session ids from clients. Whatever the bytes are, an id is accepted only if session_id_write()
 * makes exactly the same text of what was read.
 */
#include <stdlib.h>
#include <string.h>

#include "supervisor/web/mcp/session_id.h"
#include "tests/fuzz/fuzz.h"

static const unsigned char key[SESSION_KEY_BYTES] = {1};

/* Requires that an id of ours for a client of that name is read back unchanged. */
static void check_round(const char *client)
{
    struct session_id id = {.name = "abcdefghijklmnopqrstuvwxyz", .revision = REVISION_2025_06_18};
    struct session_id read;
    struct err err = ERR_INIT;
    snprintf(id.client, sizeof(id.client), "%s", client);
    char *text = session_id_write(&id, "alice", key, &err);
    FUZZ_REQUIRE(text != NULL);
    for (const char *p = text; *p != '\0'; p++) {
        FUZZ_REQUIRE(*p > ' ' && *p < 0x7f);
    }
    FUZZ_REQUIRE(session_id_read(text, "alice", key, &read));
    FUZZ_REQUIRE(strcmp(read.client, id.client) == 0 && strcmp(read.name, id.name) == 0);
    FUZZ_REQUIRE(!session_id_read(text, "bob", key, &read));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct session_id id;
    struct err err = ERR_INIT;
    char *text = malloc(size + 1);
    FUZZ_REQUIRE(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (session_id_read(text, "alice", key, &id)) {
        char *ours = session_id_write(&id, "alice", key, &err);
        FUZZ_REQUIRE(ours != NULL && strcmp(ours, text) == 0);
        free(ours);
    }
    check_round(text);
    free(text);
    return 0;
}
