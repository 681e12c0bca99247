/*
 * A trial costs about as much as a sandbox, and its result is the same from server to server, until
 * something of the host changes. So the answer is kept in a file of the runtime directory, beside
 * all that it depended on, and counts only if all of that is byte for byte the same now: this
 * build, the question, the boot and the kernel, our user, privileges, limits, namespaces and
 * security modules, what is mounted at /, /proc, /sys and /dev, which control groups are handed to
 * us, sysctls and subordinate ids, the runtime, and every directory that programs are found in.
 * Each remedy that `cloister doctor` names changes one of them. What is left, such as a rule of a
 * security module, shows as a creation that fails, after which nothing is believed (engine.c).
 *
 * Only the strongest way that the host allows is kept (`lasts`). If a weaker one had to be taken,
 * each server tries again, since its reason may have been mended.
 *
 * File times have whole seconds here. So nothing is kept if a file has changed since the second in
 * which the trial began: any later change then has another time.
 *
 * The file is ours alone (0600), no symlink and not linked elsewhere, or it is not read. What it
 * holds is as strict as any message; what cannot be read is no memory. It is renamed into place and
 * not synced, because after a crash of the machine it counts for nothing. There are few names, by a
 * hash of the question, so there are few files, and servers that are started in different ways do
 * not take each other's place.
 *
 * A directory of PATH may be on a file system whose server is gone; then whoever looks at it hangs.
 * So this is done by a thread of its own, which is left behind if it takes LATE_MS, and then writes
 * nothing any more. On a busy machine a new thread may wait for a CPU for seconds, so that is long;
 * a server that ends has less time. libuv's pool would not do: the end of the process waits for it.
 */
#include "supervisor/fleet/engine/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/codec.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/host/instance.h"
#include "supervisor/fleet/state/record.h"
#include "supervisor/fleet/workers/oneshot.h"
#include "supervisor/fleet/workers/spawn.h"

#define KEPT_MAX     (128u << 10)
#define KEPT_NAMES   8
#define LATE_MS      10000 /* half a millisecond is usual */
#define ENDING_MS    2000  /* the same while the server ends, which has 5 s for all */
#define TURN_MS      100
#define MOUNTS_MAX   (1u << 20)
#define FACT_MAX     (16u << 10)
#define CGROUP_ROOT  "/sys/fs/cgroup"
#define PROGRAM_DIRS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Borrows from `text`. */
struct kept {
    struct buf text;
    struct msg trial;
    struct msg probed; /* type MSG_PROBED, usable */
};

/* All that a trial depends on, a line each: its name, the length of its value, the value. */
struct facts {
    struct buf text;
    bool incomplete;
    int64_t newest_s; /* when the youngest of the files has changed */
};

/* One look or one note. The thread has what is marked so until `ready`. */
struct kept_job {
    struct fleet_host *host;
    kept_fn fn; /* NULL for a note */
    void *arg;
    LIST_ENTRY(kept_job) node; /* of the host's, until it has ended */
    uv_async_t async;
    uv_timer_t timer;
    uint64_t began_ms; /* of the loop */
    int handles;       /* not closed yet */
    void (*work)(struct kept_job *job);

    /* ---- written before the thread begins ---- */
    struct facts question; /* what is known before there is an answer; names the file */
    char *path, *top, *boot, *worker, *agent, *dirs;
    struct buf answer; /* of a note, with the two below */
    char *runtime;
    int64_t began_s;

    /* ---- the thread's ---- */
    struct kept kept;
    bool found, outdated;

    uv_mutex_t lock;
    /* ---- under the lock ---- */
    bool ready, given_up;
    bool forgotten; /* what is found counts no more, so it is not written */
    int users;      /* the thread and the loop; the last one frees */
};

static void add_fact(struct facts *f, const char *name, struct view value)
{
    if (buf_printf(&f->text, NULL, "%s %zu ", name, value.len) < 0 ||
        (value.len > 0 && buf_add(&f->text, value.data, value.len, NULL) < 0) ||
        buf_add_str(&f->text, "\n", NULL) < 0) {
        f->incomplete = true;
    }
}

static void add_text_fact(struct facts *f, const char *name, const char *text)
{
    add_fact(f, name, view_of(text != NULL ? text : ""));
}

/* What does not exist is a fact, too. */
static void add_content(struct facts *f, const char *path)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, FACT_MAX);
    bool there = file_read(path, &text, NULL) == 0;
    add_fact(f, path, there ? view_bytes(text.data, text.len) : view_of("absent"));
}

static void add_file_fact(struct facts *f, const char *path)
{
    struct stat st;
    char what[256] = "absent";
    if (stat(path, &st) == 0) {
        snprintf(
            what, sizeof(what), "%" PRIu64 ":%" PRIu64 " %" PRIu64 " %o %u:%u %" PRId64 " %" PRId64,
            (uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size, (unsigned)st.st_mode,
            (unsigned)st.st_uid, (unsigned)st.st_gid, (int64_t)st.st_mtime, (int64_t)st.st_ctime);
        f->newest_s = f->newest_s > (int64_t)st.st_ctime ? f->newest_s : (int64_t)st.st_ctime;
    }
    add_text_fact(f, path, what);
}

/* A program that is installed, replaced or removed changes its directory. */
static void add_program_dirs(struct facts *f, const char *dirs)
{
    while (dirs != NULL && *dirs != '\0') {
        size_t len = strcspn(dirs, ":");
        CLEANUP_FREE char *dir = alloc_printf("%.*s", (int)len, dirs);
        if (dir[0] == '/') {
            add_file_fact(f, dir);
        }
        dirs += len + (dirs[len] == ':' ? 1 : 0);
    }
}

static void add_lines(struct facts *f, const char *path, size_t max,
                      bool (*wanted)(const char *line, size_t len, struct view *ret))
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, max);
    const char *line = file_read(path, &text, NULL) == 0 ? buf_cstr(&text) : NULL;
    f->incomplete = f->incomplete || line == NULL; /* all these files exist where trials do */
    while (line != NULL && *line != '\0') {
        size_t len = strcspn(line, "\n");
        struct view value;
        if (wanted(line, len, &value)) {
            add_fact(f, path, value);
        }
        line += len + (line[len] == '\n' ? 1 : 0);
    }
}

static bool begins_with_one_of(const char *line, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(line, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_privilege(const char *line, size_t len, struct view *ret)
{
    static const char *const words[] = {
        "Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp:"};
    *ret = view_bytes(line, len);
    return begins_with_one_of(line, words, sizeof(words) / sizeof(words[0]));
}

/* "36 35 98:0 /root /point options..."; the first two are new numbers each time. */
static bool is_system_mount(const char *line, size_t len, struct view *ret)
{
    static const char *const points[] = {"/ ", "/proc", "/sys", "/dev"};
    const char *at = line, *end = line + len, *rest = line;
    for (int field = 0; field < 4; field++) {
        at = memchr(at, ' ', (size_t)(end - at));
        if (at == NULL) {
            return false;
        }
        at++;
        rest = field == 1 ? at : rest;
    }
    *ret = view_bytes(rest, (size_t)(end - rest));
    return begins_with_one_of(at, points, sizeof(points) / sizeof(points[0]));
}

/* The group that ours is in. Ours itself has another name with each program that starts us. */
static bool is_parent_group(const char *line, size_t len, struct view *ret)
{
    while (len > 0 && line[len - 1] != '/') {
        len--;
    }
    *ret = view_bytes(line, len);
    return true;
}

/* What a service manager hands to us, in the hierarchy of version 2. */
static void add_delegation(struct facts *f)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, FACT_MAX);
    const char *all = file_read("/proc/self/cgroup", &text, NULL) == 0 ? buf_cstr(&text) : NULL;
    const char *own = all != NULL ? strstr(all, "0::/") : NULL;
    CLEANUP_FREE char *group =
        alloc_printf("%.*s", own != NULL ? (int)strcspn(own + 3, "\n") : 0, own ? own + 3 : "");
    CLEANUP_FREE char *swap = alloc_printf(CGROUP_ROOT "%s/memory.swap.max", group);
    add_text_fact(f, "own swap", access(swap, F_OK) == 0 ? "limited" : "");
    char *cut = strrchr(group, '/');
    if (cut != NULL) {
        *cut = '\0';
    }
    CLEANUP_FREE char *parent = alloc_printf(CGROUP_ROOT "%s", group);
    CLEANUP_FREE char *gives = alloc_printf("%s/cgroup.controllers", parent);
    add_content(f, gives);
    add_text_fact(f, "parent group", access(parent, W_OK) == 0 ? "ours" : "");
    unsigned uid = (unsigned)geteuid();
    CLEANUP_FREE char *manager = alloc_printf(
        CGROUP_ROOT "/user.slice/user-%u.slice/user@%u.service/cgroup.controllers", uid, uid);
    add_content(f, manager);
    add_text_fact(f, "system manager", access("/run/systemd/system", F_OK) == 0 ? "there" : "");
    CLEANUP_FREE char *bus = alloc_printf("/run/user/%u/systemd/private", uid);
    add_text_fact(f, bus, access(bus, F_OK) == 0 ? "there" : "");
}

static void add_host_facts(struct facts *f)
{
    static const char *const contents[] = {
        "/proc/self/uid_map",
        "/proc/self/gid_map",
        "/proc/self/limits",
        "/proc/self/attr/current",
        "/proc/swaps",
        "/sys/kernel/security/lsm",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sys/kernel/unprivileged_userns_clone",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        CGROUP_ROOT "/cgroup.controllers",
    };
    static const char *const files[] = {"/proc/self/exe", "/etc/passwd", "/etc/subuid",
                                        "/etc/subgid"};
    static const char *const spaces[] = {"user", "mnt", "pid", "cgroup", "net", "ipc", "uts"};
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        add_content(f, contents[i]);
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        add_file_fact(f, files[i]);
    }
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        char path[64], target[64] = "";
        snprintf(path, sizeof(path), "/proc/self/ns/%s", spaces[i]);
        ssize_t len = readlink(path, target, sizeof(target) - 1);
        add_fact(f, path, view_bytes(target, len > 0 ? (size_t)len : 0));
    }
    /* a number of a namespace is used again, but not with the same first process */
    char start[32];
    snprintf(start, sizeof(start), "%" PRIu64, worker_process_start_time(1));
    add_text_fact(f, "first process", start);
    add_lines(f, "/proc/self/status", FACT_MAX, is_privilege);
    add_lines(f, "/proc/self/mountinfo", MOUNTS_MAX, is_system_mount);
    add_lines(f, "/proc/self/cgroup", FACT_MAX, is_parent_group);
    add_delegation(f);
}

/* What a worker hands on to a runtime, and a runtime may heed. */
static void add_environment(struct facts *f)
{
    static const char *const names[] = {
        "PATH",
        "HOME",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        add_text_fact(f, names[i], getenv(names[i]));
    }
}

static char *name_kept(const struct fleet_host *host, const struct facts *question)
{
    uint64_t hash = hash_bytes(question->text.data, question->text.len);
    return alloc_printf("%s/.trial-%u", host->instance->top, (unsigned)(hash % KEPT_NAMES));
}

/* What is known before there is an answer. Nothing of it is looked up in a file system. */
static void add_question(struct facts *f, const struct fleet_host *host,
                         const struct oneshot_target *target)
{
    CLEANUP_BUF struct buf question;
    struct msg m = {.type = MSG_PROBE};
    m.probe = oneshot_question(target, host->config);
    buf_init(&question, FACT_MAX);
    f->incomplete = f->incomplete || msg_encode(&question, &m, NULL) < 0;
    add_fact(f, "question", view_bytes(question.data, question.len));
    add_text_fact(f, "build", CLOISTER_VERSION);
    add_text_fact(f, "worker", host->worker_path);
    add_text_fact(f, "agent", host->agent_path);
    add_environment(f);
}

/* False if not all of them could be found out; `ret` is finished by the caller in any case. */
static bool collect_facts(const struct kept_job *job, struct view runtime, struct facts *ret)
{
    struct utsname kernel;
    struct stat top;
    *ret = (struct facts){.incomplete = job->question.incomplete || job->boot[0] == '\0' ||
                                        uname(&kernel) < 0 || stat(job->top, &top) < 0};
    buf_init(&ret->text, LIMIT_ITEM);
    if (ret->incomplete ||
        buf_add(&ret->text, job->question.text.data, job->question.text.len, NULL) < 0) {
        return false;
    }
    add_text_fact(ret, "boot", job->boot);
    add_text_fact(ret, "release", kernel.release);
    add_text_fact(ret, "version", kernel.version);
    add_text_fact(ret, "machine", kernel.machine);
    CLEANUP_FREE char *place = alloc_printf("%s %" PRIu64, job->top, (uint64_t)top.st_dev);
    add_text_fact(ret, "place", place);
    CLEANUP_FREE char *program = alloc_viewdup(runtime);
    add_file_fact(ret, program);
    add_file_fact(ret, job->worker);
    add_file_fact(ret, job->agent);
    add_program_dirs(ret, job->dirs);
    add_program_dirs(ret, PROGRAM_DIRS);
    add_host_facts(ret);
    return !ret->incomplete && program[0] == '/' && access(program, X_OK) == 0;
}

static bool read_private(const char *path, struct buf *out)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 077) != 0 || st.st_nlink != 1 || st.st_size > (off_t)KEPT_MAX ||
        buf_reserve(out, (size_t)st.st_size, NULL) < 0) {
        return false;
    }
    while (out->len < (size_t)st.st_size) {
        ssize_t n = read(fd, out->data + out->len, (size_t)st.st_size - out->len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        out->len += (size_t)n;
    }
    return out->len > 0;
}

static bool read_kept(const char *path, struct kept *k)
{
    if (!read_private(path, &k->text) ||
        msg_decode(MSG_LINK_W, k->text.data, k->text.len, &k->trial, NULL) < 0 ||
        k->trial.type != MSG_TRIAL || k->trial.trial.answer.count != 1) {
        return false;
    }
    struct view answer = k->trial.trial.answer.items[0];
    return msg_decode(MSG_LINK_W, answer.data, answer.len, &k->probed, NULL) == 0 &&
           k->probed.type == MSG_PROBED && k->probed.probed.usable && k->probed.probed.lasts;
}

static void finish_kept(struct kept *k)
{
    msg_finish(&k->probed);
    msg_finish(&k->trial);
    buf_finish(&k->text);
}

static void look_for_kept(struct kept_job *job)
{
    if (!read_kept(job->path, &job->kept)) {
        return;
    }
    struct facts now;
    struct view then = job->kept.trial.trial.facts;
    bool same = collect_facts(job, job->kept.probed.probed.runtime, &now) &&
                now.text.len == then.len && memcmp(now.text.data, then.data, then.len) == 0;
    buf_finish(&now.text);
    job->found = same;
    job->outdated = !same;
}

/* Under the lock, so that nothing appears after the loop has given it up or forgotten it. */
static int place_kept(struct kept_job *job, const char *next, struct err *err)
{
    int rc = 0;
    uv_mutex_lock(&job->lock);
    if (job->given_up || job->forgotten) {
        rc = err_set(err, ERR_TIMEOUT, "%s: too late", job->path);
    } else if (rename(next, job->path) < 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", job->path);
    }
    uv_mutex_unlock(&job->lock);
    return rc;
}

/* An unfinished file of another server, living or dead, is removed, and then nothing is kept this
 * time: its writer fails to rename it, or has renamed something that nobody can read. */
static int write_kept(struct kept_job *job, struct view text, struct err *err)
{
    CLEANUP_FREE char *next = alloc_printf("%s.next", job->path);
    CLEANUP_FD int fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        int rc = err_sys(err, ERR_IO, errno, "%s", next);
        unlink(next);
        return rc;
    }
    int rc = fd_write_all(fd, text.data, text.len, err);
    if (rc == 0) {
        rc = place_kept(job, next, err);
    }
    if (rc < 0) {
        unlink(next);
    }
    return rc;
}

static int encode_kept(struct buf *out, struct view facts, struct view answer, struct err *err)
{
    struct msg outer = {.type = MSG_TRIAL};
    outer.trial.facts = facts;
    outer.trial.answer = (struct view_list){&answer, 1};
    return msg_encode(out, &outer, err);
}

static void write_what_was_found(struct kept_job *job)
{
    struct facts f;
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf text;
    buf_init(&text, KEPT_MAX);
    struct view answer = view_bytes(job->answer.data, job->answer.len);
    if (collect_facts(job, view_of(job->runtime), &f) && f.newest_s < job->began_s &&
        encode_kept(&text, view_bytes(f.text.data, f.text.len), answer, &err) == 0) {
        err_ignore(write_kept(job, view_bytes(text.data, text.len), &err));
    }
    buf_finish(&f.text);
}

/* ---- off the loop --------------------------------------------------------------------------- */

static void leave_job(struct kept_job *job)
{
    uv_mutex_lock(&job->lock);
    bool last = --job->users == 0;
    uv_mutex_unlock(&job->lock);
    if (!last) {
        return;
    }
    uv_mutex_destroy(&job->lock);
    finish_kept(&job->kept);
    buf_finish(&job->question.text);
    buf_finish(&job->answer);
    free(job->path);
    free(job->top);
    free(job->boot);
    free(job->worker);
    free(job->agent);
    free(job->dirs);
    free(job->runtime);
    free(job);
}

static void *job_thread(void *arg)
{
    struct kept_job *job = arg;
    job->work(job);
    uv_mutex_lock(&job->lock);
    job->ready = true;
    if (!job->given_up) {
        uv_async_send(&job->async); /* under the lock: the loop closes it after that */
    }
    uv_mutex_unlock(&job->lock);
    leave_job(job);
    return NULL;
}

static void on_job_handle_closed(uv_handle_t *handle)
{
    struct kept_job *job = handle->data;
    if (--job->handles == 0) {
        fleet_host_release(job->host);
        leave_job(job);
    }
}

/* On the loop, once. */
static void end_job(struct kept_job *job, bool found)
{
    LIST_REMOVE(job, node);
    uv_close((uv_handle_t *)&job->async, on_job_handle_closed);
    uv_close((uv_handle_t *)&job->timer, on_job_handle_closed);
    if (job->fn != NULL) {
        job->fn(job->arg, found ? &job->kept.probed.probed : NULL);
    }
}

static void on_job_ready(uv_async_t *async)
{
    struct kept_job *job = async->data;
    uv_mutex_lock(&job->lock); /* until the thread has let go of it */
    uv_mutex_unlock(&job->lock);
    if (uv_is_closing((uv_handle_t *)async)) {
        return;
    }
    if (job->outdated) {
        log_debug("engine: what an earlier server has found does not count any more file=%s",
                  job->path);
    }
    end_job(job, job->found);
}

static uint64_t job_patience_ms(const struct kept_job *job)
{
    return job->host->kept_late_ms > 0 ? job->host->kept_late_ms
           : job->host->stopping       ? ENDING_MS
                                       : LATE_MS;
}

/* What the thread has must not be touched here: it may be at work. */
static void on_job_turn(uv_timer_t *timer)
{
    struct kept_job *job = timer->data;
    if (uv_now(timer->loop) - job->began_ms < job_patience_ms(job)) {
        return;
    }
    uv_mutex_lock(&job->lock);
    job->given_up = !job->ready;
    uv_mutex_unlock(&job->lock);
    if (job->given_up) {
        log_warn("engine: a directory of PATH does not answer, so what a trial has found is %s",
                 job->fn != NULL ? "not used" : "not kept");
        end_job(job, false);
    }
}

static struct kept_job *make_job(struct fleet_host *host, const struct oneshot_target *target)
{
    struct kept_job *job = alloc_one(struct kept_job);
    const char *dirs = getenv("PATH");
    job->host = host;
    job->users = 2;
    uv_mutex_init(&job->lock);
    job->kept = (struct kept){.trial = {.type = MSG_NONE}, .probed = {.type = MSG_NONE}};
    buf_init(&job->kept.text, KEPT_MAX);
    buf_init(&job->answer, LIMIT_ITEM);
    buf_init(&job->question.text, LIMIT_ITEM);
    add_question(&job->question, host, target);
    job->path = name_kept(host, &job->question);
    job->top = alloc_strdup(host->instance->top);
    job->boot = alloc_strdup(record_boot());
    job->worker = alloc_strdup(host->worker_path);
    job->agent = alloc_strdup(host->agent_path);
    job->dirs = alloc_strdup(dirs != NULL ? dirs : "");
    return job;
}

static void start_job(struct kept_job *job, void (*work)(struct kept_job *job))
{
    pthread_t thread;
    job->work = work;
    job->handles = 2;
    uv_async_init(job->host->loop, &job->async, on_job_ready);
    uv_timer_init(job->host->loop, &job->timer);
    job->async.data = job;
    job->timer.data = job;
    uv_update_time(job->host->loop); /* the turn may have begun long ago */
    job->began_ms = uv_now(job->host->loop);
    uv_timer_start(&job->timer, on_job_turn, TURN_MS, TURN_MS);
    LIST_INSERT_HEAD(&job->host->kept_jobs, job, node);
    fleet_host_hold(job->host);
    if (pthread_create(&thread, NULL, job_thread, job) == 0) {
        pthread_detach(thread);
    } else {
        job->users = 1;
        uv_async_send(&job->async);
    }
}

void kept_find(struct fleet_host *host, const struct oneshot_target *target, kept_fn fn, void *arg)
{
    struct kept_job *job = make_job(host, target);
    job->fn = fn;
    job->arg = arg;
    start_job(job, look_for_kept);
}

void kept_note(struct fleet_host *host, const struct oneshot_target *target,
               const struct msg_probed *probed, int64_t began_s)
{
    if (!probed->usable || !probed->lasts) {
        return;
    }
    struct kept_job *job = make_job(host, target);
    struct msg m = {.type = MSG_PROBED};
    m.probed = *probed;
    job->question.incomplete = job->question.incomplete || msg_encode(&job->answer, &m, NULL) < 0;
    job->runtime = alloc_viewdup(probed->runtime);
    job->began_s = began_s;
    start_job(job, write_what_was_found);
}

void kept_forget(const struct fleet_host *host, const struct oneshot_target *target)
{
    struct facts question = {.newest_s = 0};
    buf_init(&question.text, LIMIT_ITEM);
    add_question(&question, host, target);
    CLEANUP_FREE char *path = name_kept(host, &question);
    buf_finish(&question.text);
    struct kept_job *job;
    LIST_FOREACH(job, &host->kept_jobs, node)
    {
        uv_mutex_lock(&job->lock);
        job->forgotten = job->forgotten || strcmp(job->path, path) == 0;
        uv_mutex_unlock(&job->lock);
    }
    unlink(path);
}
