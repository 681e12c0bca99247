/*
 * Input of the oci backend: a runtime's error messages, the backend's own record after a crash, and
 * files of the kernel and the administrator about ids and control groups. The first byte chooses
 * the reader. The files are real ones below a temporary directory, as the readers take paths.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/record.h"

static const char *const paths[] = {
    "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/uid_map", "/etc/passwd", "/etc/subuid",
    "/proc/swaps",          "/record",
};

#define PATHS (sizeof(paths) / sizeof(paths[0]))

static void read_words(const uint8_t *data, size_t size)
{
    char words[OCI_WORDS_MAX];
    char hint[BACKEND_HINT_MAX];
    struct oci_host host;
    memset(&host, 0, sizeof(host));
    oci_runtime_words(view_bytes(data, size), words);
    FUZZ_REQUIRE(memchr(words, '\0', sizeof(words)) != NULL);
    FUZZ_REQUIRE(strpbrk(words, "\n\r\x1b") == NULL);
    oci_runtime_hint(words, &host, hint);
    FUZZ_REQUIRE(memchr(hint, '\0', sizeof(hint)) != NULL);
}

static void check_extents(const struct oci_host *host)
{
    struct oci_extent extents[OCI_EXTENTS_MAX];
    size_t count = oci_host_extents(host, &host->uids, host->uid, "id", extents);
    for (size_t i = 0; i < count; i++) {
        FUZZ_REQUIRE(extents[i].count > 0);
        FUZZ_REQUIRE((uint64_t)extents[i].outside + extents[i].count <= (uint64_t)UINT32_MAX + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    size_t which = data[0] % (PATHS + 1);
    if (which == PATHS) {
        read_words(data + 1, size - 1);
        return 0;
    }
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s%s", scratch_dir(), paths[which]);
    scratch_put(paths[which], data + 1, size - 1);
    if (which == PATHS - 1) {
        struct oci_record record;
        struct err err = ERR_INIT;
        int rc = oci_record_read(path, &record, &err);
        FUZZ_REQUIRE(rc == 0 || err.text[0] != '\0');
        FUZZ_REQUIRE(rc < 0 || record.state <= OCI_RECORD_UNFINISHED);
    } else {
        struct oci_host host;
        oci_host_read(scratch_dir(), 0, 0, &host);
        check_extents(&host);
        oci_host_read(scratch_dir(), 1000, 1000, &host);
        check_extents(&host);
    }
    unlink(path);
    return 0;
}
