/*
 * The pid from an engine is valid on the engine's host, which may be a virtual machine or another
 * computer; here another process may have it. A process whose control group contains the
 * container's id belongs to the container, because the id has 256 random bits. The start time is
 * read first, so the note names the process that was checked.
 *
 * The directory of that group is looked for below each mounted hierarchy, and is right where the
 * process is listed. A server in a container of its own may see none; then only the first process
 * is noted.
 */
#include "worker/backend/docker/first.h"

#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/fd.h"
#include "common/log.h"
#include "worker/backend/record.h"

#define ID_LEN      64
#define CGROUPS_MAX 16384
#define MOUNTS_MAX  (1u << 20) /* mountinfo of a host with thousands of containers */
#define POINT_MAX   511

/* The small file as text; NULL if it cannot be read. It is borrowed from `text`. */
static char *small_file_text(const char *path, struct buf *text)
{
    return file_read(path, text, NULL) == 0 && buf_cstr(text) != NULL ? (char *)text->data : NULL;
}

static bool lists_process(const char *group, int pid)
{
    CLEANUP_FREE char *path = alloc_printf("%s/cgroup.procs", group);
    CLEANUP_FREE char *wanted = alloc_printf("%d", pid);
    CLEANUP_BUF struct buf text;
    buf_init(&text, CGROUPS_MAX);
    char *rest = small_file_text(path, &text);
    const char *line;
    bool found = false;
    while (!found && rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        found = strcmp(line, wanted) == 0;
    }
    return found;
}

/* `group` is a path in some hierarchy, as the kernel tells it of a process. */
static bool find_below_mounts(const char *group, int pid, char *ret_dir, size_t size)
{
    CLEANUP_BUF struct buf mounts;
    buf_init(&mounts, MOUNTS_MAX);
    char *rest = small_file_text("/proc/self/mountinfo", &mounts);
    const char *line;
    while (rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        char point[POINT_MAX + 1];
        if (strstr(line, " - cgroup") == NULL ||
            sscanf(line, "%*s %*s %*s %*s %511s", point) != 1) {
            continue;
        }
        int len = snprintf(ret_dir, size, "%s%s", point, group);
        if (len > 0 && (size_t)len < size && lists_process(ret_dir, pid)) {
            return true;
        }
    }
    return false;
}

/* False if the process is not in this container. ret_dir is "" if no directory of its group is seen
 * here. */
static bool find_container_group(int pid, const char *id, char *ret_dir, size_t size)
{
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    CLEANUP_BUF struct buf groups;
    buf_init(&groups, CGROUPS_MAX);
    char *rest = small_file_text(path, &groups);
    char *line;
    bool is_in = false;
    while (rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        const char *group = strstr(line, ":/"); /* "8:pids:/docker/<id>" */
        if (group == NULL || strstr(group, id) == NULL) {
            continue;
        }
        is_in = true;
        if (find_below_mounts(group + 1, pid, ret_dir, size)) {
            return true;
        }
    }
    ret_dir[0] = '\0';
    return is_in;
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
    if (!oci_process_start(first.pid, &first.start_time) ||
        !find_container_group(first.pid, id, first.group, sizeof(first.group))) {
        return; /* the engine's host is not this one */
    }
    if (ending_note_first(dir, &first, &err) < 0) {
        log_debug("a server that ends cannot kill it at once: %s", err.text);
    }
}
