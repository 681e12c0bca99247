/*
 *     stdin  ---- to_agent ---->  agent's
 *     stdout <--- to_client ----  socket
 *
 * A direction reads only after it has written all that it read before. So nothing moves within a
 * buffer, the kernel's queues pass backpressure from reader to writer, and at end of file
 * everything before it has been delivered: the relay then exits at once. A half-closed stream would
 * be of no use, because the links above reconnect after a lost stream.
 *
 * If one side hangs up while the other is slow, the hang-up shows although nothing is read, and the
 * data under way has RELAY_FLUSH_MS to be written. A descriptor that has hung up and must not be
 * read now is left out of poll(), which would return at once otherwise.
 *
 * The relay is not dumpable, and user code with another uid can neither signal nor trace it. Its
 * three descriptors belong to the engine and the agent.
 */
#include "worker/agent/link/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/relay.h"
#include "proto/exit_codes.h"
#include "worker/agent/link/endpoint.h"
#include "worker/agent/process/spawn.h"

#define HANGUP (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)

struct flow {
    int from, to;
    bool hung_up; /* the writer has closed; some of its data may not be read yet */
    bool broken;  /* the reader has closed: this direction is over */
    size_t at, len;
    uint8_t data[RELAY_BUFFER_BYTES];
};

struct relay {
    struct flow to_agent, to_client;
    uint64_t until_ms; /* end of the flush; 0 = neither side has hung up */
};

static bool is_pending(const struct flow *f)
{
    return f->at < f->len;
}

static void flow_write(struct flow *f)
{
    ssize_t n = write(f->to, f->data + f->at, f->len - f->at);
    if (n > 0) {
        f->at += (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        f->broken = true;
    }
}

/* Reads and writes once; true at end of file. */
static bool flow_pass(struct flow *f)
{
    ssize_t n = read(f->from, f->data, sizeof(f->data));
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        return true;
    }
    f->at = 0;
    f->len = (size_t)n;
    flow_write(f);
    return false;
}

static void hang_up(struct relay *r, struct flow *f)
{
    f->hung_up = true;
    if (r->until_ms == 0) {
        r->until_ms = clock_ms() + RELAY_FLUSH_MS;
    }
}

static short reading(const struct flow *f)
{
    return (short)(is_pending(f) ? POLLRDHUP : POLLRDHUP | POLLIN);
}

static short writing(const struct flow *f)
{
    return is_pending(f) && !f->broken ? POLLOUT : 0;
}

/* Reads if the direction is ready for it; true at end of file. */
static bool on_source(struct relay *r, struct flow *f, short got)
{
    if ((got & HANGUP) != 0) {
        hang_up(r, f);
    }
    return (got & (POLLIN | HANGUP)) != 0 && !is_pending(f) && flow_pass(f);
}

/* One round; true when it is over. */
static bool step_relay(struct relay *r, int socket)
{
    struct flow *up = &r->to_agent;
    struct flow *down = &r->to_client;
    bool skip_in = up->broken || (up->hung_up && is_pending(up));
    bool skip_socket = down->hung_up && is_pending(down);
    struct pollfd fds[] = {
        {.fd = skip_in ? -1 : STDIN_FILENO, .events = reading(up)},
        {.fd = STDOUT_FILENO, .events = writing(down)},
        {.fd = skip_socket ? -1 : socket, .events = (short)(reading(down) | writing(up))},
    };
    int wait_ms = -1;
    if (r->until_ms != 0) {
        uint64_t now = clock_ms();
        if (now >= r->until_ms) {
            return true;
        }
        wait_ms = (int)(r->until_ms - now);
    }
    if (poll(fds, 3, wait_ms) < 0) {
        return errno != EINTR;
    }
    if ((fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        return true; /* the client is gone, so replies have no reader */
    }
    if ((fds[1].revents & POLLOUT) != 0) {
        flow_write(down);
    }
    if ((fds[2].revents & POLLOUT) != 0 && is_pending(up)) {
        flow_write(up);
    }
    bool over = on_source(r, up, fds[0].revents) || on_source(r, down, fds[2].revents);
    if (down->hung_up && !up->broken) {
        up->broken = true; /* an agent that has closed does not read either */
    }
    if (up->broken) {
        hang_up(r, down);
    }
    return over || down->broken;
}

static int set_up_relay_process(struct err *err)
{
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return err_sys(err, ERR_INTERNAL, errno, "relay: cannot hide memory");
    }
    /* the socket would get the number of a missing descriptor */
    if (fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDOUT_FILENO, F_GETFD) < 0) {
        return err_sys(err, ERR_INVALID, errno, "relay: standard input or output is closed");
    }
    struct sigaction ignore;
    memset(&ignore, 0, sizeof(ignore));
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, NULL);
    int rc = fd_set_nonblock(STDIN_FILENO, err);
    return rc < 0 ? rc : fd_set_nonblock(STDOUT_FILENO, err);
}

int relay_run(const char *path, struct err *err)
{
    int socket = -1;
    if (set_up_relay_process(err) < 0) {
        return EXIT_CODE_SETUP;
    }
    int rc = endpoint_connect(path, RELAY_CONNECT_MS, STDIN_FILENO, &socket, err);
    if (rc == -ERR_GONE) {
        return EXIT_CODE_OK; /* an end like any other */
    }
    if (rc < 0) {
        err_wrap(err, "relay");
        return EXIT_CODE_SETUP;
    }
    struct relay *r = alloc_one(struct relay);
    r->to_agent.from = STDIN_FILENO;
    r->to_agent.to = socket;
    r->to_client.from = socket;
    r->to_client.to = STDOUT_FILENO;
    /* The greeting comes first, because an engine would report a failure on this same stream
     * (common/relay.h). */
    r->to_client.len = sizeof(RELAY_GREETING) - 1;
    memcpy(r->to_client.data, RELAY_GREETING, r->to_client.len);
    while (!step_relay(r, socket)) {
    }
    free(r);
    close(socket);
    return EXIT_CODE_OK;
}

__attribute__((noreturn)) static void become_relay(const char *path)
{
    static const int keep[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    struct err err = ERR_INIT;
    spawn_close_all_but(keep, 3);
    int code = relay_run(path, &err);
    if (code != EXIT_CODE_OK) {
        log_warn("%s", err.text);
    }
    _exit(code);
}

int relay_start(const char *path, pid_t *ret_pid, struct err *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) {
        return err_sys(err, ERR_IO, errno, "cannot open /dev/null");
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_relay(path);
    }
    int rc = 0;
    if (pid < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot start a relay");
    } else if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) {
        rc = err_sys(err, ERR_IO, errno, "cannot leave stdin and stdout to the relay");
    }
    if (null > STDERR_FILENO) {
        close(null);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_pid = pid;
    return 0;
}
