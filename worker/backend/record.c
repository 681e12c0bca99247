/*
 * A pid may be reused before the record is read. Start time and boot id make it unique, and a pidfd
 * that is opened first and compared afterwards keeps it unique while it is used.
 */
#include "worker/backend/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"

#define MAGIC      "cloister-oci 1"
#define RECORD_MAX (4 * PATH_MAX)
#define BOOT_SIZE  64

static const char *const states[] = {
    [OCI_RECORD_RUNNING] = "running",
    [OCI_RECORD_STARTING] = "starting",
    [OCI_RECORD_UNFINISHED] = "unfinished",
};

/* Sets "" if the system has no boot id; an error if reading it failed. */
static int boot_id(char out[BOOT_SIZE], struct err *err)
{
    CLEANUP_BUF struct buf b;
    buf_init(&b, BOOT_SIZE - 1);
    out[0] = '\0';
    int rc = file_read("/proc/sys/kernel/random/boot_id", &b, err);
    if (rc == 0 && buf_cstr(&b) != NULL) {
        snprintf(out, BOOT_SIZE, "%.*s", (int)strcspn(buf_cstr(&b), "\n"), buf_cstr(&b));
    }
    return rc == -ERR_FILE_NOT_FOUND ? 0 : rc;
}

static bool is_one_line(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20) {
            return false;
        }
    }
    return true;
}

int oci_record_write(const char *path, const struct oci_record *record, struct err *err)
{
    if (!is_one_line(record->runtime) || !is_one_line(record->image)) {
        return err_set(err, ERR_INVALID, "control characters in the path of a runtime or image");
    }
    char boot[BOOT_SIZE];
    int rc = boot_id(boot, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *text = alloc_printf(
        MAGIC "\nboot %s\nstate %s\npid %d\nstart %llu\nmode %llu\nruntime %s\nimage %s\nend\n",
        boot, states[record->state], (int)record->pid, (unsigned long long)record->start,
        (unsigned long long)record->mode, record->runtime, record->image);
    CLEANUP_FREE char *tmp = alloc_printf("%s.tmp", path);
    CLEANUP_FD int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, errno == ENOSPC ? ERR_NO_SPACE : ERR_IO, errno, "cannot write %s", tmp);
    }
    rc = fd_write_all(fd, text, strlen(text), err);
    if (rc == 0 && rename(tmp, path) < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot write %s", path);
    }
    return rc;
}

/* Returns the value of the next line "key value" and moves the cursor; NULL if the key differs. */
static char *take(char **cursor, const char *key)
{
    char *line = *cursor;
    char *end = strchr(line, '\n');
    size_t len = strlen(key);
    if (end == NULL || strncmp(line, key, len) != 0 || line[len] != ' ') {
        return NULL;
    }
    *end = '\0';
    *cursor = end + 1;
    return line + len + 1;
}

static bool take_number(char **cursor, const char *key, uint64_t max, uint64_t *ret)
{
    struct err err;
    const char *text = take(cursor, key);
    return text != NULL && str_to_u64(text, 0, max, ret, &err) == 0;
}

static bool take_text(char **cursor, const char *key, char out[PATH_MAX])
{
    struct err err;
    const char *text = take(cursor, key);
    return text != NULL && str_copy(out, PATH_MAX, text, &err) == 0;
}

static bool take_state(char **cursor, enum oci_record_state *ret)
{
    const char *word = take(cursor, "state");
    for (size_t i = 0; word != NULL && i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(word, states[i]) == 0) {
            *ret = (enum oci_record_state)i;
            return true;
        }
    }
    return false;
}

int oci_record_read(const char *path, struct oci_record *ret_record, struct err *err)
{
    CLEANUP_BUF struct buf b;
    buf_init(&b, RECORD_MAX);
    int rc = file_read(path, &b, err);
    if (rc < 0) {
        return rc;
    }
    if (buf_cstr(&b) == NULL) {
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    }
    if (b.len < sizeof(MAGIC) || memcmp(b.data, MAGIC "\n", sizeof(MAGIC)) != 0) {
        return err_set(err, ERR_INVALID, "%s is not a container record", path);
    }
    char *cursor = (char *)b.data + sizeof(MAGIC);
    char boot[BOOT_SIZE];
    rc = boot_id(boot, err);
    if (rc < 0) {
        return rc;
    }
    const char *then = take(&cursor, "boot");
    struct oci_record *r = alloc_one(struct oci_record);
    uint64_t pid = 0;
    bool good = then != NULL && take_state(&cursor, &r->state) &&
                take_number(&cursor, "pid", INT_MAX, &pid) &&
                take_number(&cursor, "start", UINT64_MAX, &r->start) &&
                take_number(&cursor, "mode", UINT64_MAX, &r->mode) &&
                take_text(&cursor, "runtime", r->runtime) &&
                take_text(&cursor, "image", r->image) && strcmp(cursor, "end\n") == 0 && pid > 1;
    if (good && strcmp(then, boot) != 0) {
        rc = err_set(err, ERR_GONE, "the container did not survive a reboot");
    } else if (!good) {
        rc = err_set(err, ERR_INVALID, "%s is damaged", path);
    } else {
        r->pid = (pid_t)pid;
        *ret_record = *r;
    }
    free(r);
    return rc;
}

/* Returns 1 if it lives, 0 if it is gone or a zombie, -1 if the host lacks resources to tell. */
static int look_at(pid_t pid, uint64_t *ret_start)
{
    char path[48];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    CLEANUP_BUF struct buf b;
    struct err err;
    buf_init(&b, 4096);
    if (file_read(path, &b, &err) < 0 && err.sys != ENOENT && err.sys != ESRCH) {
        return -1;
    }
    const char *text = buf_cstr(&b);
    if (text == NULL) {
        return -1;
    }
    /* the second field is the name in parentheses, which may contain parentheses and blanks */
    const char *after = strrchr(text, ')');
    char state;
    unsigned long long start;
    if (after == NULL ||
        sscanf(after,
               ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %llu",
               &state, &start) != 2 ||
        state == 'Z' || state == 'X') {
        return 0;
    }
    *ret_start = start;
    return 1;
}

bool oci_process_start(pid_t pid, uint64_t *ret_start)
{
    return look_at(pid, ret_start) == 1;
}

bool oci_process_gone(pid_t pid, uint64_t start)
{
    uint64_t now;
    int seen = look_at(pid, &now);
    return seen == 0 || (seen == 1 && now != start);
}

int oci_process_open(pid_t pid, uint64_t start)
{
    CLEANUP_FD int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    uint64_t now;
    if (fd < 0 || !oci_process_start(pid, &now) || now != start) {
        return -1;
    }
    return steal_fd(&fd);
}

void oci_process_kill(int pid_fd)
{
    (void)!syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
}
