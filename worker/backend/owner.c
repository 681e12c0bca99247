/*
 * An engine may serve several hosts and outlives reboots. So a label is valid only on the host that
 * wrote it, and a directory or process only within the boot in which it was noted. In doubt a
 * container stays: a leftover costs memory, a wrong removal destroys a user's work.
 *
 * A server removes a sandbox's directory after the container, so a container without its directory
 * is left from a creation that did not finish. A helper lives for milliseconds and has no
 * directory; its label names the process that made it by pid and start time.
 */
#include "worker/backend/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/str.h"
#include "worker/backend/json_build.h"
#include "worker/backend/record.h"

#define BOOT_FILE    "/proc/sys/kernel/random/boot_id"
#define MACHINE_FILE "/etc/machine-id"

/* The first line of a small file, "" if there is none. */
static void read_line(const char *path, char *ret, size_t size)
{
    ret[0] = '\0';
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret, size - 1) : -1;
    if (n > 0) {
        ret[n] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
    }
}

void owner_host(char ret[OWNER_HOST_SIZE])
{
    char name[256];
    char machine[64];
    read_line(MACHINE_FILE, machine, sizeof(machine));
    if (machine[0] == '\0' || gethostname(name, sizeof(name)) < 0) {
        ret[0] = '\0';
        return;
    }
    name[sizeof(name) - 1] = '\0';
    /* machine-id(5) forbids to expose the id itself, so it is hashed */
    snprintf(ret, OWNER_HOST_SIZE, "%s %016" PRIx64, name, hash_text(machine));
}

void owner_label(cJSON *labels, const char *sandbox, const char *dir)
{
    char host[OWNER_HOST_SIZE];
    char boot[64];
    char process[64];
    uint64_t start = 0;
    owner_host(host);
    read_line(BOOT_FILE, boot, sizeof(boot));
    if (!oci_process_start(getpid(), &start)) {
        start = 0;
    }
    snprintf(process, sizeof(process), "%d %llu", (int)getpid(), (unsigned long long)start);
    json_build_string(labels, OWNER_LABEL "host", host);
    json_build_string(labels, OWNER_LABEL "boot", boot);
    json_build_string(labels, OWNER_LABEL "process", process);
    json_build_string(labels, OWNER_LABEL "sandbox", sandbox);
    json_build_string(labels, OWNER_LABEL "dir", dir);
}

static bool is_gone_dir(const char *dir)
{
    return access(dir, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static bool is_gone_process(const char *text)
{
    char number[24];
    uint64_t pid, start;
    size_t len = strcspn(text, " ");
    if (text[len] == '\0' || len >= sizeof(number)) {
        return false;
    }
    memcpy(number, text, len);
    number[len] = '\0';
    if (str_to_u64(number, 1, INT32_MAX, &pid, NULL) < 0 ||
        str_to_u64(text + len + 1, 1, UINT64_MAX, &start, NULL) < 0) {
        return false;
    }
    return oci_process_gone((pid_t)pid, start);
}

bool owner_is_gone(const cJSON *labels)
{
    char own_host[OWNER_HOST_SIZE];
    char own_boot[64];
    const char *host = json_get_str(labels, OWNER_LABEL "host");
    const char *boot = json_get_str(labels, OWNER_LABEL "boot");
    const char *dir = json_get_str(labels, OWNER_LABEL "dir");
    const char *process = json_get_str(labels, OWNER_LABEL "process");
    owner_host(own_host);
    read_line(BOOT_FILE, own_boot, sizeof(own_boot));
    if (host == NULL || boot == NULL || dir == NULL || process == NULL ||
        strcmp(host, own_host) != 0) {
        return false;
    }
    if (own_host[0] == '\0' || own_boot[0] == '\0' || boot[0] == '\0') {
        return false;
    }
    if (strcmp(boot, own_boot) != 0) {
        return true;
    }
    return dir[0] != '\0' ? is_gone_dir(dir) : is_gone_process(process);
}
