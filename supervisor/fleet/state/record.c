/*
 * The record is written before OPEN is sent, and the note before the worker says HELLO, so whenever
 * a server dies, its sandboxes can be found. Both files are replaced atomically, since half a note
 * would cost a sandbox its worker.
 *
 * A pid alone does not identify a process, since it may be reused before it is read. A pid and a
 * start time do within one boot; in another boot they match only by a coincidence within 10 ms. For
 * exactness a pidfd holds the process while its start time is compared. Without pidfds nothing is
 * killed, and an orphaned worker ends by its lifeline.
 */
#include "supervisor/fleet/state/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
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
#include "proto/place.h"
#include "supervisor/fleet/host/host.h"
#include "supervisor/fleet/workers/spawn.h"

#define RECORD_MAX (LIMIT_FRAME + (size_t)(64u << 10)) /* RECORD itself is small */

static int record_encode(struct buf *out, const struct msg_open *open_message,
                         const struct msg_record *whose, struct err *err)
{
    struct msg first = {.type = MSG_OPEN};
    struct msg second = {.type = MSG_RECORD};
    first.open = *open_message;
    second.record = *whose;
    int rc = msg_encode_frame(out, &first, err);
    return rc == 0 ? msg_encode_frame(out, &second, err) : rc;
}

int record_save(struct fleet_host *host, const char *dir, const struct msg_open *open_message,
                const struct msg_record *whose, disk_done_fn done, void *arg, struct err *err)
{
    CLEANUP_BUF struct buf frames;
    buf_init(&frames, RECORD_MAX);
    int rc = record_encode(&frames, open_message, whose, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FREE char *path = alloc_printf("%s/record", dir);
    disk_write(host, path, view_bytes(frames.data, frames.len), done, arg);
    return 0;
}

int record_encode_public(struct buf *out, const struct msg_open *open_message,
                         const struct msg_record *whose, struct err *err)
{
    struct msg_open shown = *open_message;
    shown.place = (struct view_list){.items = NULL};
    shown.runners = (struct view_list){.items = NULL}; /* the agent has them */
    shown.mounts = (struct view_list){.items = NULL};
    shown.shares = (struct view_list){.items = NULL};
    shown.door_proxy = view_of("");
    shown.door_proxy_auth = view_of("");
    int rc = record_encode(out, &shown, whose, err);
    if (rc == 0 && out->len > LIMIT_RECORD) {
        rc = err_set(err, ERR_TOO_BIG, "its record is longer than %u bytes", LIMIT_RECORD);
    }
    return rc;
}

/* Takes the next message from *rest; it must have this type. */
static int next_message(struct view *rest, enum msg_type type, struct msg *ret, struct err *err)
{
    struct view payload;
    size_t used;
    int rc = frame_next(rest->data, rest->len, LIMIT_FRAME, &payload, &used, err);
    if (rc == 0) {
        return err_set(err, ERR_PROTOCOL, "it is cut off");
    }
    if (rc < 0) {
        return rc;
    }
    rc = msg_decode(MSG_LINK_W, payload.data, payload.len, ret, err);
    if (rc == 0 && ret->type != type) {
        msg_finish(ret);
        rc = err_set(err, ERR_PROTOCOL, "it holds something else");
    }
    rest->data += used;
    rest->len -= used;
    return rc;
}

/* Nobody is sent anywhere by what is no place. */
static int check_place(const struct msg_open *m, struct err *err)
{
    struct place place = {.kind = PLACE_NONE};
    int rc = place_decode(m->place, &place, err);
    place_finish(&place);
    return rc;
}

/* Takes what r->text holds. */
static int read_messages(struct record *r, struct err *err)
{
    struct view rest = view_bytes(r->text.data, r->text.len);
    int rc = next_message(&rest, MSG_OPEN, &r->open, err);
    if (rc == 0) {
        rc = check_place(&r->open.open, err);
    }
    if (rc == 0) {
        rc = next_message(&rest, MSG_RECORD, &r->whose, err);
    }
    if (rc == 0 && rest.len > 0) {
        rc = err_set(err, ERR_PROTOCOL, "something follows in it");
    }
    return rc;
}

int record_load(const char *dir, struct record *ret, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/record", dir);
    struct record r = {.open = {.type = MSG_NONE}, .whose = {.type = MSG_NONE}};
    buf_init(&r.text, RECORD_MAX);
    int rc = file_read(path, &r.text, err);
    rc = rc == 0 ? read_messages(&r, err) : rc;
    if (rc < 0) {
        record_finish(&r);
        return err_wrap(err, "%s", path);
    }
    *ret = r;
    return 0;
}

int record_read(struct view bytes, struct record *ret, struct err *err)
{
    struct record r = {.open = {.type = MSG_NONE}, .whose = {.type = MSG_NONE}};
    buf_init(&r.text, LIMIT_RECORD);
    int rc = buf_add(&r.text, bytes.data, bytes.len, err);
    rc = rc == 0 ? read_messages(&r, err) : rc;
    if (rc < 0) {
        record_finish(&r);
        return err_wrap(err, "the record of its server");
    }
    *ret = r;
    return 0;
}

void record_finish(struct record *r)
{
    msg_finish(&r->open);
    msg_finish(&r->whose);
    buf_finish(&r->text);
}

void record_mark_closing(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/closing", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        log_warn("cannot mark what is being removed: %s: %s", path, strerror(errno));
        return;
    }
    close(fd);
}

bool record_is_closing(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/closing", dir);
    return access(path, F_OK) == 0;
}

void record_drop(const char *dir)
{
    CLEANUP_FREE char *path = alloc_printf("%s/record", dir);
    unlink(path); /* if it stays, the next server finds that there is no such sandbox */
}

/* The boot id is constant while this process lives, so it is read once. */
const char *record_boot(void)
{
    static char boot[LIMIT_NAME + 1];
    if (boot[0] == '\0') {
        CLEANUP_BUF struct buf text;
        buf_init(&text, LIMIT_NAME);
        if (file_read("/proc/sys/kernel/random/boot_id", &text, NULL) == 0 &&
            buf_cstr(&text) != NULL) {
            const char *id = (const char *)text.data;
            snprintf(boot, sizeof(boot), "%.*s", (int)strcspn(id, "\n"), id);
        }
    }
    return boot;
}

int record_save_worker(const char *dir, int pid, uint64_t generation, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/worker", dir);
    CLEANUP_FREE char *next = alloc_printf("%s/worker.next", dir);
    uint64_t start = worker_process_start_time(pid);
    if (start == 0 && access("/proc/self/stat", F_OK) == 0) { /* no descriptor is left */
        return err_set(err, ERR_IO, "cannot tell when worker %d was started", pid);
    }
    CLEANUP_FREE char *text = alloc_printf("%d %" PRIu64 " %" PRIu64 "\n", pid, start, generation);
    CLEANUP_FD int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_IO, errno, "%s", next);
    }
    int rc = fd_write_all(fd, text, strlen(text), err);
    if (rc == 0 && rename(next, path) < 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", path);
    }
    return rc;
}

/* Takes the next word from *rest. */
static bool next_number(char **rest, uint64_t *ret)
{
    char *word = *rest;
    size_t len = strcspn(word, " \n");
    *rest = word + len + (word[len] != '\0');
    word[len] = '\0';
    return str_to_u64(word, 0, UINT64_MAX, ret, NULL) == 0;
}

/* Reads the note; sets everything but `alive`. */
static int load_note(const char *dir, struct record_worker *ret, struct err *err)
{
    CLEANUP_FREE char *path = alloc_printf("%s/worker", dir);
    CLEANUP_BUF struct buf note;
    buf_init(&note, 256);
    int rc = file_read(path, &note, err);
    if (rc < 0) {
        return rc;
    }
    char *rest = (char *)(uintptr_t)buf_cstr(&note);
    uint64_t pid;
    if (rest == NULL) {
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    }
    if (!next_number(&rest, &pid) || !next_number(&rest, &ret->start_time) ||
        !next_number(&rest, &ret->generation) || pid < 2 || pid > INT32_MAX ||
        ret->generation == 0 || ret->generation > UINT32_MAX) {
        return err_set(err, ERR_PROTOCOL, "%s names no worker", path);
    }
    ret->pid = (int)pid;
    return 0;
}

/* Opens a descriptor of exactly the noted process. -1: it is gone, or this system has no pidfds. */
static int hold_process(const struct record_worker *w)
{
#ifdef SYS_pidfd_open
    CLEANUP_FD int process = (int)syscall(SYS_pidfd_open, (pid_t)w->pid, 0);
    if (process >= 0 && w->start_time != 0 && worker_process_start_time(w->pid) == w->start_time) {
        return steal_fd(&process);
    }
#else
    (void)w;
#endif
    return -1;
}

int record_load_worker(const char *dir, struct record_worker *ret, struct err *err)
{
    struct record_worker w = {.pid = 0};
    int rc = load_note(dir, &w, err);
    if (rc < 0) {
        return rc;
    }
    CLEANUP_FD int process = hold_process(&w);
    /* It is readable once the process has ended, even if it is not reaped yet. */
    struct pollfd ended = {.fd = process, .events = POLLIN};
    w.alive = process >= 0 && poll(&ended, 1, 0) == 0;
    *ret = w;
    return 0;
}

/* True if exactly the noted process got the signal. */
static bool signal_worker(const char *dir, int number)
{
    bool sent = false;
#ifdef SYS_pidfd_open
    struct record_worker w = {.pid = 0};
    if (load_note(dir, &w, NULL) < 0) {
        return false;
    }
    CLEANUP_FD int process = hold_process(&w);
    sent = process >= 0 && syscall(SYS_pidfd_send_signal, process, number, NULL, 0) == 0;
#else
    (void)dir, (void)number;
#endif
    return sent;
}

bool record_stop_worker(const char *dir)
{
    return signal_worker(dir, SIGTERM);
}

bool record_kill_worker(const char *dir)
{
    return signal_worker(dir, SIGKILL);
}
