/*
 * Everything is derived from /proc/self/mountinfo and /proc/<pid>/cgroup, because hosts mount
 * controllers at different places and in different combinations. A host counts as version 2 only if
 * no version 1 controller is mounted: on "hybrid" hosts the unified hierarchy exists but has no
 * controllers. Runtimes decide in the same way.
 *
 * Root makes the group of a sandbox at the top, as "/cloister-<id>", so that no parent group is
 * left over. An ordinary user can make groups only below a delegated one, so the group becomes a
 * sibling of our own: a group with processes may not have children with controllers. The user's
 * service manager makes scopes elsewhere, below the group that was delegated to it, which often has
 * fewer controllers: systemd handed on no "cpu" before version 250.
 *
 * Removing groups is a backstop for the runtime's own delete. If a group still has processes, its
 * runtime died half-way, so they are killed here.
 */
#include "worker/backend/oci/host/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cgroup.h"
#include "common/cleanup.h"
#include "common/fd.h"

#define PROC_FILE_MAX (1u << 20) /* mountinfo of a host with thousands of containers */
#define SOCKETS_FILE  "memory.kmem.tcp.limit_in_bytes" /* of UDP, too, in spite of its name */
#define IO_FILES      "blkio.throttle."                /* of version 1 */
#define FIGURES_MAX   (16u << 10)
#define KILLS_MAX     512 /* of the file that counts kills for memory */
#define KILLS_KEY     "oom_kill"
#define QUOTA_MIN_US  1000 /* the kernel refuses less */
#define NEST_MAX      4    /* levels below a sandbox's group: runtimes make one at most */

/* Reads a small file into a fresh NUL-terminated string; NULL if that cannot be done. */
static char *read_cgroup_file(const char *path, size_t max_bytes)
{
    struct buf b;
    struct err err;
    buf_init(&b, max_bytes);
    char *text = NULL;
    if (file_read(path, &b, &err) == 0) {
        const char *data = buf_cstr(&b);
        text = data != NULL ? strdup(data) : NULL;
    }
    buf_finish(&b);
    return text;
}

/* snprintf that fails with "" if the result is truncated. */
static bool join_path(char *out, size_t size, const char *a, const char *b, const char *c)
{
    int n = snprintf(out, size, "%s%s%s", a, b, c);
    if (n < 0 || (size_t)n >= size) {
        out[0] = '\0';
        return false;
    }
    return true;
}

static char *next_line(char **cursor)
{
    char *line = *cursor;
    if (line == NULL || *line == '\0') {
        return NULL;
    }
    char *end = strchr(line, '\n');
    if (end != NULL) {
        *end = '\0';
        *cursor = end + 1;
    } else {
        *cursor = line + strlen(line);
    }
    return line;
}

static bool has_controller(const struct oci_cgroup_mount *m, const char *name)
{
    char needle[32];
    return join_path(needle, sizeof(needle), ",", name, ",") &&
           strstr(m->controllers, needle) != NULL;
}

static const struct oci_cgroup_mount *find_mount(const struct oci_cgroup_host *h, const char *name)
{
    for (size_t i = 0; i < h->mount_count; i++) {
        const struct oci_cgroup_mount *m = &h->mounts[i];
        if (name == NULL ? m->controllers[0] == '\0' : has_controller(m, name)) {
            return m;
        }
    }
    return NULL;
}

/* True if the mount point shows this mount, and not another one over it or over a parent. */
static bool is_visible(const char *fs_root, const char *point, unsigned major_no, unsigned minor_no)
{
    struct stat st;
    /* test files have no device numbers to compare */
    return fs_root[0] != '\0' ||
           (stat(point, &st) == 0 && st.st_dev == makedev(major_no, minor_no));
}

/* "36 35 98:0 /root /point options... - cgroup source rw,memory" */
static void read_mount_line(const char *fs_root, char *line, struct oci_cgroup_host *h)
{
    char *tail = strstr(line, " - ");
    if (tail == NULL || h->mount_count == OCI_CGROUP_MOUNTS_MAX) {
        return;
    }
    char type[16], options[512], root[OCI_CGROUP_PATH_MAX], point[OCI_CGROUP_PATH_MAX];
    unsigned major_no, minor_no;
    if (sscanf(tail, " - %15s %*s %511s", type, options) != 2 ||
        sscanf(line, "%*s %*s %u:%u %511s %511s", &major_no, &minor_no, root, point) != 4) {
        return;
    }
    bool unified = strcmp(type, "cgroup2") == 0;
    if ((!unified && strcmp(type, "cgroup") != 0) ||
        !is_visible(fs_root, point, major_no, minor_no)) {
        return;
    }
    struct oci_cgroup_mount *m = &h->mounts[h->mount_count];
    memset(m, 0, sizeof(*m));
    memcpy(m->root, root, sizeof(m->root));
    memcpy(m->point, point, sizeof(m->point));
    if (!unified && !join_path(m->controllers, sizeof(m->controllers), ",", options, ",")) {
        return;
    }
    /* the same hierarchy may be mounted twice; the first place is used */
    for (size_t i = 0; i < h->mount_count; i++) {
        if (strcmp(h->mounts[i].controllers, m->controllers) == 0) {
            return;
        }
    }
    h->mount_count++;
}

/* Path of a process in one hierarchy, from its /proc/<pid>/cgroup; false if it is not listed. */
static bool membership(const char *text, const char *controller, char *out, size_t size)
{
    CLEANUP_FREE char *copy = text != NULL ? strdup(text) : NULL;
    char *cursor = copy;
    for (char *line = next_line(&cursor); line != NULL; line = next_line(&cursor)) {
        char *names = strchr(line, ':');
        char *path = names != NULL ? strchr(names + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        names++;
        char list[256], needle[32];
        bool match = controller == NULL
                         ? names[0] == '\0'
                         : join_path(list, sizeof(list), ",", names, ",") &&
                               join_path(needle, sizeof(needle), ",", controller, ",") &&
                               strstr(list, needle) != NULL;
        if (match) {
            return join_path(out, size, path, "", "");
        }
    }
    return false;
}

static bool cgroup_file_exists(const char *fs_root, const char *point, const char *path,
                               const char *name)
{
    char dir[OCI_CGROUP_PATH_MAX * 2], full[OCI_CGROUP_PATH_MAX * 3];
    return join_path(dir, sizeof(dir), fs_root, point, path) &&
           join_path(full, sizeof(full), dir, "/", name) && access(full, F_OK) == 0;
}

static void detect_v1(const char *fs_root, struct oci_cgroup_host *h)
{
    const struct oci_cgroup_mount *memory = find_mount(h, "memory");
    struct oci_controllers *has = &h->groups;
    has->memory = memory != NULL;
    has->swap = memory != NULL &&
                cgroup_file_exists(fs_root, memory->point, "", "memory.memsw.limit_in_bytes");
    h->sockets = memory != NULL && cgroup_file_exists(fs_root, memory->point, "", SOCKETS_FILE);
    has->cpu = find_mount(h, "cpu") != NULL;
    has->pids = find_mount(h, "pids") != NULL;
    const struct oci_cgroup_mount *io = find_mount(h, "blkio");
    has->io = io != NULL && cgroup_file_exists(fs_root, io->point, "", IO_FILES "read_bps_device");
    h->scopes = *has;
}

/* What a group of version 2 can give to those below it; false if there is no such group. */
static bool read_controllers(const char *fs_root, const char *point, const char *group,
                             struct oci_controllers *ret)
{
    char path[OCI_CGROUP_PATH_MAX * 2], file[OCI_CGROUP_PATH_MAX * 3], list[256];
    if (!join_path(path, sizeof(path), fs_root, point, group) ||
        !join_path(file, sizeof(file), path, "/cgroup.controllers", "")) {
        return false;
    }
    CLEANUP_FREE char *text = read_cgroup_file(file, FIGURES_MAX);
    char *cursor = text;
    char *line = next_line(&cursor);
    if (text == NULL || !join_path(list, sizeof(list), " ", line != NULL ? line : "", " ")) {
        return false;
    }
    *ret = (struct oci_controllers){
        .memory = strstr(list, " memory ") != NULL,
        .cpu = strstr(list, " cpu ") != NULL,
        .pids = strstr(list, " pids ") != NULL,
        .io = strstr(list, " io ") != NULL,
    };
    return true;
}

static void detect_v2(const char *fs_root, uid_t uid, const char *own, struct oci_cgroup_host *h)
{
    const struct oci_cgroup_mount *m = find_mount(h, NULL);
    if (uid != 0) {
        /* the parent of our own group; the root group has none */
        const char *cut = strrchr(own, '/');
        snprintf(h->parent, sizeof(h->parent), "%.*s", cut != NULL ? (int)(cut - own) : 0, own);
    }
    read_controllers(fs_root, m->point, h->parent, &h->groups);
    char manager[OCI_CGROUP_PATH_MAX];
    snprintf(manager, sizeof(manager), "/user.slice/user-%u.slice/user@%u.service", (unsigned)uid,
             (unsigned)uid);
    if (uid == 0 || !read_controllers(fs_root, m->point, manager, &h->scopes)) {
        h->scopes = h->groups;
    }
    /* the root group has no memory.swap.max, so our own group is asked */
    bool top = own[0] == '\0' || strcmp(own, "/") == 0;
    bool swap = top || cgroup_file_exists(fs_root, m->point, own, "memory.swap.max") ||
                !cgroup_file_exists(fs_root, m->point, own, "memory.max");
    h->groups.swap = swap && h->groups.memory;
    h->scopes.swap = swap && h->scopes.memory;
}

void oci_cgroup_detect(const char *fs_root, uid_t uid, struct oci_cgroup_host *ret_host)
{
    struct oci_cgroup_host *h = ret_host;
    memset(h, 0, sizeof(*h));
    char path[OCI_CGROUP_PATH_MAX];
    join_path(path, sizeof(path), fs_root, "/proc/self/mountinfo", "");
    CLEANUP_FREE char *mounts = read_cgroup_file(path, PROC_FILE_MAX);
    char *cursor = mounts;
    for (char *line = next_line(&cursor); line != NULL; line = next_line(&cursor)) {
        read_mount_line(fs_root, line, h);
    }

    bool v1 = find_mount(h, "memory") != NULL || find_mount(h, "cpu") != NULL ||
              find_mount(h, "pids") != NULL;
    const struct oci_cgroup_mount *at = v1 ? NULL : find_mount(h, NULL);
    if (v1) {
        h->version = OCI_CGROUP_VERSION_1;
        detect_v1(fs_root, h);
        at = find_mount(h, h->groups.memory ? "memory" : h->groups.pids ? "pids" : "cpu");
    } else if (at != NULL) {
        h->version = OCI_CGROUP_VERSION_2;
        char own[OCI_CGROUP_PATH_MAX] = "";
        join_path(path, sizeof(path), fs_root, "/proc/self/cgroup", "");
        CLEANUP_FREE char *text = read_cgroup_file(path, PROC_FILE_MAX);
        if (!membership(text, NULL, own, sizeof(own))) {
            own[0] = '\0';
        }
        detect_v2(fs_root, uid, own, h);
    }
    char parent[OCI_CGROUP_PATH_MAX * 2];
    h->parent_writable = at != NULL &&
                         join_path(parent, sizeof(parent), fs_root, at->point, h->parent) &&
                         access(parent, W_OK) == 0;
}

struct oci_controllers oci_controllers_of(const struct oci_cgroup_host *host, enum oci_cgroups by)
{
    switch (by) {
    case OCI_CGROUPS_FS:
        return host->groups;
    case OCI_CGROUPS_SYSTEMD:
        return host->scopes;
    default:
        return (struct oci_controllers){.memory = false};
    }
}

/* Directory of one hierarchy in which the process is; "" unless it is the container's. */
static void locate(const char *fs_root, const struct oci_cgroup_host *h, const char *text,
                   const char *controller, const char *container, char *out)
{
    out[0] = '\0';
    char path[OCI_CGROUP_PATH_MAX];
    const struct oci_cgroup_mount *m = find_mount(h, controller);
    if (m == NULL || !membership(text, controller, path, sizeof(path)) ||
        strstr(path, container) == NULL) {
        return;
    }
    const char *below = path;
    size_t root_len = strlen(m->root);
    if (root_len > 1 && strncmp(path, m->root, root_len) == 0) {
        below += root_len;
    }
    join_path(out, OCI_CGROUP_PATH_MAX, fs_root, m->point, below);
}

/* The groups of a process: /proc/<pid>/cgroup; NULL if it is gone. */
static char *read_groups(const char *fs_root, pid_t pid)
{
    char file[OCI_CGROUP_PATH_MAX];
    int n = snprintf(file, sizeof(file), "%s/proc/%d/cgroup", fs_root, (int)pid);
    return n > 0 && (size_t)n < sizeof(file) ? read_cgroup_file(file, PROC_FILE_MAX) : NULL;
}

bool oci_cgroup_find(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                     const char *container, struct oci_cgroup_dirs *ret_dirs)
{
    memset(ret_dirs, 0, sizeof(*ret_dirs));
    CLEANUP_FREE char *text = read_groups(fs_root, pid);
    if (text == NULL) {
        return false;
    }
    ret_dirs->unified = host->version == OCI_CGROUP_VERSION_2;
    if (ret_dirs->unified) {
        locate(fs_root, host, text, NULL, container, ret_dirs->memory);
        memcpy(ret_dirs->cpu, ret_dirs->memory, sizeof(ret_dirs->cpu));
        memcpy(ret_dirs->pids, ret_dirs->memory, sizeof(ret_dirs->pids));
        memcpy(ret_dirs->io, ret_dirs->memory, sizeof(ret_dirs->io));
    } else {
        locate(fs_root, host, text, "memory", container, ret_dirs->memory);
        locate(fs_root, host, text, "cpuacct", container, ret_dirs->cpu);
        locate(fs_root, host, text, "pids", container, ret_dirs->pids);
        locate(fs_root, host, text, "blkio", container, ret_dirs->io);
    }
    return ret_dirs->memory[0] != '\0' || ret_dirs->cpu[0] != '\0' || ret_dirs->pids[0] != '\0';
}

static int write_group_text(const char *dir, const char *name, const char *text, enum err_code code,
                            struct err *err)
{
    char path[OCI_CGROUP_PATH_MAX * 2];
    if (!join_path(path, sizeof(path), dir, "/", name)) {
        return err_set(err, code, "the name of a control group is too long: %.256s", dir);
    }
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, code, errno, "%s", path);
    }
    int rc = fd_write_all(fd, text, strlen(text), err);
    return rc < 0 ? err_wrap(err, "%s", path) : 0;
}

static int write_group_file(const char *dir, const char *name, uint64_t value, enum err_code code,
                            struct err *err)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return write_group_text(dir, name, text, code, err);
}

int oci_cgroup_join(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                    const char *container, pid_t helper, struct err *err)
{
    /* version 1 may have the two of the processor apart */
    static const char *const controllers[] = {"memory", "cpu", "cpuacct", "pids"};
    bool unified = host->version == OCI_CGROUP_VERSION_2;
    CLEANUP_FREE char *text = read_groups(fs_root, pid);
    char dir[OCI_CGROUP_PATH_MAX];
    bool any = false;
    for (size_t i = 0; text != NULL && i < (unified ? 1 : sizeof(controllers) / sizeof(char *));
         i++) {
        locate(fs_root, host, text, unified ? NULL : controllers[i], container, dir);
        any = any || dir[0] != '\0';
        if (dir[0] != '\0' &&
            write_group_file(dir, "cgroup.procs", (uint64_t)helper, ERR_ENGINE, err) < 0) {
            return -err->code;
        }
    }
    return any ? 0 : err_set(err, ERR_ENGINE, "%s has no control group of its own", container);
}

/* The number after `key` at the start of a line, or the first number if key is NULL. Changes the
 * text. */
static uint64_t figure_in(char *text, const char *key)
{
    char *cursor = text;
    for (char *line = next_line(&cursor); line != NULL; line = next_line(&cursor)) {
        unsigned long long value;
        char word[64];
        if (key == NULL && sscanf(line, "%llu", &value) == 1) {
            return value;
        }
        if (key != NULL && sscanf(line, "%63s %llu", word, &value) == 2 && strcmp(word, key) == 0) {
            return value;
        }
    }
    return 0;
}

static uint64_t figure(const char *dir, const char *name, const char *key)
{
    char path[OCI_CGROUP_PATH_MAX * 2];
    if (dir[0] == '\0' || !join_path(path, sizeof(path), dir, "/", name)) {
        return 0;
    }
    CLEANUP_FREE char *text = read_cgroup_file(path, FIGURES_MAX);
    return figure_in(text, key);
}

static const char *kills_file(const struct oci_cgroup_dirs *dirs)
{
    return dirs->unified ? "memory.events" : "memory.oom_control";
}

int oci_cgroup_open_kills(const struct oci_cgroup_dirs *dirs)
{
    char path[OCI_CGROUP_PATH_MAX * 2];
    if (dirs->memory[0] == '\0' ||
        !join_path(path, sizeof(path), dirs->memory, "/", kills_file(dirs))) {
        return -1;
    }
    return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t oci_cgroup_kills(int fd)
{
    char text[KILLS_MAX];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    return figure_in(text, KILLS_KEY);
}

int oci_cgroup_limit_sockets(const struct oci_cgroup_dirs *dirs, uint64_t bytes, struct err *err)
{
    return write_group_file(dirs->memory, SOCKETS_FILE, bytes, ERR_IO, err);
}

int oci_cgroup_limit_io(const struct oci_cgroup_dirs *dirs, const char *disk,
                        const struct backend_limits *limits, struct err *err)
{
    const struct {
        const char *key, *file; /* in version 2, and in version 1 */
        uint64_t value;
    } rows[] = {
        {"rbps", IO_FILES "read_bps_device", limits->io_read_bytes},
        {"wbps", IO_FILES "write_bps_device", limits->io_write_bytes},
        {"riops", IO_FILES "read_iops_device", limits->io_ops},
        {"wiops", IO_FILES "write_iops_device", limits->io_ops},
    };
    if (dirs->io[0] == '\0') {
        return err_set(err, ERR_IO, "its control group was not found");
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[96];
        if (rows[i].value > 0) {
            snprintf(text, sizeof(text), "%s %s%s%llu", disk, dirs->unified ? rows[i].key : "",
                     dirs->unified ? "=" : "", (unsigned long long)rows[i].value);
            rc = write_group_text(dirs->io, dirs->unified ? "io.max" : rows[i].file, text, ERR_IO,
                                  err);
        }
    }
    return rc;
}

uint64_t oci_cgroup_quota_us(uint64_t cpu_milli)
{
    uint64_t quota = cpu_milli * (OCI_CGROUP_PERIOD_US / 1000);
    return quota < QUOTA_MIN_US ? QUOTA_MIN_US : quota;
}

static int change_cpu(const char *dir, bool unified, uint64_t cpu_milli, struct err *err)
{
    char text[48];
    unsigned long long quota = oci_cgroup_quota_us(cpu_milli);
    snprintf(text, sizeof(text), unified ? "%llu %u" : "%llu", quota, OCI_CGROUP_PERIOD_US);
    return write_group_text(dir, unified ? "cpu.max" : "cpu.cfs_quota_us", text, ERR_IO, err);
}

/* In version 1 the limit of memory may never be above that of memory with swap, so which one is
 * written first depends on the direction. In version 2 the limit of swap is one of its own, and
 * stays. */
static int change_memory(const char *dir, bool unified, const struct oci_cgroup_change *c,
                         struct err *err)
{
    static const char with_swap[] = "memory.memsw.limit_in_bytes";
    static const char alone[] = "memory.limit_in_bytes";
    if (unified) {
        return write_group_file(dir, "memory.max", c->memory_bytes, ERR_IO, err);
    }
    bool more = c->memory_bytes > c->memory_from;
    int rc = c->swap && more ? write_group_file(dir, with_swap, c->memory_bytes, ERR_IO, err) : 0;
    rc = rc < 0 ? rc : write_group_file(dir, alone, c->memory_bytes, ERR_IO, err);
    return rc == 0 && c->swap && !more
               ? write_group_file(dir, with_swap, c->memory_bytes, ERR_IO, err)
               : rc;
}

int oci_cgroup_change(const char *fs_root, const struct oci_cgroup_host *host, pid_t pid,
                      const char *container, const struct oci_cgroup_change *change,
                      struct err *err)
{
    bool unified = host->version == OCI_CGROUP_VERSION_2;
    CLEANUP_FREE char *text = read_groups(fs_root, pid);
    char memory[OCI_CGROUP_PATH_MAX] = "", cpu[OCI_CGROUP_PATH_MAX] = "";
    if (text != NULL) {
        locate(fs_root, host, text, unified ? NULL : "memory", container, memory);
        locate(fs_root, host, text, unified ? NULL : "cpu", container, cpu);
    }
    if ((change->memory && memory[0] == '\0') || (change->cpu && cpu[0] == '\0')) {
        return err_set(err, ERR_CONFIG, "%s has no control group of its own", container);
    }
    uint64_t had = figure(memory, unified ? "memory.max" : "memory.limit_in_bytes", NULL);
    if (change->memory && had != change->memory_from) {
        return err_set(err, ERR_CONFIG, "the memory of %s is not limited by its control group",
                       container);
    }
    int rc = change->cpu ? change_cpu(cpu, unified, change->cpu_milli, err) : 0;
    return rc == 0 && change->memory ? change_memory(memory, unified, change, err) : rc;
}

void oci_cgroup_usage(const struct oci_cgroup_dirs *dirs, struct backend_usage *ret_usage)
{
    if (dirs->unified) {
        *ret_usage = (struct backend_usage){
            .memory_bytes = figure(dirs->memory, "memory.current", NULL),
            .cpu_us = figure(dirs->cpu, "cpu.stat", "usage_usec"),
            .pids = figure(dirs->pids, "pids.current", NULL),
            .oom_kills = figure(dirs->memory, kills_file(dirs), KILLS_KEY),
        };
        return;
    }
    *ret_usage = (struct backend_usage){
        .memory_bytes = figure(dirs->memory, "memory.usage_in_bytes", NULL),
        .cpu_us = figure(dirs->cpu, "cpuacct.usage", NULL) / 1000,
        .pids = figure(dirs->pids, "pids.current", NULL),
        .oom_kills = figure(dirs->memory, kills_file(dirs), KILLS_KEY),
    };
}

static bool remove_group(const char *dir, int nest)
{
    struct stat st;
    if (lstat(dir, &st) < 0) {
        return true;
    }
    if (rmdir(dir) == 0 || errno == ENOENT) {
        return true;
    }
    cgroup_kill(dir);
    DIR *d = nest < NEST_MAX ? opendir(dir) : NULL;
    if (d != NULL) {
        struct dirent *entry;
        while ((entry = readdir(d)) != NULL) {
            char child[OCI_CGROUP_PATH_MAX * 2];
            if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
                join_path(child, sizeof(child), dir, "/", entry->d_name)) {
                remove_group(child, nest + 1);
            }
        }
        closedir(d);
    }
    return rmdir(dir) == 0 || errno == ENOENT;
}

bool oci_cgroup_remove(const char *fs_root, const struct oci_cgroup_host *host,
                       const char *container)
{
    bool clean = true;
    for (size_t i = 0; i < host->mount_count; i++) {
        char top[OCI_CGROUP_PATH_MAX * 2], dir[OCI_CGROUP_PATH_MAX * 3];
        if (join_path(top, sizeof(top), fs_root, host->mounts[i].point, host->parent) &&
            join_path(dir, sizeof(dir), top, "/", container)) {
            clean = remove_group(dir, 0) && clean;
        }
    }
    return clean;
}
