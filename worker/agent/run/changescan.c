/*
 * The scan is breadth first, so that files near the top are found however large the tree is. A
 * directory is watched before it is read: reading finds what was there, and an event tells of what
 * is made later.
 *
 * Nothing grows with the workspace: names, time, memory for queued directories, and watches each
 * have a bound. A scan that reaches one reports that there may be more files. Its time is that of
 * the processor, so that a scan on a busy machine finds the same; a longer limit of elapsed time is
 * for file systems that do not answer.
 *
 * A file counts by its ctime, the one time of a file that programs cannot set. The clock behind it
 * ticks a few hundred times a second, so a file that was written shortly before the run may have
 * the same ctime as one that was written early in it. Files that an earlier scan has found are
 * recognised by their fingerprints, which change with the file.
 */
#include "worker/agent/run/changescan.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/fd.h"
#include "proto/codec.h"
#include "worker/agent/link/report.h"
#include "worker/agent/run/filework.h"

#define NAMES_MAX   50000u
#define CPU_MAX_MS  250
#define TIME_MAX_MS 1000       /* elapsed; a scan is killed later than that, see op.c */
#define QUEUE_BYTES (1u << 20) /* cap of the paths of queued directories */
#define WATCHES_MAX 1024u      /* each watch uses kernel memory of the sandbox */
#define FOUND_BYTES (LIMIT_CHANGED * (LIMIT_PATH + 128u))
#define CLOCK_EVERY 256u

struct found {
    char *path; /* owned */
    int64_t changed_ns;
    uint64_t print;
    struct stat st;
};

struct walk {
    const struct changescan *s;
    struct buf queue; /* paths, each with its NUL */
    size_t next;      /* offset of the next path to read */
    size_t names, watches;
    uint64_t highest; /* number of a watch */
    uint64_t until_ms, cpu_until_ms;
    bool unwatched; /* a directory is not watched */
    bool more;      /* some files were not looked at or not kept */
    struct found found[LIMIT_CHANGED];
    size_t count;
};

bool changescan_skips(const char *name)
{
    return name[0] == '.' || strcmp(name, "__pycache__") == 0 || strcmp(name, "node_modules") == 0;
}

static bool is_past(const struct changescan *s, uint64_t print)
{
    for (size_t i = 0; i < s->past_count; i++) {
        if (s->past[i] == print) {
            return true;
        }
    }
    return false;
}

/* Newest first; the path decides between equal times. */
static int compare_found(const void *a, const void *b)
{
    const struct found *x = a;
    const struct found *y = b;
    if (x->changed_ns != y->changed_ns) {
        return x->changed_ns > y->changed_ns ? -1 : 1;
    }
    return strcmp(x->path, y->path);
}

/* A place for one more: a free one, or that of the oldest if this file is newer; else NULL. */
static struct found *place(struct walk *w, int64_t changed_ns)
{
    if (w->count < LIMIT_CHANGED) {
        return &w->found[w->count++];
    }
    w->more = true;
    struct found *oldest = &w->found[0];
    for (size_t i = 1; i < w->count; i++) {
        if (w->found[i].changed_ns < oldest->changed_ns) {
            oldest = &w->found[i];
        }
    }
    if (oldest->changed_ns >= changed_ns) {
        return NULL;
    }
    free(oldest->path);
    return oldest;
}

static void consider(struct walk *w, const char *path, const struct stat *st)
{
    int64_t changed_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
    if (!S_ISREG(st->st_mode) || changed_ns < w->s->since_ns) {
        return;
    }
    uint64_t print = filework_stamp(st);
    if (is_past(w->s, print)) {
        return;
    }
    struct found *f = place(w, changed_ns);
    if (f != NULL) {
        *f = (struct found){alloc_strdup(path), changed_ns, print, *st};
    }
}

static void enqueue(struct walk *w, const char *path)
{
    if (buf_add(&w->queue, path, strlen(path) + 1, NULL) < 0) {
        w->more = true;
        w->unwatched = true;
    }
}

static void watch(struct walk *w, const char *path)
{
    int wd = -1;
    if (w->s->watch_fd >= 0 && w->watches < WATCHES_MAX) {
        wd = inotify_add_watch(w->s->watch_fd, path,
                               CHANGESCAN_EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK);
    }
    if (wd < 0) {
        w->unwatched = true;
        return;
    }
    w->watches++;
    if ((uint64_t)wd > w->highest) {
        w->highest = (uint64_t)wd;
    }
}

static uint64_t cpu_ms(void)
{
    struct timespec used = {0, 0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used); /* exists on every Linux */
    return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

static bool is_out_of_time(const struct walk *w)
{
    return cpu_ms() >= w->cpu_until_ms || clock_ms() >= w->until_ms;
}

/* False when it is time to stop. */
static bool look_at_entry(struct walk *w, int fd, const char *dir, const struct dirent *entry)
{
    char path[LIMIT_PATH + 1];
    struct stat st;
    w->names++;
    if (w->names >= NAMES_MAX || (w->names % CLOCK_EVERY == 0 && is_out_of_time(w))) {
        return false;
    }
    if (changescan_skips(entry->d_name)) {
        return true;
    }
    bool top = strcmp(dir, ".") == 0;
    size_t dir_len = top ? 0 : strlen(dir);
    size_t name_len = strlen(entry->d_name);
    if (dir_len + 1 + name_len > LIMIT_PATH) {
        w->more = true; /* nobody could name it */
        w->unwatched = true;
        return true;
    }
    memcpy(path, dir, dir_len);
    if (!top) {
        path[dir_len++] = '/';
    }
    memcpy(path + dir_len, entry->d_name, name_len + 1);
    if (entry->d_type == DT_DIR) {
        enqueue(w, path);
    } else if (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) {
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            return true; /* gone meanwhile */
        }
        if (S_ISDIR(st.st_mode)) {
            enqueue(w, path);
        } else {
            consider(w, path, &st);
        }
    }
    return true;
}

/* False when it is time to stop. */
static bool read_directory(struct walk *w, const char *path)
{
    watch(w, path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return true; /* gone, or closed to the user and so to the user's code */
    }
    bool on = true;
    struct dirent *entry;
    while (on && (entry = readdir(dir)) != NULL) {
        on = look_at_entry(w, fd, path, entry);
    }
    closedir(dir);
    return on;
}

static void walk_all(struct walk *w)
{
    char path[LIMIT_PATH + 1];
    enqueue(w, ".");
    while (w->next < w->queue.len) {
        /* a copy, because the queue may move when it grows */
        size_t len = strlen((const char *)w->queue.data + w->next) + 1;
        memcpy(path, w->queue.data + w->next, len);
        w->next += len;
        if (!read_directory(w, path)) {
            w->more = true;
            w->unwatched = true;
            return;
        }
    }
}

static int put_found(struct buf *out, const struct found *f, struct err *err)
{
    uint8_t print[CHANGESCAN_PRINT_BYTES];
    for (size_t i = 0; i < sizeof(print); i++) {
        print[i] = (uint8_t)(f->print >> (8 * (sizeof(print) - 1 - i)));
    }
    struct msg m = {.type = MSG_ENTRY};
    filework_entry(&m.entry, f->path, &f->st);
    int rc = buf_add(out, print, sizeof(print), err);
    return rc < 0 ? rc : msg_encode_frame(out, &m, err);
}

static int put_all(struct walk *w, int out_fd, struct err *err)
{
    struct buf out;
    int rc = 0;
    if (w->count > 0) {
        qsort(w->found, w->count, sizeof(w->found[0]), compare_found);
    }
    buf_init(&out, FOUND_BYTES);
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        rc = put_found(&out, &w->found[i], err);
    }
    if (rc == 0) {
        rc = fd_write_all(out_fd, out.data, out.len, err);
    }
    buf_finish(&out);
    return rc;
}

void changescan_run(const struct changescan *s, int out_fd, int report_fd, int rc,
                    const struct err *err)
{
    struct err now = *err;
    struct walk *w = alloc_one(struct walk);
    w->s = s;
    w->until_ms = clock_ms() + TIME_MAX_MS;
    w->cpu_until_ms = cpu_ms() + CPU_MAX_MS;
    buf_init(&w->queue, QUEUE_BYTES);
    if (rc == 0) {
        walk_all(w);
        rc = put_all(w, out_fd, &now);
    }
    struct buf report;
    buf_init(&report, LIMIT_TEXT * 2);
    int put = 0;
    if (rc < 0) {
        put = report_put_number(&report, 'F', (uint64_t)-rc, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'W', w->unwatched ? 0 : w->highest, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'U', w->more, NULL);
    }
    if (put == 0) {
        put = report_put_number(&report, 'D', 0, NULL);
    }
    if (put == 0) {
        err_ignore(fd_write_all(report_fd, report.data, report.len, NULL));
    }
    buf_finish(&report); /* the process exits now, which frees the rest */
}
