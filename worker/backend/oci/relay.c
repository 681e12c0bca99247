/*
 *   (runtime "exec") ──▶ GREETING ──greeting──▶ handed over
 *
 * A runtime whose sandbox has a kernel of its own cannot hand a listening socket down: only stdin,
 * stdout and stderr get in. So the agent listens at a path inside, and a relay joins its stdin and
 * stdout to that (worker/agent/link/relay.c). The first relay is a child of the agent and has the
 * container's own; the runtime's "exec" starts later ones.
 *
 * A relay's stdin and stdout are one end of a socket pair. The other end is the stream itself, so
 * that nothing is copied here. Only the greeting is taken off it, byte by byte: what follows
 * belongs to the agent's link.
 *
 * "exec --detach" returns when the relay runs or cannot be started. Its words are the reason if no
 * greeting comes, so a stream that ends early waits for them.
 */
#include "worker/backend/oci/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "common/relay.h"
#include "worker/backend/oci/exec.h"
#include "worker/backend/oci/root.h"
#include "worker/backend/oci/runtime.h"

#define GREETING_LEN (sizeof(RELAY_GREETING) - 1)
#define GREETING_MS  20000 /* a tenth of a second is usual; a host that swaps may take seconds */

struct oci_relay {
    struct task task;
    uv_timer_t timer;
    uv_poll_t poll;
    unsigned open_handles;
    int fd;                /* our end; -1 after it was handed over */
    struct oci_exec *exec; /* the runtime's command while it runs */
    bool ended;            /* the stream, without a greeting */
    size_t greeted;        /* bytes of the greeting that have come */
    oci_relay_fn fn;       /* NULL after it was called */
    void *arg;
};

int oci_relay_pair(int *ret_ours, int *ret_theirs, struct err *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0) {
        return err_sys(err, ERR_IO, errno, "no socket pair for the stream");
    }
    int rc = fd_set_nonblock(fds[0], err);
    if (rc < 0) {
        close(fds[0]);
        close(fds[1]);
        return rc;
    }
    *ret_ours = fds[0];
    *ret_theirs = fds[1];
    return 0;
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void relay_free(struct oci_relay *r)
{
    if (r->open_handles == 0 && r->exec == NULL) {
        task_leave(&r->task);
        fd_close(&r->fd);
        free(r);
    }
}

static void on_relay_handle_closed(uv_handle_t *handle)
{
    struct oci_relay *r = handle->data;
    r->open_handles--;
    relay_free(r);
}

static void relay_close(struct oci_relay *r)
{
    r->fn = NULL;
    if (!uv_is_closing((uv_handle_t *)&r->timer)) {
        uv_close((uv_handle_t *)&r->timer, on_relay_handle_closed);
        uv_close((uv_handle_t *)&r->poll, on_relay_handle_closed);
    }
}

static void relay_drop(struct task *task)
{
    struct oci_relay *r = (struct oci_relay *)task;
    r->exec = NULL; /* a task of its own, which is dropped as well and calls nobody */
    relay_close(r);
}

static void relay_fail(struct oci_relay *r, const struct err *err)
{
    oci_relay_fn fn = r->fn;
    void *arg = r->arg;
    relay_close(r);
    if (fn != NULL) {
        fn(arg, -err->code, -1, err);
    }
}

static void relay_hand_over(struct oci_relay *r)
{
    oci_relay_fn fn = r->fn;
    void *arg = r->arg;
    int fd = r->fd;
    uv_poll_stop(&r->poll); /* before its descriptor is somebody else's */
    r->fd = -1;
    relay_close(r);
    fn(arg, 0, fd, NULL);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void on_greeting_late(uv_timer_t *timer)
{
    struct oci_relay *r = timer->data;
    struct err err = ERR_INIT;
    err_ignore(err_set(&err, ERR_TIMEOUT, "no relay joined the agent in %d s", GREETING_MS / 1000));
    if (r->exec != NULL) {
        oci_exec_kill(r->exec);
    }
    relay_fail(r, &err);
}

static void relay_ended(struct oci_relay *r)
{
    struct err err = ERR_INIT;
    r->ended = true;
    uv_poll_stop(&r->poll);
    if (r->exec == NULL) { /* else its words are still to come */
        err_ignore(err_set(&err, ERR_ENGINE, "the relay ended before it was joined to the agent"));
        relay_fail(r, &err);
    }
}

static void on_greeting(uv_poll_t *poll, int status, int events)
{
    struct oci_relay *r = poll->data;
    char text[GREETING_LEN];
    size_t left = GREETING_LEN - r->greeted;
    (void)events;
    ssize_t n = status < 0 ? 0 : recv(r->fd, text, left, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || memcmp(text, &RELAY_GREETING[r->greeted], (size_t)n) != 0) {
        relay_ended(r);
        return;
    }
    r->greeted += (size_t)n;
    if (r->greeted == GREETING_LEN) {
        relay_hand_over(r);
    }
}

static struct oci_relay *relay_new(struct tasks *tasks, int ours, oci_relay_fn fn, void *arg)
{
    struct oci_relay *r = alloc_one(struct oci_relay);
    r->fd = ours;
    r->fn = fn;
    r->arg = arg;
    uv_timer_init(tasks->loop, &r->timer);
    uv_poll_init(tasks->loop, &r->poll, ours);
    r->timer.data = r;
    r->poll.data = r;
    r->open_handles = 2;
    task_enter(tasks, &r->task, relay_drop);
    uv_timer_start(&r->timer, on_greeting_late, GREETING_MS, 0);
    uv_poll_start(&r->poll, UV_READABLE, on_greeting);
    return r;
}

void oci_relay_greet(struct tasks *tasks, int ours, oci_relay_fn fn, void *arg)
{
    (void)relay_new(tasks, ours, fn, arg);
}

/* ---- later streams -------------------------------------------------------------------------- */

static void on_oci_relay_started(void *arg, const struct oci_exec_result *result)
{
    struct oci_relay *r = arg;
    struct err err = ERR_INIT;
    char words[OCI_WORDS_MAX];
    r->exec = NULL;
    if (result->exit_code != 0 || r->ended) {
        oci_runtime_words(result->err, words);
        err_ignore(err_set(&err, ERR_ENGINE, "the runtime starts no relay to the agent: %s",
                           words[0] != '\0'           ? words
                           : result->spawn_error != 0 ? strerror(result->spawn_error)
                                                      : "it does not say why"));
        relay_fail(r, &err);
    }
    relay_free(r);
}

int oci_relay_exec(struct tasks *tasks, const struct oci_box *box, const char *runtime,
                   const struct oci_mode *mode, oci_relay_fn fn, void *arg, struct err *err)
{
    int ours = -1;
    int theirs = -1;
    int rc = oci_relay_pair(&ours, &theirs, err);
    if (rc < 0) {
        return rc;
    }
    struct oci_args args;
    oci_args_begin(&args, runtime, mode, box->state, "exec");
    oci_args_add(&args, "--detach");
    (void)unlink(box->relay);          /* it would tell at once that the relay runs */
    oci_args_add(&args, "--pid-file"); /* without it gVisor adds the option behind our words */
    oci_args_add(&args, box->relay);
    oci_args_add(&args, box->container);
    oci_args_add(&args, OCI_ROOT_AGENT);
    oci_args_add(&args, "relay");
    oci_args_add(&args, "--socket");
    oci_args_add(&args, OCI_RELAY_SOCKET);
    struct oci_exec_options options = {
        .argv = args.items,
        .stdio_fd = theirs,
        .deadline_ms = GREETING_MS,
        .linger = true,
    };
    struct oci_relay *r = relay_new(tasks, ours, fn, arg);
    r->exec = oci_exec_start(tasks, &options, on_oci_relay_started, r);
    close(theirs);
    return 0;
}
