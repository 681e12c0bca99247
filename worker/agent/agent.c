/*
 * The loop. A round collects what to wait for, polls, handles what came, and settles. Processes are
 * handled before requests, so that an operation that ended by itself counts as ended when a request
 * asks to stop it. Settling starts queued operations, enforces the backstop deadlines, and answers
 * waits whose operations have progress or that have timed out. It walks over all operations; there
 * are at most LIMIT_OPS.
 *
 * Operations belong to the agent, so they survive the loss of a link. Without a link for the grace
 * period the agent ends the sandbox: a sandbox that has no owner any more does not stay.
 *
 * The kernel shields pid 1 from every signal of its own namespace that has no handler. So the agent
 * installs none and receives SIGCHLD through a descriptor. As pid 1 it gets SIGTERM there, too, by
 * which whoever keeps the container asks it to end, and obeys only if that came from outside the
 * namespace. It is not dumpable, so user code can neither trace it nor read its memory, whatever
 * uid it has.
 */
#include "worker/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "proto/exit_codes.h"
#include "worker/agent/files/op.h"
#include "worker/agent/link/endpoint.h"
#include "worker/agent/link/relay.h"
#include "worker/agent/process/killtree.h"
#include "worker/agent/process/places.h"
#include "worker/agent/run/connect.h"

#define END_MS        2000 /* for keepers to end everything before we go */
#define ROOT_TEXT_MAX 250
#define MMAP_BYTES    65536 /* larger allocations go back to the system when freed */

static const struct lang *const langs[AGENT_INTERPS] = {&lang_python, &lang_node, &lang_bash};

/* ---- links ----------------------------------------------------------------------------------- */

void agent_drop_link(struct agent *a, struct link *l)
{
    link_close(l);
    if (l != a->current) {
        return;
    }
    a->current = NULL;
    a->alone_since_ms = clock_ms();
    installs_untell(&a->installs);
    doorway_cut(&a->doorway);
    for (size_t i = 0; i < a->ops.count; i++) {
        a->ops.items[i]->waiter.active = false; /* the next link sends START again */
    }
}

/* The worker is outside of our pid namespace, so its pid reads as 0, as does that of the parent of
 * pid 1. A relay that an engine starts inside the sandbox has our uid, which user code does not
 * have. Only relays can connect to a socket that the agent made itself.
 */
static bool peer_is_welcome(const struct agent *a, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0) {
        return false;
    }
    bool own_uid = !a->config.spawn.single_uid && geteuid() != a->config.spawn.uid;
    if (a->config.listen != NULL && peer.uid != geteuid()) {
        return false;
    }
    return peer.pid == 0 || (a->relay != 0 && peer.pid == a->relay) || peer.pid == a->parent ||
           a->config.any_peer || (own_uid && peer.uid == geteuid());
}

/* A free place. If there is none, closes the connection that has waited longest without a HELLO. */
static struct link *place_for_link(struct agent *a)
{
    struct link *oldest = NULL;
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        struct link *l = &a->links[i];
        if (!link_is_open(l)) {
            return l;
        }
        if (l != a->current && (oldest == NULL || l->since_ms < oldest->since_ms)) {
            oldest = l;
        }
    }
    link_close(oldest);
    return oldest;
}

static void accept_link(struct agent *a)
{
    int fd = accept4(a->config.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    if (!peer_is_welcome(a, fd)) {
        log_warn("connection refused: it comes from inside the sandbox");
        close(fd);
        return;
    }
    link_open(place_for_link(a), fd);
}

static void take_requests(struct agent *a, struct link *l)
{
    while (link_is_open(l) && !l->last && !a->stopping && link_has_room(l)) {
        struct err err = ERR_INIT;
        struct msg m;
        size_t used = 0;
        int rc = link_next(l, &m, &used, &err);
        if (rc == 0) {
            return;
        }
        if (rc > 0) {
            rc = agent_request(a, l, &m, &err);
            link_next_done(l, &m, used);
        }
        if (rc < 0) {
            log_warn("link closed: %s", err.text);
            agent_drop_link(a, l);
            return;
        }
    }
}

static void handle_link(struct agent *a, struct link *l, short got)
{
    struct err err = ERR_INIT;
    int rc = 0;
    if (got & POLLOUT) {
        rc = link_flush(l, &err);
    }
    if (rc == 0 && (got & (POLLIN | POLLHUP | POLLERR))) {
        rc = link_read(l, &err);
    }
    if (rc < 0) {
        log_debug("link lost: %s", err.text);
        agent_drop_link(a, l);
        return;
    }
    take_requests(a, l);
}

static void expire_links(struct agent *a, uint64_t now_ms)
{
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        struct link *l = &a->links[i];
        if (!link_is_open(l)) {
            continue;
        }
        bool said_all = l->last && l->out.len == 0;
        bool late = l != a->current && now_ms - l->since_ms >= TIME_HELLO_MS;
        if (said_all || late) {
            agent_drop_link(a, l);
        }
    }
}

/* ---- settling -------------------------------------------------------------------------------- */

struct interp *agent_find_interp(struct agent *a, struct view language)
{
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        if (a->interps[i].path != NULL && view_is(language, a->interps[i].lang->name)) {
            return &a->interps[i];
        }
    }
    return NULL;
}

static void begin_queued(struct agent *a)
{
    struct op *program;
    while (programs_have_room(&a->programs) && (program = op_next(&a->ops, NULL)) != NULL) {
        programs_begin(&a->programs, &a->ops, program);
    }
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        struct interp *in = &a->interps[i];
        struct op *op;
        while (interp_is_free(in) && (op = op_next(&a->ops, in)) != NULL) {
            interp_begin(in, &a->ops, op);
        }
    }
}

/* When RUNNING is due, in clock_ms(). Most operations end before that; one whose files are looked
 * for has ended, too. */
static uint64_t announce_at_ms(const struct op *op)
{
    if (op_state(op) != OP_RUNNING || op->announced || op->scan != NULL) {
        return UINT64_MAX;
    }
    return op->begun_us / 1000 + (op->waited ? 0 : TIME_RUNNING_MS);
}

/* Tells the worker how long the operation has run, for its deadline. The wait of one that was
 * queued is answered, so that the client sees that it runs. */
static void announce(struct agent *a, struct op *op, uint64_t now_ms)
{
    if (now_ms < announce_at_ms(op) || a->current == NULL || !link_has_room(a->current)) {
        return;
    }
    struct msg m = {.type = MSG_RUNNING};
    m.running.op = view_of(op->id);
    m.running.ran_us = op_ran_us(op);
    m.running.waited = op->waited;
    op->announced = true;
    if (op->waited) {
        op->waiter.until_ms = 0;
    }
    agent_send(a, a->current, &m);
}

static void enforce_deadline(struct agent *a, struct op *op, uint64_t now_ms)
{
    if (op_state(op) != OP_RUNNING || op->kill_at_ms == 0 || now_ms < op->kill_at_ms) {
        return;
    }
    op->kill_at_ms = 0;
    if (op->file != NULL) {
        fileop_stop(op, OP_STOP_TIMEOUT);
    } else if (op->connect != NULL) {
        connect_stop(&a->ops, op, OP_STOP_TIMEOUT);
    } else if (op->scan != NULL) {
        changes_stop(op);
    } else if (op->program != NULL) {
        program_stop(op, OP_STOP_TIMEOUT, true);
    } else {
        interp_stop(op->interp, &a->ops, OP_STOP_TIMEOUT, true);
    }
}

/* It runs code of a client, and does not only look for the files that this has changed. */
static bool runs_code(const struct op *op)
{
    return op_is_execution(op->kind) && op_state(op) == OP_RUNNING && op->scan == NULL;
}

static bool any_code_runs(const struct agent *a)
{
    for (size_t i = 0; i < a->ops.count; i++) {
        if (runs_code(a->ops.items[i])) {
            return true;
        }
    }
    return false;
}

static void answer_op(struct agent *a, struct op *op, uint64_t now_ms)
{
    struct op_waiter *w = &op->waiter;
    if (!w->active || a->current == NULL || !link_has_room(a->current)) {
        return;
    }
    bool wishes = runs_code(op) && installs_have_untold(&a->installs);
    if (op_has_progress(op, w->out_from, w->err_from) || wishes || now_ms >= w->until_ms) {
        struct msg m;
        struct op_lists lists;
        struct view installs[LIMIT_INSTALLS];
        op_output(op, w, true, &lists, &m);
        if (runs_code(op)) {
            m.output.installs = installs_take(&a->installs, installs);
        }
        w->active = false;
        agent_send(a, a->current, &m);
    }
}

static void settle(struct agent *a)
{
    uint64_t now_ms = clock_ms();
    for (size_t i = 0; i < a->ops.count; i++) {
        enforce_deadline(a, a->ops.items[i], now_ms);
    }
    begin_queued(a);
    now_ms = clock_ms(); /* not before the beginning of what has begun just now */
    if (!any_code_runs(a)) {
        installs_end(&a->installs);
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        struct op *op = a->ops.items[i];
        op->waited = op->waited || op_state(op) == OP_QUEUED;
        announce(a, op, now_ms);
        answer_op(a, op, now_ms);
    }
    expire_links(a, now_ms);
    /* The clock is read again: sending an answer may have lost the link after now_ms. */
    if (a->current == NULL && clock_ms() - a->alone_since_ms >= a->config.grace_ms) {
        a->stopping = true;
        a->exit_code = EXIT_CODE_ORPHANED;
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_deadline_ms(const struct agent *a)
{
    uint64_t at = a->current == NULL ? a->alone_since_ms + a->config.grace_ms : UINT64_MAX;
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        if (link_is_open(&a->links[i]) && &a->links[i] != a->current) {
            at = earlier(at, a->links[i].since_ms + TIME_HELLO_MS);
        }
    }
    /* a link whose peer does not read wakes the loop by its socket, not by a timeout */
    bool can_answer = a->current != NULL && link_has_room(a->current);
    for (size_t i = 0; i < a->ops.count; i++) {
        const struct op *op = a->ops.items[i];
        if (op->waiter.active && can_answer) {
            at = earlier(at, op->waiter.until_ms);
        }
        if (can_answer) {
            at = earlier(at, announce_at_ms(op));
        }
        if (op->kill_at_ms > 0) {
            at = earlier(at, op->kill_at_ms);
        }
    }
    return at;
}

static int collect(struct agent *a)
{
    struct poll_set *set = &a->polls;
    poll_set_clear(set);
    a->listen_slot = poll_set_add(set, a->config.listen_fd, POLLIN);
    a->signal_slot = poll_set_add(set, a->signal_fd, POLLIN);
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        const struct link *l = &a->links[i];
        int events = (!l->last && link_has_room(l) ? POLLIN : 0) | (l->out.len > 0 ? POLLOUT : 0);
        a->link_slots[i] = poll_set_add(set, l->fd, (short)events);
    }
    uint64_t now_us = clock_us();
    uint64_t wake_us = UINT64_MAX;
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        wake_us = earlier(wake_us, interp_poll(&a->interps[i], set, now_us));
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        input_poll(&a->ops.items[i]->input, set);
        if (a->ops.items[i]->file != NULL) {
            fileop_poll(a->ops.items[i], set);
        } else if (a->ops.items[i]->connect != NULL) {
            connect_poll(a->ops.items[i], set);
        } else if (a->ops.items[i]->scan != NULL) {
            changes_poll(a->ops.items[i], set);
        }
    }
    installs_poll(&a->installs, set);
    doorway_poll(&a->doorway, set);
    uint64_t now_ms = now_us / 1000;
    uint64_t at_ms = earlier(next_deadline_ms(a), programs_poll(&a->programs, set));
    uint64_t wait_ms = at_ms == UINT64_MAX ? UINT64_MAX : at_ms > now_ms ? at_ms - now_ms : 0;
    if (wake_us != UINT64_MAX) {
        wait_ms = earlier(wait_ms, wake_us / 1000 + 1);
    }
    return wait_ms == UINT64_MAX ? -1 : (int)earlier(wait_ms, INT32_MAX);
}

static bool is_keeper(const struct agent *a, pid_t pid)
{
    bool any = programs_have_keeper(&a->programs, pid);
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        any = any || a->interps[i].keeper.pid == pid;
    }
    return any;
}

/* Code in the sandbox has a pid here, and the kernel lets nobody forge the one of kill(). */
static bool is_order_to_end(const struct signalfd_siginfo *info)
{
    return info->ssi_signo == SIGTERM && info->ssi_code == SI_USER && info->ssi_pid == 0;
}

static void take_signals(struct agent *a)
{
    struct signalfd_siginfo info;
    while (read(a->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        a->stopping = a->stopping || is_order_to_end(&info);
    }
}

static void reap_children(struct agent *a)
{
    bool strays = false;
    for (;;) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            break;
        }
        if (pid == a->relay) {
            a->relay = 0; /* its client is gone; the next client starts another relay */
            continue;
        }
        bool known = programs_reaped(&a->programs, &a->ops, pid);
        for (size_t i = 0; i < a->ops.count && !known; i++) {
            known = fileop_reaped(a->ops.items[i], pid) || changes_reaped(a->ops.items[i], pid);
        }
        /* a keeper exits by itself; if it was killed, its interpreter's processes are now our
         * children */
        bool orphans = a->has_orphans || a->programs.has_orphans;
        bool may_be_keeper = !known && (!orphans || is_keeper(a, pid));
        strays = strays || (may_be_keeper && WIFSIGNALED(status));
    }
    if (!strays) {
        return;
    }
    pid_t known[1 + AGENT_INTERPS + 2 * LIMIT_PROGRAMS + LIMIT_OPS];
    size_t n = programs_children(&a->programs, known);
    known[n++] = a->relay;
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        known[n++] = a->interps[i].keeper.pid;
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        if (a->ops.items[i]->file != NULL) {
            known[n++] = a->ops.items[i]->file->pid;
        } else if (a->ops.items[i]->scan != NULL) {
            known[n++] = a->ops.items[i]->scan->pid;
        }
    }
    killtree_strays(known, n);
}

static void handle(struct agent *a)
{
    const struct poll_set *set = &a->polls;
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        a->has_orphans = a->has_orphans || a->interps[i].keeper.leaves_orphans;
        interp_handle(&a->interps[i], set, &a->ops);
    }
    programs_handle(&a->programs, set, &a->ops);
    for (size_t i = 0; i < a->ops.count; i++) {
        input_handle(&a->ops.items[i]->input, set);
        if (a->ops.items[i]->file != NULL) {
            fileop_handle(&a->changes, &a->ops, a->ops.items[i], set);
        } else if (a->ops.items[i]->connect != NULL) {
            connect_handle(&a->ops, a->ops.items[i], set);
        } else if (a->ops.items[i]->scan != NULL) {
            changes_handle(&a->changes, &a->ops, a->ops.items[i], set);
        }
    }
    if (poll_set_got(set, a->signal_slot) != 0) {
        take_signals(a);
        reap_children(a);
    }
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        short got = poll_set_got(set, a->link_slots[i]);
        if (got != 0 && link_is_open(&a->links[i])) {
            handle_link(a, &a->links[i], got);
        } else if (link_is_open(&a->links[i])) {
            take_requests(a, &a->links[i]); /* requests that waited for the peer to read */
        }
    }
    installs_handle(&a->installs, set, any_code_runs(a));
    doorway_handle(&a->doorway, set);
    /* last: accepting may reuse a place, which must have been handled by then */
    if (poll_set_got(set, a->listen_slot) != 0) {
        accept_link(a);
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static int set_up_agent_process(struct agent *a, struct err *err)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    if (getpid() == 1) {
        sigaddset(&taken, SIGTERM);
    }
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ||
        sigprocmask(SIG_SETMASK, &taken, NULL) < 0) {
        return err_sys(err, ERR_INTERNAL, errno, "cannot set the process up");
    }
    /* a broken pipe must be an error of write(), also when the agent is not pid 1 */
    struct sigaction ignore;
    memset(&ignore, 0, sizeof(ignore));
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, NULL);
    a->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signal_fd < 0) {
        return err_sys(err, ERR_INTERNAL, errno, "cannot wait for signals");
    }
    int rc = 0;
    if (a->config.listen != NULL) {
        rc = endpoint_listen(a->config.listen, &a->config.listen_fd, err);
    }
    if (rc == 0) {
        rc = fd_set_nonblock(a->config.listen_fd, err);
    }
    return rc < 0 ? rc : fd_set_cloexec(a->config.listen_fd, true, err);
}

void agent_set_up_languages(struct agent *a)
{
    /* kill(-1) is only allowed in a pid namespace of our own */
    bool alone = getpid() == 1;
    programs_init(&a->programs, &a->config.spawn, alone);
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        interp_init(&a->interps[i], langs[i], &a->config.spawn, alone);
    }
    agent_look_for_languages(a);
}

bool agent_has_interp(const struct agent *a)
{
    bool any = false;
    for (size_t i = 0; i < AGENT_INTERPS && !any; i++) {
        any = a->interps[i].path != NULL;
    }
    return any;
}

static bool has_any_language(const struct agent *a)
{
    const struct runners *r = &a->programs.runners;
    bool any = agent_has_interp(a);
    for (size_t i = 0; i < r->count && !any; i++) {
        any = r->items[i].there == SPAWN_FOUND;
    }
    return any;
}

void agent_explain_languages(const struct agent *a, char *out, size_t size)
{
    const char *programs[AGENT_INTERPS];
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        programs[i] = langs[i]->program;
    }
    places_explain(&a->config.spawn, programs, AGENT_INTERPS, out, size);
}

/* A moment later all may be there, and nobody could say why it was not. */
static void note_what_there_is(struct agent *a)
{
    if (a->looked == NULL) {
        a->looked = alloc_array(PLACES_MAX, 1);
        agent_explain_languages(a, a->looked, PLACES_MAX);
    }
}

void agent_look_for_languages(struct agent *a)
{
    struct runners *r = &a->programs.runners;
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        interp_look(&a->interps[i]);
    }
    runners_look(r, &a->config.spawn);
    if (!has_any_language(a)) {
        for (size_t i = 0; i < AGENT_INTERPS; i++) {
            interp_doubt(&a->interps[i]);
        }
        runners_doubt(r);
        note_what_there_is(a);
    }
}

int agent_check_languages(const struct agent *a, struct err *err)
{
    for (size_t i = 0; i < AGENT_INTERPS && !has_any_language(a); i++) {
        const struct interp *in = &a->interps[i];
        if (in->look_sys != 0) {
            return err_sys(err, ERR_IO, in->look_sys, "cannot look for %s", in->lang->program);
        }
    }
    return 0;
}

/* An engine may start a container whose file system is not mounted: its root is then the directory
 * for that, which is closed to everybody but root. The agent, which is static, would run in it. */
static int check_root(const struct agent *a, struct err *err)
{
    char places[ROOT_TEXT_MAX];
    CLEANUP_FD int fd = spawn_open_as_user(&a->config.spawn, "/.", O_PATH | O_DIRECTORY);
    if (fd >= 0 || errno != EACCES) {
        return 0;
    }
    agent_explain_languages(a, places, sizeof(places));
    return err_set(err, ERR_DENIED,
                   "user code may not enter the root, so it is not that of its image: %s", places);
}

/* Waits until the keepers have killed everything. Pid 1 need not wait: when it exits, the kernel
 * kills every process of the namespace. */
static void wait_for_keepers(const struct agent *a)
{
    uint64_t until = clock_ms() + END_MS;
    for (uint64_t now = clock_ms(); getpid() != 1 && now < until; now = clock_ms()) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) {
            return;
        }
        struct pollfd child = {.fd = a->signal_fd, .events = POLLIN};
        if (pid == 0 && poll(&child, 1, (int)(until - now)) > 0) {
            struct signalfd_siginfo info;
            (void)!read(a->signal_fd, &info, sizeof(info));
        }
    }
}

static void end_all(struct agent *a)
{
    /* first, so that a relay that is not accepted yet ends too */
    close(a->config.listen_fd);
    if (a->config.listen != NULL) {
        unlink(a->config.listen);
    }
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        link_close(&a->links[i]);
    }
    for (size_t i = 0; i < a->ops.count; i++) {
        struct op *op = a->ops.items[i];
        if (op->file != NULL) {
            fileop_stop(op, OP_STOP_CANCEL);
            close(op->file->out_fd);
            close(op->file->report_fd);
            free(op->file);
            op->file = NULL;
        }
        connect_drop(op);
    }
    for (size_t i = 0; i < AGENT_INTERPS; i++) {
        interp_finish(&a->interps[i]); /* closing the command pipe is the order */
    }
    programs_finish(&a->programs);
    installs_finish(&a->installs);
    doorway_finish(&a->doorway);
    wait_for_keepers(a);
    op_table_finish(&a->ops);
    changes_finish(&a->changes);
    close(a->signal_fd);
    oom_close(&a->oom);
}

int agent_run(const struct agent_config *config, struct err *err)
{
    struct agent *a = alloc_one(struct agent);
    a->config = *config;
    a->parent = getppid();
    a->alone_since_ms = clock_ms();
    a->exit_code = EXIT_CODE_OK;
    op_table_init(&a->ops);
    installs_init(&a->installs, config->installs_fd);
    doorway_init(&a->doorway, config->door_fd, agent_doorway_link(a));
    changes_init(&a->changes, &a->config.spawn);
    a->ops.changes = &a->changes;
    for (size_t i = 0; i < AGENT_LINKS; i++) {
        link_init(&a->links[i]);
    }
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
#endif
    if (check_root(a, err) < 0 || set_up_agent_process(a, err) < 0 ||
        (config->relay_stdio && relay_start(config->listen, &a->relay, err) < 0)) {
        installs_finish(&a->installs);
        doorway_finish(&a->doorway);
        free(a);
        return EXIT_CODE_SETUP;
    }
    oom_open(&a->oom, OOM_CGROUPS, OOM_SELF);
    agent_set_up_languages(a);
    while (!a->stopping) {
        int wait_ms = collect(a);
        if (poll(a->polls.fds, (nfds_t)a->polls.count, wait_ms) < 0) {
            if (errno != EINTR) {
                log_error("poll: %s", strerror(errno));
            }
            continue; /* the slots are those of the last round */
        }
        handle(a);
        settle(a);
    }
    int code = a->exit_code;
    if (code == EXIT_CODE_ORPHANED) {
        err_set(err, ERR_GONE, "nobody came back within %llu ms",
                (unsigned long long)config->grace_ms);
    }
    end_all(a);
    free(a->looked);
    free(a);
    return code;
}
