/*
 * Theory: pip and npm count what they install, but with --build-packages code of the packages runs
 * beside them, as the same user, and can write what it likes. So this process counts, too, on the
 * host and as another user. Quotas would do that in the kernel, but few file systems have them
 * switched on, and an ordinary user cannot.
 *
 * Three things hold the limit, as each has a gap that another closes:
 *   RLIMIT_FSIZE   no single file is larger, ever (spec.c)
 *   the watch      counts the tree a few times a second and ends the installer; it misses what is
 *                  hidden while it looks, and files without a name. So it also ends one under which
 *                  the file system becomes full.
 *   the trim       counts what is left when no process of the installer is: nothing can be hidden
 *                  then, and files without a name are gone. What is too much is removed.
 *
 * All that a manager has is removed, not only what came last: code that could write there could
 * have changed any of it.
 */
#include "worker/backend/oci/packages_limit.h"

#include <stdlib.h>
#include <sys/statvfs.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "worker/backend/oci/packages.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/tree_size.h"

#define LOOK_MS      250
#define RESERVE_PART 20 /* of a file system: what has to remain for others */

uint64_t oci_packages_peak(uint64_t bytes)
{
    return 2 * bytes + sandbox_packages_file_max(bytes);
}

void oci_packages_note(uint64_t bytes, struct oci_notes *notes)
{
    if (bytes > 0) {
        oci_notes_add(notes,
                      "packages: no quota holds what their code writes; it is counted from outside "
                      "%d times a second, and an installer that takes too much is stopped",
                      1000 / LOOK_MS);
    }
}

static unsigned long long mib(uint64_t bytes)
{
    return (unsigned long long)(bytes >> 20);
}

/* ---- the watch ------------------------------------------------------------------------------ */

struct oci_packages_watch {
    struct tasks *tasks;
    char *tree;
    uint64_t bytes;
    uint64_t free_first; /* of the file system, when it began */
    oci_packages_watch_fn fn;
    void *arg;
};

static bool read_free(const char *path, uint64_t *ret_free, uint64_t *ret_all)
{
    struct statvfs fs;
    if (statvfs(path, &fs) < 0) {
        return false;
    }
    *ret_free = (uint64_t)fs.f_bavail * fs.f_frsize;
    *ret_all = (uint64_t)fs.f_blocks * fs.f_frsize;
    return true;
}

/* Others write there as well: so it has to be nearly full, and by more than can be explained. */
static bool fills_file_system(const struct oci_packages_watch *w)
{
    uint64_t left, all;
    return read_free(w->tree, &left, &all) && left < all / RESERVE_PART && left < w->free_first &&
           w->free_first - left > oci_packages_peak(w->bytes);
}

static void on_look(void *arg);

static void on_tree_counted(void *arg, int rc, uint64_t bytes, const struct err *err)
{
    struct oci_packages_watch *w = arg;
    struct err why = ERR_INIT;
    uint64_t peak = oci_packages_peak(w->bytes);
    if (w->fn == NULL) {
        return;
    }
    if (rc < 0) {
        err_ignore(err_set(&why, ERR_NO_SPACE,
                           "the installer was stopped, as what it writes cannot be counted: %s",
                           err->text));
    } else if (bytes > peak) {
        err_ignore(err_set(&why, ERR_NO_SPACE,
                           "the installer was stopped when it had written more than %llu MiB, of "
                           "which %llu may stay",
                           mib(peak), mib(w->bytes)));
    } else if (fills_file_system(w)) {
        err_ignore(err_set(&why, ERR_NO_SPACE,
                           "the installer was stopped, as the disk of the server became full"));
    } else {
        task_later(w->tasks, LOOK_MS, on_look, w);
        return;
    }
    oci_packages_watch_fn fn = w->fn;
    w->fn = NULL;
    fn(w->arg, &why);
}

static void on_look(void *arg)
{
    struct oci_packages_watch *w = arg;
    if (w->fn != NULL) {
        tree_size_start(w->tasks, w->tree, oci_packages_peak(w->bytes), on_tree_counted, w);
    }
}

struct oci_packages_watch *oci_packages_watch_start(struct tasks *tasks, const char *tree,
                                                    uint64_t bytes, oci_packages_watch_fn fn,
                                                    void *arg)
{
    struct oci_packages_watch *w = alloc_one(struct oci_packages_watch);
    uint64_t all;
    w->tasks = tasks;
    w->tree = alloc_strdup(tree);
    w->bytes = bytes;
    w->fn = fn;
    w->arg = arg;
    if (!read_free(tree, &w->free_first, &all)) {
        w->free_first = 0;
    }
    task_later(tasks, LOOK_MS, on_look, w);
    return w;
}

void oci_packages_watch_end(struct oci_packages_watch *w)
{
    if (w != NULL) {
        w->fn = NULL;
    }
}

void oci_packages_watch_free(struct oci_packages_watch *w)
{
    if (w != NULL) {
        free(w->tree);
        free(w);
    }
}

/* ---- the trim ------------------------------------------------------------------------------- */

/* The installers' programs count lengths; blocks of large directories and of what a file system
 * keeps about files come on top. */
static uint64_t kept_max(uint64_t bytes)
{
    return bytes + bytes / 8 + ((uint64_t)8 << 20);
}

struct oci_packages_trim {
    struct tasks *tasks;
    char *tree;
    uint64_t bytes;
    char *agent_path;
    size_t next;
    oci_packages_trim_fn fn;
    void *arg;
};

static const char *const managers[] = {"python", "node"};

static void count_manager(struct oci_packages_trim *t);

static void on_manager_counted(void *arg, int rc, uint64_t bytes, const struct err *err)
{
    struct oci_packages_trim *t = arg;
    const char *name = managers[t->next];
    if (rc < 0 || bytes > kept_max(t->bytes)) {
        struct err failed = ERR_INIT;
        log_warn("packages in %s/%s take more than %llu MiB and are removed%s%s", t->tree, name,
                 mib(t->bytes), rc < 0 ? ": " : "", rc < 0 ? err->text : "");
        if (oci_packages_drop(t->tasks, t->tree, name, t->agent_path, &failed) < 0) {
            log_warn("they cannot be removed before their sandbox is: %s", failed.text);
        }
    }
    t->next++;
    count_manager(t);
}

static void count_manager(struct oci_packages_trim *t)
{
    if (t->next < sizeof(managers) / sizeof(managers[0])) {
        CLEANUP_FREE char *path = alloc_printf("%s/%s", t->tree, managers[t->next]);
        tree_size_start(t->tasks, path, kept_max(t->bytes), on_manager_counted, t);
        return;
    }
    oci_packages_trim_fn fn = t->fn;
    void *arg = t->arg;
    oci_packages_trim_free(t);
    fn(arg);
}

struct oci_packages_trim *oci_packages_trim_start(struct tasks *tasks, const char *tree,
                                                  uint64_t bytes, const char *agent_path,
                                                  oci_packages_trim_fn fn, void *arg)
{
    struct oci_packages_trim *t = alloc_one(struct oci_packages_trim);
    t->tasks = tasks;
    t->tree = alloc_strdup(tree);
    t->bytes = bytes;
    t->agent_path = alloc_strdup(agent_path);
    t->fn = fn;
    t->arg = arg;
    count_manager(t);
    return t;
}

void oci_packages_trim_free(struct oci_packages_trim *t)
{
    if (t != NULL) {
        free(t->tree);
        free(t->agent_path);
        free(t);
    }
}
