/*
 * What a program prints that fetches a token: a token that can be part of a header, or an error
 * that does not have it.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/backend/kubernetes/plugin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *token = NULL;
    uint64_t expires_ms = 0;
    struct err err = ERR_INIT;
    int rc = kube_plugin_read(view_bytes(data, size), "client.authentication.k8s.io/v1", &token,
                              &expires_ms, &err);
    if (rc < 0) {
        FUZZ_REQUIRE(rc == -ERR_CONFIG && err.text[0] != '\0' && token == NULL);
        return 0;
    }
    for (const char *p = token; *p != '\0'; p++) {
        FUZZ_REQUIRE((unsigned char)*p > ' ' && (unsigned char)*p < 0x7f);
    }
    FUZZ_REQUIRE(token[0] != '\0');
    free(token);
    return 0;
}
