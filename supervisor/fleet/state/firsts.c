/*
 * A thousand workers that are asked to end their sandboxes take seconds to wake up, and the last
 * sandbox runs on for as long. So when all sandboxes end, this code kills everything in them
 * itself, by their control groups; after that no code in them runs.
 *
 * Without a control group, the first process of a sandbox gets a signal, and the kernel ends all of
 * its pid namespace with it. That happens when this process gets a CPU; as soon as the first of
 * them dies, their ends, their workers' waking up and this process compete for the CPUs. So the
 * processes are found and compared first, as many as the descriptors allow, and then signalled one
 * right after the other. The mark is written before all that: it tells a worker that finds its
 * agent dead that this was intended.
 */
#include "supervisor/fleet/state/firsts.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cgroup.h"
#include "common/cleanup.h"
#include "common/ending.h"
#include "common/log.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/workers/spawn.h"

#define HELD_MAX 256 /* descriptors at the same time: many systems allow a process 1024 */

#ifdef SYS_pidfd_open
/* Opens a descriptor of exactly the noted process, or returns -1. */
static int hold_first(const struct ending_first *first)
{
    CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, (pid_t)first->pid, 0);
    if (fd < 0 || worker_process_start_time(first->pid) != first->start_time) {
        return -1;
    }
    return steal_fd(&fd);
}

static void kill_held(const int *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        /* fails only if it is dead */
        (void)!syscall(SYS_pidfd_send_signal, held[i], SIGKILL, NULL, 0);
    }
    for (size_t i = 0; i < count; i++) {
        close(held[i]);
    }
}
#else
static int hold_first(const struct ending_first *first)
{
    (void)first;
    return -1;
}

static void kill_held(const int *held, size_t count)
{
    (void)held, (void)count;
}
#endif

size_t firsts_kill(const char *instance_dir)
{
    struct err err = ERR_INIT;
    if (ending_begin(instance_dir, &err) < 0) {
        log_warn("sandboxes end one after the other: %s", err.text);
        return 0; /* without the mark their workers would assume an accident */
    }
    CLEANUP_FREE char *path = alloc_printf("%s/sandboxes", instance_dir);
    DIR *dir = opendir(path);
    struct dirent *entry;
    int held[HELD_MAX];
    size_t count = 0;
    size_t total = 0;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (!instance_is_sandbox_id(entry->d_name)) {
            continue;
        }
        struct ending_first first;
        CLEANUP_FREE char *sandbox = alloc_printf("%s/%s", path, entry->d_name);
        if (!ending_read_first(sandbox, &first)) {
            continue;
        }
        if (first.group[0] != '\0' && cgroup_kill(first.group)) {
            total++;
            continue;
        }
        held[count] = hold_first(&first);
        if (held[count] >= 0 && ++count == HELD_MAX) {
            kill_held(held, count);
            total += count;
            count = 0;
        }
    }
    kill_held(held, count);
    if (dir != NULL) {
        closedir(dir);
    }
    return total + count;
}
