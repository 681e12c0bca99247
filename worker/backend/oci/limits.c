/*
 * Of inotify the kernel gives a user so many instances and watches, and what a sandbox takes counts
 * for the user that runs cloister as well. So each sandbox gets a sixteenth. That is enough for
 * what watches files, and one sandbox, or some, cannot take all from the host.
 *
 * System V's shared memory would stay when the processes that used it are gone, and so would keep
 * the memory of a sandbox occupied until it is closed. With shm_rmid_forced the kernel removes a
 * segment with its last user. It is at most half of the memory, and semaphores are few.
 *
 * Cgroups of version 1 count the buffers of TCP and UDP sockets beside the memory, and only if they
 * have a limit. Runtimes took one once ("kernelTCP") and ignore it since runc 1.0, so it is written
 * here. It counts for sockets that are made after it.
 */
#include "worker/backend/oci/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "worker/backend/oci/runtime.h"
#include "worker/backend/sandbox_defaults.h"

#define LIMITS_MS     10000 /* 2 ms are usual */
#define SHARE_OF      16
#define INSTANCES_MIN 8
#define WATCHES_MIN   128

/* The strings that the arguments borrow. */
struct limit_words {
    char *items[OCI_ARGS_MAX];
    size_t count;
};

static void add_limit(struct oci_args *args, struct limit_words *words, char *word)
{
    words->items[words->count++] = word;
    oci_args_add(args, word);
}

/* `all` is what the kernel gives a user; 0: it does not say, so there is nothing to share out. */
static void add_inotify(struct oci_args *args, struct limit_words *words, const char *name,
                        uint64_t all, uint64_t least)
{
    uint64_t share = all / SHARE_OF;
    if (all > 0) {
        add_limit(args, words,
                  alloc_printf("inotify:user/%s=%llu", name,
                               (unsigned long long)(share < least ? least : share)));
    }
}

struct oci_exec *oci_limits_start(struct tasks *tasks, const struct backend_spec *spec,
                                  const struct oci_mode *mode, const struct oci_host *host,
                                  pid_t pid, oci_exec_fn fn, void *arg)
{
    struct oci_args args = {.count = 0};
    struct limit_words words = {.count = 0};
    oci_args_add(&args, spec->agent_path);
    oci_args_add(&args, "limit");
    oci_args_add(&args, "--pid");
    add_limit(&args, &words, alloc_printf("%d", (int)pid));
    if (mode->userns != OCI_USERNS_NONE) { /* else code has a uid that nobody else has */
        oci_args_add(&args, "--user");
        add_inotify(&args, &words, "max_inotify_instances", host->inotify_instances, INSTANCES_MIN);
        add_inotify(&args, &words, "max_inotify_watches", host->inotify_watches, WATCHES_MIN);
    }
    for (size_t i = 0; i < SANDBOX_SYSCTLS; i++) {
        char value[SANDBOX_SYSCTL_MAX];
        const char *name = sandbox_sysctl(i, spec->limits.memory_bytes, value);
        add_limit(&args, &words, alloc_printf("shm:kernel/%s=%s", name, value));
    }
    struct oci_exec_options options = {.argv = args.items, .deadline_ms = LIMITS_MS};
    struct oci_exec *exec = oci_exec_start(tasks, &options, fn, arg);
    for (size_t i = 0; i < words.count; i++) {
        free(words.items[i]);
    }
    return exec;
}

int oci_limits_sockets(const struct oci_box *box, const struct backend_spec *spec,
                       const struct oci_mode *mode, const struct oci_host *host, pid_t pid,
                       struct err *err)
{
    struct oci_cgroup_dirs dirs;
    struct err why = ERR_INIT;
    if (!mode->memory || !host->cgroup.sockets) {
        return 0;
    }
    if (!oci_cgroup_find("", &host->cgroup, pid, box->container, &dirs) || dirs.memory[0] == '\0') {
        err_ignore(err_set(&why, ERR_IO, "its cgroup was not found"));
    } else if (oci_cgroup_limit_sockets(&dirs, sandbox_sockets(spec->limits.memory_bytes), &why) ==
               0) {
        return 0;
    }
    CLEANUP_FREE char *text =
        alloc_printf("sockets: their buffers are not limited: %s\n", why.text);
    return oci_box_add_note(box, view_of(text), err);
}

int oci_limits_keep(const struct oci_box *box, const struct oci_exec_result *result,
                    struct err *err)
{
    if (result->exit_code == 0) {
        return result->out.len == 0 ? 0 : oci_box_add_note(box, result->out, err);
    }
    char words[OCI_WORDS_MAX];
    oci_runtime_words(result->err, words);
    CLEANUP_FREE char *text =
        alloc_printf("namespaces: their limits could not be set: %s\n",
                     result->timed_out          ? "it took too long"
                     : words[0] != '\0'         ? words
                     : result->spawn_error != 0 ? strerror(result->spawn_error)
                                                : "the program does not say why");
    return oci_box_add_note(box, view_of(text), err);
}
