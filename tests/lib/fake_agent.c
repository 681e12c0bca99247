/*
 * A stand-in for cloister-agent with the same command line, for tests of the layers above it. It
 * runs no code: the code of an operation is a script of one word and a number, so a test can make
 * the agent slow, stubborn, broken or hostile at any moment.
 *
 *     echo TEXT      ends at once with TEXT on stdout
 *     sleep MS       ends after that time; any CANCEL ends it at once. A word after the time
 *                    (crash, killed, oom, child) says how it ends
 *     stubborn MS    the same, but only a CANCEL with force ends it
 *     dying MS       ends that time after a CANCEL with force, as if the kernel were slow to end it
 *     flood BYTES    writes that many bytes, in as many chunks as needed
 *     crash          ends as CRASHED            killed       ends as ERROR with exit code 137
 *     oom            ends as killed, and counts a memory kill
 *     child          counts a memory kill, too, but succeeds
 *     mute           STATUS is not answered any more
 *     runs           writes how many operations have run so far, including this one
 *     drop           closes the stream once, without an answer, then ends with "dropped"
 *     exit           the agent's process exits without an answer
 *     garbage        sends bytes that are no frame
 *     liar           answers with the name of another operation
 *     forger         OPS reports it in a state that does not exist
 *     offset         answers with bytes from another offset
 *     event          sends an event that does not exist on this link
 *     number         answers under another number
 *     utf8           ends with bytes on stdout that are not UTF-8
 *
 * Operations of one language run one after another. Like the real agent it ends when there has been
 * no connection for its grace period. The environment chooses faults of HELLO: FAKE_HELLO =
 * version | refuse | silent | garbage | mute | later (twice, then well) | never (always "later").
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/str.h"
#include "proto/codec.h"
#include "proto/version.h"

#define OPS       LIMIT_OPS
#define LISTEN_FD 3

struct op {
    char id[LIMIT_NAME + 1];
    char language[LIMIT_NAME + 1];
    char script[256];
    enum op_state state;
    uint64_t timeout_ms, started_ms;
    uint64_t due_ms; /* time of its own end; 0 = not running */
    char ends_as[16];
    uint64_t status;
    int64_t exit_code;
    uint64_t reason;
    bool waited;       /* it had to queue */
    bool announced;    /* RUNNING was sent since the last START and HELLO */
    uint64_t begun_ms; /* when it began to run */
    uint64_t out_len;  /* bytes written so far, all text or the letter below */
    char text[256];
    uint64_t taken; /* bytes of stdin */

    bool waiting;
    uint64_t seq, out_from, err_from, wait_end_ms;
};

struct agent {
    int conn;
    uint64_t grace_ms;
    uint64_t alone_ms; /* time since which there is no connection */
    struct buf rx;
    struct op ops[OPS];
    size_t count;
    unsigned runs, started, hellos;
    uint64_t oom_kills;
    bool mute;
    bool greeted; /* the connection has said HELLO, so it is told what runs */
};

static void send_msg(struct agent *a, const struct msg *m)
{
    struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, LIMIT_FRAME);
    if (msg_encode_frame(&out, m, &err) < 0) {
        fprintf(stderr, "fake agent: %s\n", err.text);
        exit(70);
    }
    for (size_t at = 0; at < out.len && a->conn >= 0;) {
        ssize_t n = send(a->conn, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            break;
        }
        at += (size_t)n;
    }
    buf_finish(&out);
}

static void hang_up(struct agent *a)
{
    if (a->conn >= 0) {
        close(a->conn);
        a->conn = -1;
        a->alone_ms = clock_ms();
    }
    a->rx.len = 0;
    a->greeted = false;
    for (size_t i = 0; i < a->count; i++) {
        a->ops[i].waiting = false;
    }
}

static void send_output(struct agent *a, struct op *op)
{
    static char letters[LIMIT_CHUNK];
    struct msg m = {.type = MSG_OUTPUT, .seq = op->seq};
    memset(letters, 'x', sizeof(letters));
    uint64_t more = op->out_len > op->out_from ? op->out_len - op->out_from : 0;
    size_t now = more < sizeof(letters) ? (size_t)more : sizeof(letters);
    bool all = op->state == OP_DONE && now == more;
    m.output.op = view_of(op->id);
    m.output.out_from = op->out_from;
    m.output.err_from = op->err_from;
    m.output.out =
        op->text[0] != '\0' ? view_bytes(op->text + op->out_from, now) : view_bytes(letters, now);
    m.output.state = all ? OP_DONE : op->state == OP_DONE ? OP_RUNNING : op->state;
    if (op->state == OP_RUNNING) {
        m.output.duration_us = (clock_ms() - op->begun_ms) * 1000;
    }
    if (all) {
        m.output.status = op->status;
        m.output.exit_code = op->exit_code;
        m.output.duration_us = 1000;
    }
    if (strncmp(op->script, "liar", 4) == 0) {
        m.output.op = view_of("another");
    } else if (strncmp(op->script, "offset", 6) == 0) {
        m.output.out_from++;
    } else if (strncmp(op->script, "number", 6) == 0) {
        m.seq += 1000;
    }
    op->waiting = false;
    send_msg(a, &m);
}

static void finish(struct op *op, enum op_status status, int exit_code)
{
    op->state = OP_DONE;
    op->due_ms = 0;
    op->status = status;
    op->exit_code = exit_code;
}

static void say(struct op *op, const char *text)
{
    snprintf(op->text, sizeof(op->text), "%s", text);
    op->out_len = strlen(op->text);
}

static void end_as(struct agent *a, struct op *op, const char *word)
{
    a->oom_kills += strcmp(word, "child") == 0 || strcmp(word, "oom") == 0;
    if (strcmp(word, "crash") == 0) {
        finish(op, OP_STATUS_CRASHED, 139);
    } else if (strcmp(word, "killed") == 0 || strcmp(word, "oom") == 0) {
        finish(op, OP_STATUS_ERROR, 137);
    } else {
        finish(op, OP_STATUS_OK, 0);
    }
}

static void announce(struct agent *a, struct op *op)
{
    struct msg m = {.type = MSG_RUNNING};
    m.running.op = view_of(op->id);
    m.running.ran_us = (clock_ms() - op->begun_ms) * 1000;
    m.running.waited = op->waited;
    send_msg(a, &m);
    op->announced = true;
    if (op->waited) {
        op->wait_end_ms = 0;
    }
}

/* Begins a script; short ones end here. */
static void run(struct agent *a, struct op *op)
{
    char word[16] = "";
    char rest[200] = "";
    uint64_t number = 0;
    if (sscanf(op->script, "%15s %199[^\n]", word, rest) < 1) {
        word[0] = '\0';
    }
    sscanf(rest, "%lu %15s", &number, op->ends_as);
    a->runs++;
    op->state = OP_RUNNING;
    op->begun_ms = clock_ms();
    if (op->waited && a->greeted) {
        announce(a, op);
    }
    if (strcmp(word, "sleep") == 0 || strcmp(word, "stubborn") == 0) {
        op->due_ms = clock_ms() + (number > 0 ? number : 1);
        return;
    }
    if (strcmp(word, "dying") == 0) {
        return;
    }
    if (strcmp(word, "echo") == 0) {
        say(op, rest);
    } else if (strcmp(word, "flood") == 0) {
        op->out_len = number;
    } else if (strcmp(word, "runs") == 0) {
        snprintf(op->text, sizeof(op->text), "%u", a->runs);
        op->out_len = strlen(op->text);
    } else if (strcmp(word, "utf8") == 0) {
        say(op, "\xff\xfe\x80");
    } else if (strcmp(word, "mute") == 0) {
        a->mute = true;
    } else if (strcmp(word, "exit") == 0) {
        exit(0);
    } else if (strcmp(word, "drop") == 0) {
        say(op, "dropped");
        finish(op, OP_STATUS_OK, 0);
        hang_up(a);
        return;
    } else if (strcmp(word, "garbage") == 0) {
        if (send(a->conn, "\xff\xff\xff\xff not a frame", 17, MSG_NOSIGNAL) < 0) {
            hang_up(a);
        }
    } else if (strcmp(word, "event") == 0) {
        struct msg m = {.type = MSG_ENTRY};
        m.entry.path = view_of("x");
        send_msg(a, &m);
    }
    end_as(a, op, word);
}

static bool interpreter_busy(const struct agent *a, const struct op *self)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct op *op = &a->ops[i];
        if (op != self && op->state == OP_RUNNING && strcmp(op->language, self->language) == 0) {
            return true;
        }
    }
    return false;
}

static void run_queued(struct agent *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->ops[i].state == OP_QUEUED && !interpreter_busy(a, &a->ops[i])) {
            run(a, &a->ops[i]);
        }
    }
}

static struct op *find(struct agent *a, struct view id)
{
    for (size_t i = 0; i < a->count; i++) {
        if (view_is(id, a->ops[i].id)) {
            return &a->ops[i];
        }
    }
    return NULL;
}

static void fail(struct agent *a, uint64_t seq, enum err_code code, const char *text)
{
    struct msg m = {.type = MSG_FAILED, .seq = seq};
    m.failed.code = code;
    m.failed.message = view_of(text);
    send_msg(a, &m);
}

static void wait_for(struct agent *a, struct op *op, uint64_t seq, uint64_t out_from,
                     uint64_t err_from, uint64_t wait_ms)
{
    if (op->waiting) {
        send_output(a, op);
    }
    op->waiting = true;
    op->seq = seq;
    op->out_from = out_from;
    op->err_from = err_from;
    op->wait_end_ms = clock_ms() + wait_ms;
}

static void forget(struct agent *a, struct view id)
{
    struct op *op = find(a, id);
    if (op != NULL && op->state == OP_DONE) {
        size_t at = (size_t)(op - a->ops);
        a->count--;
        memmove(op, op + 1, (a->count - at) * sizeof(*op));
    }
}

static void on_start(struct agent *a, const struct msg *m)
{
    for (size_t i = 0; i < m->start.acks.count; i++) {
        forget(a, m->start.acks.items[i]);
    }
    struct op *op = find(a, m->start.op);
    if (op == NULL && m->start.join) {
        fail(a, m->seq, ERR_EXECUTION_NOT_FOUND, "no such operation");
        return;
    }
    if (op == NULL) {
        if (a->count == OPS) {
            fail(a, m->seq, ERR_BUSY, "too many operations");
            return;
        }
        op = &a->ops[a->count++];
        memset(op, 0, sizeof(*op));
        snprintf(op->id, sizeof(op->id), "%.*s", VIEW_ARG(m->start.op));
        snprintf(op->language, sizeof(op->language), "%.*s", VIEW_ARG(m->start.language));
        snprintf(op->script, sizeof(op->script), "%.*s", VIEW_ARG(m->start.data));
        op->timeout_ms = m->start.timeout_ms;
        op->started_ms = clock_ms();
        op->state = OP_QUEUED;
        a->started++;
        op->waited = interpreter_busy(a, op);
    }
    op->announced = false;
    wait_for(a, op, m->seq, m->start.out_from, m->start.err_from, m->start.wait_ms);
    run_queued(a);
}

static void on_ops(struct agent *a, const struct msg *m)
{
    struct err err = ERR_INIT;
    struct msg ok = {.type = MSG_OPS_OK, .seq = m->seq};
    struct view items[OPS];
    struct buf infos[OPS];
    uint64_t now = clock_ms();
    for (size_t i = 0; i < a->count; i++) {
        const struct op *op = &a->ops[i];
        struct msg info = {.type = MSG_OP_INFO};
        info.op_info.op = view_of(op->id);
        info.op_info.kind = OP_EVAL;
        info.op_info.state = strcmp(op->script, "forger") == 0 ? 9 : op->state;
        info.op_info.language = view_of(op->language);
        info.op_info.timeout_ms = op->timeout_ms;
        info.op_info.ran_us = op->state == OP_RUNNING ? (now - op->begun_ms) * 1000 : 0;
        info.op_info.age_ms = now - op->started_ms;
        buf_init(&infos[i], LIMIT_FRAME);
        if (msg_encode(&infos[i], &info, &err) < 0) {
            exit(70);
        }
        items[i] = view_bytes(infos[i].data, infos[i].len);
    }
    ok.ops_ok.ops = (struct view_list){items, a->count};
    ok.ops_ok.evals = a->started;
    send_msg(a, &ok);
    for (size_t i = 0; i < a->count; i++) {
        buf_finish(&infos[i]);
    }
}

static void on_cancel(struct agent *a, const struct msg *m)
{
    struct op *op = find(a, m->cancel.op);
    struct msg ok = {.type = MSG_OK, .seq = m->seq};
    uint64_t dying_ms;
    if (op != NULL && op->state != OP_DONE) {
        op->reason = op->reason != 0 ? op->reason : m->cancel.reason;
        if (sscanf(op->script, "dying %lu", &dying_ms) == 1) {
            op->due_ms = m->cancel.force ? clock_ms() + dying_ms : 0;
        } else if (m->cancel.force || strncmp(op->script, "stubborn", 8) != 0) {
            finish(op, op->reason == OP_STOP_TIMEOUT ? OP_STATUS_TIMEOUT : OP_STATUS_CANCELLED,
                   m->cancel.force ? 137 : 130);
        }
    }
    send_msg(a, &ok);
    run_queued(a);
}

static void on_hello(struct agent *a, const struct msg *m)
{
    const char *fault = getenv("FAKE_HELLO");
    struct view languages[] = {view_of("bash"), view_of("python")};
    struct msg ok = {.type = MSG_HELLO_OK, .seq = m->seq};
    fault = fault != NULL ? fault : "";
    for (size_t i = 0; i < a->count; i++) {
        a->ops[i].announced = false;
    }
    if (strcmp(fault, "refuse") == 0) {
        fail(a, m->seq, ERR_PROTOCOL, "a newer worker is here");
        return;
    }
    if (strcmp(fault, "never") == 0 || (strcmp(fault, "later") == 0 && ++a->hellos <= 2)) {
        fail(a, m->seq, ERR_IO, "cannot look for python3: Too many open files");
        return;
    }
    if (strcmp(fault, "silent") == 0) {
        return;
    }
    if (strcmp(fault, "garbage") == 0) {
        m = NULL;
        if (send(a->conn, "SSH-2.0-OpenSSH", 15, MSG_NOSIGNAL) < 0) {
            hang_up(a);
        }
        return;
    }
    ok.hello_ok.protocol = view_of(PROTO_AGENT_NAME);
    ok.hello_ok.version = strcmp(fault, "version") == 0 ? PROTO_VERSION + 1 : PROTO_VERSION;
    ok.hello_ok.build = view_of("fake");
    ok.hello_ok.pid = (uint64_t)getpid();
    ok.hello_ok.languages.items = languages;
    ok.hello_ok.languages.count = strcmp(fault, "mute") == 0 ? 0 : 2;
    ok.hello_ok.looked = view_of(strcmp(fault, "mute") == 0 ? "/bin: Permission denied" : "");
    send_msg(a, &ok);
    a->greeted = true;
}

static void handle(struct agent *a, const struct msg *m)
{
    struct msg answer = {.seq = m->seq};
    struct op *op;
    switch (m->type) {
    case MSG_HELLO:
        on_hello(a, m);
        break;
    case MSG_START:
        on_start(a, m);
        break;
    case MSG_WAIT:
        op = find(a, m->wait.op);
        if (op == NULL) {
            fail(a, m->seq, ERR_EXECUTION_NOT_FOUND, "no such operation");
        } else {
            wait_for(a, op, m->seq, m->wait.out_from, m->wait.err_from, m->wait.wait_ms);
        }
        break;
    case MSG_CANCEL:
        on_cancel(a, m);
        break;
    case MSG_STATUS:
        answer.type = MSG_STATUS_OK;
        answer.status_ok.ops_total = a->count;
        answer.status_ok.disk_bytes = 4096;
        answer.status_ok.oom_kills = a->oom_kills;
        if (!a->mute) {
            send_msg(a, &answer);
        }
        break;
    case MSG_LIMITS:
        answer.type = MSG_OK;
        if (!a->mute) {
            send_msg(a, &answer);
        }
        break;
    case MSG_INPUT:
        op = find(a, m->input.op);
        if (op == NULL) {
            fail(a, m->seq, ERR_EXECUTION_NOT_FOUND, "no such operation");
            break;
        }
        if (m->input.at == op->taken) {
            op->taken += m->input.data.len;
        }
        answer.type = MSG_INPUT_OK;
        answer.input_ok.next = op->taken;
        send_msg(a, &answer);
        break;
    case MSG_OPS:
        on_ops(a, m);
        break;
    case MSG_SHUTDOWN:
        exit(0);
    default:
        hang_up(a);
        break;
    }
}

static uint64_t announce_at_ms(const struct agent *a, const struct op *op)
{
    bool due = op->state == OP_RUNNING && !op->announced && a->greeted;
    return !due ? UINT64_MAX : op->begun_ms + (op->waited ? 0 : TIME_RUNNING_MS);
}

/* Ends what is over, reports what runs, answers who has waited enough; returns the time to the next
 * such event. */
static int tick(struct agent *a)
{
    uint64_t now = clock_ms();
    uint64_t next = now + 1000;
    if (a->conn < 0 && now >= a->alone_ms + a->grace_ms) {
        exit(0);
    }
    for (size_t i = 0; i < a->count; i++) {
        struct op *op = &a->ops[i];
        if (op->due_ms != 0 && op->due_ms <= now) {
            end_as(a, op, op->ends_as);
        }
    }
    run_queued(a);
    for (size_t i = 0; i < a->count; i++) {
        struct op *op = &a->ops[i];
        if (announce_at_ms(a, op) <= now) {
            announce(a, op);
        }
        if (op->waiting &&
            (op->state == OP_DONE || op->out_len > op->out_from || op->wait_end_ms <= now)) {
            send_output(a, op);
        }
        if (op->due_ms != 0 && op->due_ms < next) {
            next = op->due_ms;
        }
        if (announce_at_ms(a, op) < next) {
            next = announce_at_ms(a, op);
        }
        if (op->waiting && op->wait_end_ms < next) {
            next = op->wait_end_ms;
        }
    }
    return next > now ? (int)(next - now) : 0;
}

static void read_conn(struct agent *a)
{
    struct err err = ERR_INIT;
    if (buf_reserve(&a->rx, 65536, &err) < 0) {
        exit(70);
    }
    ssize_t n = read(a->conn, a->rx.data + a->rx.len, a->rx.cap - a->rx.len);
    if (n <= 0) {
        hang_up(a);
        return;
    }
    a->rx.len += (size_t)n;
    for (;;) {
        struct view payload;
        size_t used;
        struct msg m;
        int rc = frame_next(a->rx.data, a->rx.len, LIMIT_FRAME, &payload, &used, &err);
        if (rc == 0) {
            return;
        }
        if (rc < 0 || msg_decode(MSG_LINK_A, payload.data, payload.len, &m, &err) < 0) {
            fprintf(stderr, "fake agent: the worker sent garbage: %s\n", err.text);
            exit(70);
        }
        handle(a, &m);
        msg_finish(&m);
        if (a->conn < 0) {
            return;
        }
        buf_consume(&a->rx, used);
    }
}

int main(int argc, char **argv)
{
    struct agent *a = alloc_one(struct agent);
    struct err err = ERR_INIT;
    a->conn = -1;
    a->grace_ms = TIME_GRACE_MS;
    a->alone_ms = clock_ms();
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--grace-ms") == 0 &&
            str_to_u64(argv[i + 1], 1, UINT32_MAX, &a->grace_ms, &err) < 0) {
            return 64;
        }
    }
    buf_init(&a->rx, LIMIT_FRAME + 65536);
    for (;;) {
        int timeout = tick(a);
        struct pollfd fds[] = {{LISTEN_FD, POLLIN, 0}, {a->conn, POLLIN, 0}};
        if (poll(fds, 2, timeout) < 0) {
            continue;
        }
        if (fds[0].revents != 0) {
            int conn = accept(LISTEN_FD, NULL, NULL);
            if (conn >= 0) {
                hang_up(a);
                a->conn = conn;
                continue;
            }
        }
        if (a->conn >= 0 && fds[1].revents != 0) {
            read_conn(a);
        }
    }
}
