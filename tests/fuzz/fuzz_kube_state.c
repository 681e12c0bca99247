/*
 * The state of a pod as an API server answers it, and whether a sweep may remove that pod: bad
 * input is refused or means that the pod is waited for, and only what has every label is removed.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "common/io/json.h"
#include "tests/fuzz/fuzz.h"
#include "worker/backend/kubernetes/end.h"
#include "worker/backend/kubernetes/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *pod = NULL;
    struct kube_state s;
    struct err err = ERR_INIT;
    if (json_parse((const char *)data, size, 4u << 20, 64, &pod, NULL, NULL) < 0) {
        return 0;
    }
    int rc = kube_state_read(pod, &s, &err);
    if (rc < 0) {
        FUZZ_REQUIRE(rc == -ERR_PROTOCOL && err.text[0] != '\0' && !kube_end_is_left(pod));
    } else {
        bool told = s.kind == KUBE_STATE_HOPELESS || s.kind == KUBE_STATE_ENDED;
        FUZZ_REQUIRE(told == (s.err.code != 0) && (!told || s.err.text[0] != '\0'));
        for (const char *p = s.words; *p != '\0'; p++) {
            FUZZ_REQUIRE((unsigned char)*p >= ' ' && *p != 0x7f);
        }
        FUZZ_REQUIRE(s.kind != KUBE_STATE_RUNNING || !kube_end_is_left(pod));
        FUZZ_REQUIRE(!kube_state_is_over(pod) || s.kind == KUBE_STATE_ENDED);
    }
    cJSON_Delete(pod);
    return 0;
}
