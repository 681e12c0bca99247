/*
 * The agent is started as a backend does it: with a listening socket made outside. As root, user
 * code gets a uid of its own for each test; otherwise one uid is used for everything.
 */
#include "tests/lib/agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/str.h"
#include "proto/codec.h"
#include "proto/version.h"

#define TEST_UID_FIRST 61000
#define TEST_UIDS      4000
#define TEST_FD        30
#define SANDBOX_ID     "testbox"

/* ---- the process ----------------------------------------------------------------------------- */

static int listen_at(const char *path, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || str_copy(at.sun_path, sizeof(at.sun_path), path, err) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 16) < 0) {
        return err_sys(err, ERR_IO, errno, "listen at %s", path);
    }
    return fd;
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    int rc = fd_write_all(fd, text, strlen(text), NULL);
    close(fd);
    return rc;
}

/* Becomes the parent of pid 1 of a new namespace, and ends when that ends. */
static void enter_namespace(void)
{
    uid_t uid = geteuid();
    int flags = CLONE_NEWPID | CLONE_NEWNS | (uid != 0 ? CLONE_NEWUSER : 0);
    if (unshare(flags) < 0) {
        _exit(77);
    }
    if (uid != 0) {
        char map[64];
        snprintf(map, sizeof(map), "0 %u 1", (unsigned)uid);
        if (write_text("/proc/self/setgroups", "deny") < 0 ||
            write_text("/proc/self/uid_map", map) < 0) {
            _exit(77);
        }
    }
    pid_t pid = fork();
    if (pid != 0) {
        int status = 0;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        _exit(pid < 0 ? 77 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              uid == 0 ? "hidepid=2,gid=0" : NULL) < 0) {
        _exit(77);
    }
}

static void become_agent(const struct agent_process *p, const struct agent_options *o,
                         int listen_fd)
{
    char grace[32], nproc[32], data[32], memory[32], user[32], fd[32];
    snprintf(grace, sizeof(grace), "%llu", (unsigned long long)(o->grace_ms ? o->grace_ms : 60000));
    snprintf(nproc, sizeof(nproc), "%llu", (unsigned long long)o->nproc);
    snprintf(data, sizeof(data), "%llu", (unsigned long long)o->data_bytes);
    snprintf(memory, sizeof(memory), "%llu", (unsigned long long)o->memory_bytes);
    snprintf(user, sizeof(user), "%u", (unsigned)p->user);
    snprintf(fd, sizeof(fd), "%d", TEST_FD);
    /* meson sets it to fill freed memory. The agent passes its environment on to bash, which would
     * fill the megabytes of a large script again and again, for minutes. */
    unsetenv("MALLOC_PERTURB_");
    setenv("LANG", "C.UTF-8", 1);
    if (o->path_env != NULL) {
        setenv("PATH", o->path_env, 1);
    }
    bool root = geteuid() == 0;
    if (o->own_namespace) {
        enter_namespace();
    }
    if (!o->listens && dup2(listen_fd, TEST_FD) < 0) {
        _exit(78);
    }
    if (o->relays_stdio &&
        (dup2(o->stdin_fd, STDIN_FILENO) < 0 || dup2(o->stdout_fd, STDOUT_FILENO) < 0)) {
        _exit(78);
    }
    const char *argv[32];
    size_t n = 0;
    const char *fixed[] = {o->program,
                           "serve",
                           o->listens ? "--listen" : "--fd",
                           o->listens ? p->socket : fd,
                           "--sandbox",
                           SANDBOX_ID,
                           "--grace-ms",
                           grace,
                           "--nproc",
                           nproc,
                           "--nofile",
                           "1024",
                           "--data-bytes",
                           data,
                           "--memory-bytes",
                           memory,
                           "--workspace",
                           p->workspace,
                           "--home",
                           p->workspace};
    for (; n < sizeof(fixed) / sizeof(fixed[0]); n++) {
        argv[n] = fixed[n];
    }
    if (root) {
        argv[n++] = "--uid";
        argv[n++] = user;
        argv[n++] = "--gid";
        argv[n++] = user;
    } else {
        argv[n++] = "--single-uid";
    }
    if (o->listens && !root) {
        argv[n++] = "--any-peer"; /* relays have no uid of their own in these tests */
    }
    if (o->relays_stdio) {
        argv[n++] = "--relay-stdio";
    }
    char packages[sizeof(p->dir) + 16];
    snprintf(packages, sizeof(packages), "%s/packages", p->dir);
    argv[n++] = "--packages";
    argv[n++] = packages;
    char installs[sizeof(p->dir) + 16];
    snprintf(installs, sizeof(installs), "%s/installs", p->dir);
    if (o->installs) {
        argv[n++] = "--installs";
        argv[n++] = installs;
    }
    argv[n] = NULL;
    execv(o->program, (char *const *)(uintptr_t)argv);
    _exit(78);
}

int agent_start(struct agent_process *p, const struct agent_options *o, struct err *err)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->dir, sizeof(p->dir), "/tmp/cloister-test-XXXXXX");
    if (mkdtemp(p->dir) == NULL) {
        return err_sys(err, ERR_IO, errno, "%s", p->dir);
    }
    snprintf(p->workspace, sizeof(p->workspace), "%s/workspace", p->dir);
    snprintf(p->socket, sizeof(p->socket), "%s/agent.sock", p->dir);
    /* limits on processes count per user, so tests that run in parallel need different ones */
    p->user = geteuid() == 0 ? TEST_UID_FIRST + (uid_t)getpid() % TEST_UIDS : geteuid();
    if (chmod(p->dir, 0755) < 0 || mkdir(p->workspace, 0755) < 0 ||
        chown(p->workspace, p->user, geteuid() == 0 ? (gid_t)p->user : getegid()) < 0) {
        return err_sys(err, ERR_IO, errno, "%s", p->workspace);
    }
    char path[sizeof(p->dir) + 32];
    for (const char *const *d = (const char *const[]){"", "/python", "/node", NULL};
         o->packages && *d != NULL; d++) {
        snprintf(path, sizeof(path), "%s/packages%s", p->dir, *d);
        if (mkdir(path, 0755) < 0 || chmod(path, 0777) < 0) {
            return err_sys(err, ERR_IO, errno, "%s", path);
        }
    }
    return agent_start_again(p, o, err);
}

int agent_start_again(struct agent_process *p, const struct agent_options *o, struct err *err)
{
    int fd = o->listens ? -1 : listen_at(p->socket, err);
    if (fd < 0 && !o->listens) {
        return fd;
    }
    p->pid = fork();
    if (p->pid == 0) {
        setpgid(0, 0); /* so that agent_stop() can kill all of its processes */
        become_agent(p, o, fd);
    }
    if (fd >= 0) {
        close(fd);
    }
    return p->pid < 0 ? err_sys(err, ERR_IO, errno, "fork") : 0;
}

int agent_wait(struct agent_process *p)
{
    uint64_t until = clock_ms() + AGENT_CLIENT_WAIT_MS;
    while (p->pid > 0 && clock_ms() < until) {
        int status = 0;
        if (waitpid(p->pid, &status, WNOHANG) == p->pid) {
            p->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        poll(NULL, 0, 5);
    }
    return -1;
}

void agent_stop(struct agent_process *p)
{
    if (p->pid > 0) {
        kill(-p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
        p->pid = 0;
    }
    if (p->dir[0] != '\0') {
        err_ignore(dir_remove(p->dir, NULL));
    }
}

/* ---- the link -------------------------------------------------------------------------------- */

void agent_adopt(struct agent_client *c, int fd)
{
    memset(c, 0, sizeof(*c));
    buf_init(&c->in, LIMIT_FRAME + 4);
    c->fd = fd;
}

int agent_connect(struct agent_client *c, const struct agent_process *p, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int rc = str_copy(at.sun_path, sizeof(at.sun_path), p->socket, err);
    agent_adopt(c, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (rc < 0 || c->fd < 0 || connect(c->fd, (struct sockaddr *)&at, sizeof(at)) < 0) {
        return err_sys(err, ERR_IO, errno, "connect to the agent");
    }
    return 0;
}

void agent_disconnect(struct agent_client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
    }
    c->fd = -1;
    buf_finish(&c->in);
}

int agent_send_msg(struct agent_client *c, struct msg *m, struct err *err)
{
    CLEANUP_BUF struct buf out;
    buf_init(&out, LIMIT_FRAME + 4);
    m->seq = ++c->seq;
    int rc = msg_encode_frame(&out, m, err);
    for (size_t at = 0; rc == 0 && at < out.len;) {
        ssize_t n = send(c->fd, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n < 0) {
            return err_sys(err, ERR_GONE, errno, "send");
        }
        at += (size_t)n;
    }
    return rc;
}

int agent_receive(struct agent_client *c, struct msg *ret, uint64_t wait_ms, struct err *err)
{
    uint64_t until = clock_ms() + wait_ms;
    buf_consume(&c->in, c->used);
    c->used = 0;
    for (;;) {
        struct view payload;
        int rc = frame_next(c->in.data, c->in.len, LIMIT_FRAME, &payload, &c->used, err);
        if (rc < 0) {
            return rc;
        }
        if (rc > 0) {
            /* only HELLO_OK and OUTPUT have lists, so nothing else needs msg_finish() */
            return msg_decode(MSG_LINK_A, payload.data, payload.len, ret, err);
        }
        uint64_t now = clock_ms();
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (now >= until || poll(&p, 1, (int)(until - now)) == 0) {
            return err_set(err, ERR_TIMEOUT, "no message in time");
        }
        rc = buf_reserve(&c->in, 65536, err);
        if (rc < 0) {
            return rc;
        }
        ssize_t n = recv(c->fd, c->in.data + c->in.len, 65536, 0);
        if (n <= 0) {
            return err_set(err, ERR_GONE, "the agent closed the link");
        }
        c->in.len += (size_t)n;
    }
}

int agent_receive_reply(struct agent_client *c, struct msg *ret, uint64_t wait_ms, struct err *err)
{
    for (;;) {
        int rc = agent_receive(c, ret, wait_ms, err);
        if (rc < 0 || ret->type != MSG_RUNNING) {
            return rc;
        }
        c->events++;
        c->turns += ret->running.waited;
        snprintf(c->last_event, sizeof(c->last_event), "%.*s", VIEW_ARG(ret->running.op));
        c->last_ran_us = ret->running.ran_us;
        c->last_waited = ret->running.waited;
    }
}

int agent_ask(struct agent_client *c, struct msg *m, struct msg *reply, struct err *err)
{
    int rc = agent_send_msg(c, m, err);
    while (rc == 0) {
        rc = agent_receive_reply(c, reply, AGENT_CLIENT_WAIT_MS, err);
        if (rc == 0 && reply->seq == m->seq) {
            return 0;
        }
    }
    return rc;
}

struct msg agent_hello_message(uint64_t generation)
{
    struct msg m = {.type = MSG_HELLO};
    m.hello.protocol = view_of(PROTO_AGENT_NAME);
    m.hello.version = PROTO_VERSION;
    m.hello.build = view_of("test");
    m.hello.sandbox = view_of(SANDBOX_ID);
    m.hello.generation = generation;
    return m;
}

int agent_hello(struct agent_client *c, uint64_t generation, struct msg *reply, struct err *err)
{
    struct msg m = agent_hello_message(generation);
    return agent_ask(c, &m, reply, err);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void free_items(struct agent_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].path);
    }
    free(items);
}

/* DISPLAY or ENTRY messages. */
static int read_items(struct view_list list, struct agent_item **ret, size_t *ret_count,
                      struct err *err)
{
    *ret = list.count > 0 ? alloc_array(list.count, sizeof(**ret)) : NULL;
    for (size_t i = 0; i < list.count; i++) {
        struct msg m;
        struct agent_item *item = &(*ret)[i];
        int rc = msg_decode(MSG_LINK_A, list.items[i].data, list.items[i].len, &m, err);
        if (rc < 0) {
            return rc;
        }
        bool display = m.type == MSG_DISPLAY;
        item->path = alloc_viewdup(display ? m.display.path : m.entry.path);
        item->size = display ? m.display.size : m.entry.size;
        item->number = display ? m.display.number : 0;
        if (display) {
            snprintf(item->mime, sizeof(item->mime), "%.*s", VIEW_ARG(m.display.mime));
        }
        msg_finish(&m);
        *ret_count = i + 1;
    }
    return 0;
}

void agent_result_finish(struct agent_result *r)
{
    free(r->out);
    free(r->err);
    free(r->result);
    free(r->name);
    free(r->message);
    free(r->traceback);
    free_items(r->displays, r->display_count);
    free_items(r->files, r->file_count);
    memset(r, 0, sizeof(*r));
}

static void append(char **text, size_t *len, struct view v)
{
    char *grown = realloc(*text, *len + v.len + 1);
    if (grown == NULL) {
        return;
    }
    if (v.len > 0) {
        memcpy(grown + *len, v.data, v.len);
    }
    *len += v.len;
    grown[*len] = '\0';
    *text = grown;
}

static int gather(struct agent_client *c, struct msg *m, const char *op, struct agent_result *ret,
                  uint64_t out_from, uint64_t err_from, struct err *err)
{
    memset(ret, 0, sizeof(*ret));
    append(&ret->out, &ret->out_len, view_of(""));
    append(&ret->err, &ret->err_len, view_of(""));
    for (;;) {
        struct msg reply;
        int rc = agent_ask(c, m, &reply, err);
        if (rc < 0) {
            return rc;
        }
        if (reply.type == MSG_FAILED) {
            ret->failed = (int)reply.failed.code;
            ret->message = alloc_viewdup(reply.failed.message);
            ret->result = alloc_viewdup(reply.failed.hint);
            return 0;
        }
        if (reply.type != MSG_OUTPUT) {
            return err_set(err, ERR_PROTOCOL, "%s instead of output", msg_name(reply.type));
        }
        append(&ret->out, &ret->out_len, reply.output.out);
        append(&ret->err, &ret->err_len, reply.output.err);
        ret->last = reply.output;
        if (reply.output.state == OP_DONE) {
            ret->result = alloc_viewdup(reply.output.result);
            ret->name = alloc_viewdup(reply.output.error_name);
            ret->message = alloc_viewdup(reply.output.error_message);
            ret->traceback = alloc_viewdup(reply.output.traceback);
            rc = read_items(reply.output.displays, &ret->displays, &ret->display_count, err);
            if (rc == 0) {
                rc = read_items(reply.output.files, &ret->files, &ret->file_count, err);
            }
            msg_finish(&reply);
            return rc;
        }
        msg_finish(&reply);
        *m = (struct msg){.type = MSG_WAIT};
        m->wait.op = view_of(op);
        m->wait.out_from = out_from + ret->out_len;
        m->wait.err_from = err_from + ret->err_len;
        m->wait.wait_ms = AGENT_CLIENT_WAIT_MS;
    }
}

int agent_run_op(struct agent_client *c, const struct msg_start *start, struct agent_result *ret,
                 struct err *err)
{
    char op[LIMIT_NAME + 1];
    snprintf(op, sizeof(op), "%.*s", VIEW_ARG(start->op));
    struct msg m = {.type = MSG_START};
    m.start = *start;
    m.start.wait_ms = AGENT_CLIENT_WAIT_MS;
    return gather(c, &m, op, ret, start->out_from, start->err_from, err);
}

int agent_follow(struct agent_client *c, const char *op, uint64_t out_from, uint64_t err_from,
                 struct agent_result *ret, struct err *err)
{
    struct msg m = {.type = MSG_WAIT};
    m.wait.op = view_of(op);
    m.wait.out_from = out_from;
    m.wait.err_from = err_from;
    m.wait.wait_ms = AGENT_CLIENT_WAIT_MS;
    return gather(c, &m, op, ret, out_from, err_from, err);
}

struct msg_start agent_code(struct agent_client *c, const char *language, const char *code)
{
    static char ids[16][32];
    static unsigned next;
    char *id = ids[next++ % 16];
    snprintf(id, sizeof(ids[0]), "op%u-%d", next, (int)getpid());
    return (struct msg_start){
        .op = view_of(id),
        .kind = OP_EVAL,
        .language = view_of(language),
        .data = view_of(code),
    };
}
