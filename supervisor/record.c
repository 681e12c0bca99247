/*
 * The record is written before OPEN is sent and the note before the worker says hello, so whatever
 * moment a server dies in, what it leaves can be named.
 *
 * A pid alone names nobody: it may belong to another program by the time it is read. Together with
 * the process's start time it does, within one boot, and another boot has no process with that
 * start time but by a coincidence of 10 ms. To be exact the process is held by a pidfd while its
 * start time is compared. Where the system has no such thing, nothing is killed: a left-over worker
 * ends by its lifeline.
 */
#include "supervisor/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/codec.h"
#include "supervisor/fleet_host.h"
#include "supervisor/worker_spawn.h"

int record_save(struct fleet_host *host, const char *dir, const struct msg *open_message,
                disk_done_fn done, void *arg, struct err *err)
{
    CLEANUP_BUF struct buf frame;
    buf_init(&frame, LIMIT_FRAME + 4);
    int rc = msg_encode_frame(&frame, open_message, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *path = alloc_printf("%s/record", dir);
    disk_write(host, path, view_bytes(frame.data, frame.len), done, arg);
    return 0;
}

void record_place_finish(struct record_place *place)
{
    free(place->backend);
    free(place->engine);
    free(place->runtime);
}

int record_load(const char *dir, struct record_place *ret, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/record", dir);
    CLEANUP_BUF struct buf frame;
    buf_init(&frame, LIMIT_FRAME + 4);
    int rc = file_read(path, &frame, err);
    if (rc < 0) {
        return rc;
    }
    struct view payload;
    size_t used;
    rc = frame_next(frame.data, frame.len, LIMIT_FRAME, &payload, &used, err);
    if (rc == 0) {
        return err_set(err, ERR_PROTOCOL, "%s is cut off", path);
    }
    struct msg m = {.type = MSG_NONE};
    if (rc > 0) {
        rc = msg_decode(MSG_LINK_W, payload.data, payload.len, &m, err);
    }
    if (rc < 0) {
        return err_wrap(err, "%s", path);
    }
    if (m.type != MSG_OPEN) {
        msg_finish(&m);
        return err_set(err, ERR_PROTOCOL, "%s holds no sandbox", path);
    }
    ret->backend = alloc_viewdup(m.open.backend);
    ret->engine = alloc_viewdup(m.open.engine);
    ret->runtime = alloc_viewdup(m.open.runtime);
    msg_finish(&m);
    return 0;
}

int record_save_worker(const char *dir, int pid, uint64_t generation, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/worker", dir);
    CLEANUP_FREE char *text = alloc_printf("%d %" PRIu64 " %" PRIu64 "\n", pid,
                                           worker_process_start_time(pid), generation);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", path);
    }
    return fd_write_all(fd, text, strlen(text), err);
}

/* Cuts the next blank-separated word off *rest. */
static bool next_number(char **rest, uint64_t *ret)
{
    char *word = *rest;
    size_t len = strcspn(word, " \n");
    *rest = word + len + (word[len] != '\0');
    word[len] = '\0';
    return str_to_u64(word, 0, UINT64_MAX, ret, NULL) == 0;
}

bool record_kill_worker(const char *dir)
{
    bool killed = false;
#ifdef SYS_pidfd_open
    CLEANUP_FREE char *path = alloc_printf("%s/worker", dir);
    CLEANUP_BUF struct buf note;
    buf_init(&note, 256);
    if (file_read(path, &note, NULL) < 0 || buf_cstr(&note) == NULL) {
        return false;
    }
    char *rest = (char *)note.data;
    uint64_t pid;
    uint64_t start;
    if (!next_number(&rest, &pid) || !next_number(&rest, &start) || pid < 2 || pid > INT32_MAX ||
        start == 0) {
        return false;
    }
    CLEANUP_FD int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (process >= 0 && worker_process_start_time((int)pid) == start) {
        killed = syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) == 0;
    }
#else
    (void)dir;
#endif
    return killed;
}
