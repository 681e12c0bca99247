/*
 * The kernel tells of each thread how long it has run and how long it was ready to run without a
 * CPU (/proc/PID/task/TID/schedstat), and whether it is ready (R) or waits for a disk (D) at this
 * moment. A wait is added to the sum when it is over. One that goes on for longer than from look to
 * look shows by the state at both of them, with next to nothing run in between; what has run
 * between them was not waiting, so a program that runs in a circle counts.
 *
 * Of several threads one that waits is enough: the others may sleep because of it. A thread that
 * ends takes its sums away; then this look sees less waiting than there was, which errs on the side
 * of the limit.
 *
 * Not every kernel tells the children of a process, so descendants are found by the parents of
 * all. Numbers of processes grow, so only greater ones than its own are looked at; after they have
 * begun anew a descendant may be missed.
 */
#include "common/kernel/waited.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "common/cleanup.h"
#include "common/str.h"

#define NS_PER_MS   UINT64_C(1000000)
#define FAMILY_MAX  64  /* processes that are looked at */
#define THREADS_MAX 256 /* of them together */

struct sums {
    int main; /* of whose process they are */
    uint64_t ran_ns, delayed_ns, main_ran_ns;
    bool waits;
    unsigned threads;
};

/* The beginning of a small file as text; false if there is none. */
static bool read_proc_text(const char *path, char *out, size_t size)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    do {
        n = fd < 0 ? -1 : read(fd, out, size - 1);
    } while (n < 0 && fd >= 0 && errno == EINTR);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* "PID (any name) STATE PARENT ...". */
static bool read_proc_stat(const char *path, char *ret_state, int *ret_parent)
{
    char text[512];
    const char *after = read_proc_text(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    return after != NULL && sscanf(after, ") %c %d", ret_state, ret_parent) == 2;
}

/* The number that an entry is called by; 0 for any other name. */
static int number_of_entry(const struct dirent *entry)
{
    struct err err = ERR_INIT;
    uint64_t number = 0;
    return str_to_u64(entry->d_name, 1, INT_MAX, &number, &err) == 0 ? (int)number : 0;
}

/* It runs while it looks. */
static bool is_caller(int tid)
{
#ifdef __linux__
    return syscall(SYS_gettid) == tid;
#else
    return tid == 0;
#endif
}

static void add_thread(const char *tasks, int tid, struct sums *sums)
{
    char path[PATH_MAX], text[128], state = '\0';
    int parent = 0;
    uint64_t ran = 0, delayed = 0;
    snprintf(path, sizeof(path), "%s/%d/stat", tasks, tid);
    bool known = !is_caller(tid) && read_proc_stat(path, &state, &parent);
    sums->waits = sums->waits || (known && (state == 'R' || state == 'D'));
    snprintf(path, sizeof(path), "%s/%d/schedstat", tasks, tid);
    if (read_proc_text(path, text, sizeof(text)) &&
        sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &delayed) == 2) {
        sums->ran_ns += ran;
        sums->delayed_ns += delayed;
        sums->main_ran_ns += tid == sums->main ? ran : 0;
    }
    sums->threads++;
}

static void add_threads(const char *fs_root, int pid, struct sums *sums)
{
    char tasks[PATH_MAX / 2];
    snprintf(tasks, sizeof(tasks), "%s/proc/%d/task", fs_root, pid);
    DIR *dir = opendir(tasks);
    const struct dirent *entry;
    while (dir != NULL && sums->threads < THREADS_MAX && (entry = readdir(dir)) != NULL) {
        int tid = number_of_entry(entry);
        if (tid > 0) {
            add_thread(tasks, tid, sums);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* Entries come in the order of their numbers, so a parent mostly comes before its children. */
static void add_descendants(const char *fs_root, int pid, struct sums *sums)
{
    int family[FAMILY_MAX] = {pid};
    int count = 1;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/proc", fs_root);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir != NULL && count < FAMILY_MAX && (entry = readdir(dir)) != NULL) {
        int child = number_of_entry(entry), parent = 0;
        char state;
        if (child <= pid) {
            continue;
        }
        snprintf(path, sizeof(path), "%s/proc/%d/stat", fs_root, child);
        bool known = read_proc_stat(path, &state, &parent);
        for (int i = 0; known && i < count; i++) {
            if (family[i] == parent) {
                family[count++] = child;
                add_threads(fs_root, child, sums);
                break;
            }
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void take_sums(struct waited *w, const struct sums *sums, uint64_t now_ms)
{
    w->ran_ns = sums->ran_ns;
    w->delayed_ns = sums->delayed_ns;
    w->main_ran_ns = sums->main_ran_ns;
    w->waits = sums->waits;
    w->looked_ms = now_ms;
}

void waited_begin(struct waited *w, const char *fs_root, int pid, bool family, uint64_t now_ms)
{
    *w = (struct waited){.fs_root = fs_root, .pid = pid, .family = family};
    struct sums sums = {.main = pid};
    add_threads(fs_root, pid, &sums);
    take_sums(w, &sums, now_ms);
}

static uint64_t growth_ms(uint64_t before_ns, uint64_t now_ns)
{
    return now_ns > before_ns ? (now_ns - before_ns) / NS_PER_MS : 0;
}

uint64_t waited_look(struct waited *w, uint64_t now_ms, uint64_t period_ms)
{
    struct sums sums = {.main = w->pid};
    add_threads(w->fs_root, w->pid, &sums);
    if (w->family) {
        add_descendants(w->fs_root, w->pid, &sums);
    }
    uint64_t passed_ms = now_ms - w->looked_ms;
    uint64_t late_ms = passed_ms > period_ms ? passed_ms - period_ms : 0;
    uint64_t waited_ms = growth_ms(w->delayed_ns, sums.delayed_ns);
    uint64_t ran_ms = growth_ms(w->ran_ns, sums.ran_ns);
    if (w->waits && sums.waits && ran_ms < passed_ms / 2) {
        waited_ms = passed_ms;
    }
    if (waited_ms < late_ms) {
        waited_ms = late_ms;
    }
    w->counted_ms += waited_ms < passed_ms ? passed_ms - waited_ms : 0;
    w->worked_ms += growth_ms(w->main_ran_ns, sums.main_ran_ns);
    take_sums(w, &sums, now_ms);
    return w->counted_ms;
}
