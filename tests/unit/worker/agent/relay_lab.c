/*
 * Every wait has a deadline, after which the test fails.
 */
#include "tests/unit/worker/agent/relay_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/relay.h"
#include "common/str.h"

int lab_setup(void **state)
{
    struct lab *lab = alloc_one(struct lab);
    lab->listen_fd = lab->in = lab->out = lab->agent = -1;
    snprintf(lab->dir, sizeof(lab->dir), "/tmp/cloister-test-XXXXXX");
    assert_non_null(mkdtemp(lab->dir));
    snprintf(lab->path, sizeof(lab->path), "%s/agent.sock", lab->dir);
    *state = lab;
    return 0;
}

void lab_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

int lab_teardown(void **state)
{
    struct lab *lab = *state;
    if (lab->relay > 0) {
        kill(lab->relay, SIGKILL);
        waitpid(lab->relay, NULL, 0);
    }
    if (lab->out == lab->in) {
        lab->out = -1;
    }
    lab_close(&lab->in);
    lab_close(&lab->out);
    lab_close(&lab->agent);
    lab_close(&lab->listen_fd);
    assert_int_equal(dir_remove(lab->dir, NULL), 0);
    free(lab);
    return 0;
}

void lab_listen(struct lab *lab)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert_int_equal(str_copy(at.sun_path, sizeof(at.sun_path), lab->path, NULL), 0);
    lab->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(lab->listen_fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(lab->listen_fd, 8), 0);
}

/* Starts a child with these as stdin, stdout and stderr; -1 is closed. */
static pid_t lab_spawn(const char *const *args, const int fds[3])
{
    const char *program = getenv("CLOISTER_AGENT");
    assert_non_null(program);
    pid_t pid = fork();
    if (pid == 0) {
        const char *argv[16] = {program};
        for (size_t i = 0; args[i] != NULL && i < 14; i++) {
            argv[i + 1] = args[i];
        }
        for (int i = 0; i < 3; i++) {
            if (fds[i] < 0) {
                close(i);
            } else if (dup2(fds[i], i) < 0) {
                _exit(78);
            }
        }
        execv(program, (char *const *)(uintptr_t)argv);
        _exit(78);
    }
    assert_true(pid > 0);
    return pid;
}

pid_t lab_relay(const char *path, int in, int out)
{
    const char *args[] = {"relay", "--socket", path, NULL};
    return lab_spawn(args, (int[]){in, out, STDERR_FILENO});
}

void lab_start(struct lab *lab, bool one_socket)
{
    int in[2], out[2];
    if (one_socket) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in), 0);
        lab->relay = lab_relay(lab->path, in[1], in[1]);
        close(in[1]);
        lab->in = lab->out = in[0];
    } else {
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        lab->relay = lab_relay(lab->path, in[0], out[1]);
        close(in[0]);
        close(out[1]);
        lab->in = in[1];
        lab->out = out[0];
    }
}

void lab_accept(struct lab *lab)
{
    struct pollfd p = {.fd = lab->listen_fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, LAB_PATIENCE_MS), 1);
    lab->agent = accept4(lab->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(lab->agent >= 0);
    lab_read_greeting(lab->out);
}

void lab_read_greeting(int fd)
{
    char text[sizeof(RELAY_GREETING)] = "";
    size_t len = sizeof(text) - 1;
    for (size_t at = 0; at < len;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, LAB_PATIENCE_MS), 1);
        ssize_t n = read(fd, text + at, len - at);
        assert_true(n > 0);
        at += (size_t)n;
    }
    assert_string_equal(text, RELAY_GREETING);
}

void lab_up(struct lab *lab, bool one_socket)
{
    lab_listen(lab);
    lab_start(lab, one_socket);
    lab_accept(lab);
}

int lab_wait(pid_t *pid)
{
    uint64_t until = clock_ms() + LAB_PATIENCE_MS;
    while (clock_ms() < until) {
        int status = 0;
        if (waitpid(*pid, &status, WNOHANG) == *pid) {
            *pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        poll(NULL, 0, 2);
    }
    return -1;
}

/* How often a process has given up its processor to wait for something. */
static unsigned long pauses_of(pid_t pid)
{
    CLEANUP_FREE char *path = alloc_printf("/proc/%d/status", (int)pid);
    char line[256];
    unsigned long count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL &&
           sscanf(line, "voluntary_ctxt_switches: %lu", &count) != 1) {
    }
    fclose(file);
    return count;
}

void lab_pauses(const struct lab *lab, unsigned times)
{
    uint64_t until = clock_ms() + LAB_PATIENCE_MS;
    while (pauses_of(lab->relay) < times && clock_ms() < until) {
        poll(NULL, 0, 2);
    }
    assert_true(pauses_of(lab->relay) >= times);
}

void lab_fill(int fd, size_t *ret_bytes)
{
    static const uint8_t zeros[4096];
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    assert_int_equal(fd_set_nonblock(fd, NULL), 0);
    *ret_bytes = 0;
    while (poll(&p, 1, 300) == 1 && (p.revents & POLLOUT) != 0) {
        ssize_t n = write(fd, zeros, sizeof(zeros));
        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            break;
        }
        *ret_bytes += (size_t)n;
    }
}

size_t lab_drain(int fd)
{
    uint8_t piece[65536];
    size_t bytes = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, LAB_PATIENCE_MS), 1);
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n <= 0) {
            assert_true(n == 0 || errno == ECONNRESET);
            return bytes;
        }
        bytes += (size_t)n;
    }
}

/* Runs a command line to its end and keeps its stderr; returns its exit code. */
static int lab_complain(struct lab *lab, const char *const *args, int in)
{
    int err[2];
    int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    pid_t pid = lab_spawn(args, (int[]){in, out, err[1]});
    close(err[1]);
    close(out);
    size_t len = 0;
    ssize_t n;
    while ((n = read(err[0], lab->said + len, sizeof(lab->said) - 1 - len)) > 0) {
        len += (size_t)n;
    }
    lab->said[len] = '\0';
    close(err[0]);
    return lab_wait(&pid);
}

void lab_expect_complaint(struct lab *lab, const char *const *args, int in, int code,
                          const char *text)
{
    int got = lab_complain(lab, args, in);
    if (got != code || strstr(lab->said, text) == NULL ||
        strchr(lab->said, '\n') != lab->said + strlen(lab->said) - 1) {
        fail_msg("exit code %d and not %d with one line about \"%s\": %s", got, code, text,
                 lab->said);
    }
}
