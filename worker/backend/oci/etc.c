/*
 * Programs need a few files of /etc: a name for their uid, a "localhost" that resolves, a dynamic
 * linker's cache that fits the libraries, targets of links into /etc/alternatives such as
 * /usr/bin/awk, and files of a few languages. Only those are made. A sandbox must not see the rest
 * of the host's /etc: accounts, mounts, keys, names of machines.
 */
#include "worker/backend/oci/etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/oci/host/host.h"

#define CACHE_MAX    (8u << 20) /* ld.so.cache of a machine with very many libraries */
#define ACCOUNTS_MAX (256u << 10)
#define CONF_MAX     (64u << 10)
#define RUNTIME_MAX  (1u << 20)
#define ENTRIES_MAX  8192 /* links in /etc/alternatives, files in ld.so.conf.d */

#define PASSWD_USER "user:x:1000:1000:user:/home/user:/bin/sh\n"
#define PASSWD_MINIMAL                                                                             \
    "root:x:0:0:root:/:/bin/false\n"                                                               \
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
#define GROUP_USER    "user:x:1000:\n"
#define GROUP_MINIMAL "root:x:0:\nnogroup:x:65534:\n"
#define HOSTS         "127.0.0.1 localhost sandbox\n::1 localhost\n"

const char *const oci_etc_names[] = {"passwd", "group", "hosts", NULL};

static int report_etc_file(int sys, const char *name, struct err *err)
{
    bool full = sys == ENOSPC || sys == EDQUOT;
    return err_sys(err, full ? ERR_NO_SPACE : ERR_IO, sys, "cannot make %s", name);
}

int oci_put_file(int dir_fd, const char *name, const void *data, size_t len, mode_t mode,
                 struct err *err)
{
    CLEANUP_FD int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        return report_etc_file(errno, name, err);
    }
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return report_etc_file(errno, name, err);
        }
        p += n;
        len -= (size_t)n;
    }
    return fchmod(fd, mode) < 0 ? report_etc_file(errno, name, err) : 0;
}

int oci_put_dir(int dir_fd, const char *name, mode_t mode, struct err *err)
{
    if ((mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST) ||
        fchmodat(dir_fd, name, mode, 0) < 0) {
        return report_etc_file(errno, name, err);
    }
    return 0;
}

int oci_put_link(int dir_fd, const char *name, const char *target, struct err *err)
{
    if (symlinkat(target, dir_fd, name) < 0 && errno != EEXIST) {
        return report_etc_file(errno, name, err);
    }
    return 0;
}

static int put_text(int dir_fd, const char *name, const char *text, struct err *err)
{
    return oci_put_file(dir_fd, name, text, strlen(text), 0644, err);
}

/* Reads a regular file without following a link in its last part; empty if there is none. */
static void read_plain(const char *dir, const char *name, size_t max_bytes, struct buf *out)
{
    buf_init(out, max_bytes);
    char path[PATH_MAX];
    struct stat st;
    struct err err;
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof(path) || lstat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        file_read(path, out, &err) < 0) {
        buf_reset(out, 0);
    }
}

/* A file that may be absent on the host is then absent in the sandbox. */
static int copy_plain(const char *from_dir, const char *name, size_t max_bytes, int to_fd,
                      struct err *err)
{
    CLEANUP_BUF struct buf b;
    read_plain(from_dir, name, max_bytes, &b);
    return b.len > 0 ? oci_put_file(to_fd, name, b.data, b.len, 0644, err) : 0;
}

static int copy_entry(const char *from_dir, const char *name, bool links, int to_fd,
                      struct err *err)
{
    if (!links) {
        return copy_plain(from_dir, name, CONF_MAX, to_fd, err);
    }
    char path[PATH_MAX], target[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", from_dir, name);
    ssize_t len =
        n > 0 && (size_t)n < sizeof(path) ? readlink(path, target, sizeof(target) - 1) : -1;
    if (len <= 0) {
        return 0; /* not a link: none of ours */
    }
    target[len] = '\0';
    return oci_put_link(to_fd, name, target, err);
}

/* Recreates one directory of links, or copies one of small files. */
static int copy_dir(const char *from_dir, bool links, int parent_fd, const char *name,
                    struct err *err)
{
    DIR *from = opendir(from_dir);
    if (from == NULL) {
        return 0;
    }
    int rc = oci_put_dir(parent_fd, name, 0755, err);
    CLEANUP_FD int to_fd = -1;
    if (rc == 0) {
        to_fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = to_fd < 0 ? report_etc_file(errno, name, err) : 0;
    }
    struct dirent *entry;
    for (int i = 0; rc == 0 && i < ENTRIES_MAX && (entry = readdir(from)) != NULL; i++) {
        if (entry->d_name[0] != '.') {
            rc = copy_entry(from_dir, entry->d_name, links, to_fd, err);
        }
    }
    closedir(from);
    return rc;
}

/* Debian keeps files that these languages need in /etc, behind links in /usr. Files that people
 * write for their own programs (php.ini, Renviron.site) and files that not everybody may read are
 * not copied. */
static const char *const runtime_patterns[] = {
    "R/Makeconf",
    "R/Renviron",
    "R/ldpaths",
    "R/repositories",
    "java-*-openjdk/*",
    "java-*-openjdk/*/*",
    "java-*-openjdk/*/*/*",
    "php/*/cli/conf.d/*",
    "php/*/mods-available/*",
    "fonts/*",
    "fonts/conf.d/*",
    "matplotlibrc", /* without it the library does not even load */
    /* certificates: the distribution's pip does not start without them */
    "ssl/cert.pem",
    "ssl/certs/ca-certificates.crt",
    "ssl/certs/ca-bundle.crt",
    "pki/tls/certs/ca-bundle.crt",
    "pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
};

static int copy_runtime_file(const char *path, const char *name, int etc_fd, struct err *err)
{
    struct stat st;
    char parent[PATH_MAX];
    if (lstat(path, &st) < 0 || S_ISDIR(st.st_mode) || (st.st_mode & 0004) == 0) {
        return 0;
    }
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(parent, sizeof(parent), "%.*s", (int)(slash - name), name);
        int rc = oci_put_dir(etc_fd, parent, 0755, err);
        if (rc < 0) {
            return rc;
        }
    }
    char target[PATH_MAX];
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    if (len > 0) {
        target[len] = '\0';
        return oci_put_link(etc_fd, name, target, err);
    }
    CLEANUP_BUF struct buf b;
    buf_init(&b, RUNTIME_MAX);
    /* a larger file cannot be one of these */
    return S_ISREG(st.st_mode) && file_read(path, &b, NULL) == 0
               ? oci_put_file(etc_fd, name, b.data, b.len, 0644, err)
               : 0;
}

static int copy_runtimes(const char *etc, int etc_fd, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(runtime_patterns) / sizeof(runtime_patterns[0]); i++) {
        char pattern[PATH_MAX];
        glob_t found;
        int n = snprintf(pattern, sizeof(pattern), "%s/%s", etc, runtime_patterns[i]);
        if (n < 0 || (size_t)n >= sizeof(pattern) ||
            glob(pattern, GLOB_NOSORT, NULL, &found) != 0) {
            continue;
        }
        for (size_t k = 0; rc == 0 && k < found.gl_pathc && k < ENTRIES_MAX; k++) {
            const char *path = found.gl_pathv[k];
            rc = copy_runtime_file(path, path + strlen(etc) + 1, etc_fd, err);
        }
        globfree(&found);
    }
    return rc;
}

int oci_etc_for_host(const char *fs_root, int etc_fd, struct err *err)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        {"passwd", PASSWD_USER PASSWD_MINIMAL},
        {"group", GROUP_USER GROUP_MINIMAL},
        {"hosts", HOSTS},
        {"hostname", "sandbox\n"},
        {"host.conf", "multi on\n"},
        {"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
                          "protocols: files\nservices: files\n"},
        {"shells", "/bin/sh\n/bin/bash\n"},
        {"profile", "PS1='$ '\numask 022\n"},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        int rc = put_text(etc_fd, files[i].name, files[i].text, err);
        if (rc < 0) {
            return rc;
        }
    }
    char etc[PATH_MAX], sub[PATH_MAX];
    int n = snprintf(etc, sizeof(etc) - 16, "%s/etc", fs_root);
    if (n < 0 || (size_t)n >= sizeof(etc) - 16) {
        return err_set(err, ERR_TOO_BIG, "path is too long: %.64s", fs_root);
    }
    int rc = oci_put_link(etc_fd, "mtab", "/proc/self/mounts", err);
    rc = rc < 0 ? rc : oci_put_link(etc_fd, "os-release", "../usr/lib/os-release", err);
    rc = rc < 0 ? rc : copy_plain(etc, "ld.so.cache", CACHE_MAX, etc_fd, err);
    rc = rc < 0 ? rc : copy_plain(etc, "ld.so.conf", CONF_MAX, etc_fd, err);
    snprintf(sub, sizeof(sub), "%.*s/ld.so.conf.d", n, etc);
    rc = rc < 0 ? rc : copy_dir(sub, false, etc_fd, "ld.so.conf.d", err);
    snprintf(sub, sizeof(sub), "%.*s/alternatives", n, etc);
    rc = rc < 0 ? rc : copy_dir(sub, true, etc_fd, "alternatives", err);
    return rc < 0 ? rc : copy_runtimes(etc, etc_fd, err);
}

uint64_t oci_etc_stamp_file(const char *path, uint64_t hash)
{
    struct stat st;
    if (lstat(path, &st) < 0) {
        return hash;
    }
    hash = oci_hash(hash, path, strlen(path) + 1);
    hash = oci_hash(hash, &st.st_ino, sizeof(st.st_ino));
    hash = oci_hash(hash, &st.st_size, sizeof(st.st_size));
    hash = oci_hash(hash, &st.st_mtim.tv_sec, sizeof(st.st_mtim.tv_sec));
    return oci_hash(hash, &st.st_mtim.tv_nsec, sizeof(st.st_mtim.tv_nsec));
}

/* Uses the same patterns as the copying, so that it covers every copied file. */
uint64_t oci_etc_stamp(const char *fs_root, uint64_t hash)
{
    static const char *const sources[] = {"ld.so.cache", "ld.so.conf", "ld.so.conf.d",
                                          "alternatives"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        int n = snprintf(path, sizeof(path), "%s/etc/%s", fs_root, sources[i]);
        hash = n > 0 && (size_t)n < sizeof(path) ? oci_etc_stamp_file(path, hash) : hash;
    }
    for (size_t i = 0; i < sizeof(runtime_patterns) / sizeof(runtime_patterns[0]); i++) {
        glob_t found;
        int n = snprintf(path, sizeof(path), "%s/etc/%s", fs_root, runtime_patterns[i]);
        if (n < 0 || (size_t)n >= sizeof(path) || glob(path, 0, NULL, &found) != 0) {
            continue;
        }
        for (size_t k = 0; k < found.gl_pathc && k < ENTRIES_MAX; k++) {
            hash = oci_etc_stamp_file(found.gl_pathv[k], hash);
        }
        globfree(&found);
    }
    return hash;
}

/* The first matching line of an account file wins. So our entries come first and name uid 1000, and
 * the image's other accounts keep their names. */
static int put_accounts(const char *image_etc, const char *name, const char *ours,
                        const char *minimal, int out_fd, struct err *err)
{
    CLEANUP_BUF struct buf theirs;
    read_plain(image_etc, name, ACCOUNTS_MAX, &theirs);
    CLEANUP_BUF struct buf all;
    buf_init(&all, ACCOUNTS_MAX + 1024);
    int rc = buf_add_str(&all, ours, err);
    if (rc == 0) {
        rc = theirs.len > 0 ? buf_add(&all, theirs.data, theirs.len, err)
                            : buf_add_str(&all, minimal, err);
    }
    return rc < 0 ? rc : oci_put_file(out_fd, name, all.data, all.len, 0644, err);
}

int oci_etc_for_image(const char *image_etc, int out_fd, struct err *err)
{
    int rc = put_accounts(image_etc, "passwd", PASSWD_USER, PASSWD_MINIMAL, out_fd, err);
    rc = rc < 0 ? rc : put_accounts(image_etc, "group", GROUP_USER, GROUP_MINIMAL, out_fd, err);
    return rc < 0 ? rc : put_text(out_fd, "hosts", HOSTS, err);
}
