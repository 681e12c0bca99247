/*
 * The pid from an engine is valid on the engine's host, which may be a virtual machine or another
 * computer; here another process may have it. A process whose control group contains the
 * container's id belongs to the container, because the id has 256 random bits. The start time is
 * read first, so the note names the process that was checked.
 */
#include "worker/backend/docker/first.h"

#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/fd.h"
#include "common/log.h"
#include "worker/backend/record.h"

#define ID_LEN      64
#define CGROUPS_MAX 16384

static bool is_in_container(int pid, const char *id)
{
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    CLEANUP_BUF struct buf text;
    buf_init(&text, CGROUPS_MAX);
    return file_read(path, &text, NULL) == 0 && buf_cstr(&text) != NULL &&
           strstr(buf_cstr(&text), id) != NULL;
}

void docker_first_note(const cJSON *inspected, const char *dir)
{
    const char *id = json_get_str(inspected, "Id");
    const cJSON *number = json_get(json_get(inspected, "State"), "Pid");
    struct ending_first first = {.group = ""};
    struct err err = ERR_INIT;
    if (id == NULL || strlen(id) != ID_LEN || !cJSON_IsNumber(number) || number->valuedouble < 2 ||
        number->valuedouble > INT32_MAX) {
        return;
    }
    first.pid = (int)number->valuedouble;
    if (!oci_process_start(first.pid, &first.start_time) || !is_in_container(first.pid, id)) {
        return; /* the engine's host is not this one */
    }
    if (ending_note_first(dir, &first, &err) < 0) {
        log_debug("a server that ends cannot kill it at once: %s", err.text);
    }
}
