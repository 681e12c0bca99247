/*
 * Everything about an operation is a function of its file and of the time, so that any worker can
 * go on with an operation that an earlier one began.
 */
#include "tests/lib/worker_stub_kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "proto/codec.h"
#include "proto/exit_codes.h"

/* How many operations have been begun so far. */
static uint64_t count_runs(const struct kept *k)
{
    CLEANUP_FREE char *path = alloc_printf("%s/runs", k->dir);
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

bool kept_has(const struct kept *k, const char *name)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", k->dir, name);
    return access(path, F_OK) == 0;
}

/* Reads an operation that an earlier worker began. */
bool kept_load(const struct kept *k, const char *id, struct kept_op *op)
{
    CLEANUP_FREE char *path = alloc_printf("%s/op-%s", k->dir, id);
    CLEANUP_BUF struct buf kept;
    buf_init(&kept, TEXT_MAX + 64);
    if (file_read(path, &kept, NULL) < 0) {
        return false;
    }
    const char *text = buf_cstr(&kept);
    op->start_ms = stub_number_at(&text);
    op->kind = stub_number_at(&text);
    op->timeout_ms = stub_number_at(&text);
    snprintf(op->id, sizeof(op->id), "%s", id);
    snprintf(op->code, sizeof(op->code), "%s", text);
    return true;
}

void kept_set_code(struct kept_op *op, const struct msg_start *start)
{
    struct view code = start->kind == OP_PRELOAD ? start->args.items[0] : start->data;
    snprintf(op->code, sizeof(op->code), "%.*s", VIEW_ARG(code));
}

void kept_begin(const struct kept *k, struct kept_op *op)
{
    CLEANUP_FREE char *path = alloc_printf("%s/op-%s", k->dir, op->id);
    CLEANUP_FREE char *runs = alloc_printf("%s/runs", k->dir);
    op->start_ms = clock_ms();
    CLEANUP_FREE char *text =
        alloc_printf("%llu %llu %llu %s", (unsigned long long)op->start_ms,
                     (unsigned long long)op->kind, (unsigned long long)op->timeout_ms, op->code);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CLEANUP_FD int runs_fd = open(runs, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || runs_fd < 0 || fd_write_all(fd, text, strlen(text), NULL) < 0 ||
        fd_write_all(runs_fd, "x", 1, NULL) < 0) {
        log_error("stub: cannot keep an operation: %s", strerror(errno));
        exit(EXIT_CODE_SETUP);
    }
}

/* ---- what the code does ---- */

bool stub_word_is(const char *code, const char *word, const char **ret_rest)
{
    size_t len = strlen(word);
    if (strncmp(code, word, len) != 0 || (code[len] != '\0' && code[len] != ' ')) {
        return false;
    }
    *ret_rest = code[len] == ' ' ? code + len + 1 : "";
    return true;
}

uint64_t stub_number_at(const char **text)
{
    char word[24] = "";
    size_t len = strcspn(*text, " ");
    uint64_t n = 0;
    memcpy(word, *text, len < sizeof(word) ? len : 0);
    *text += len + ((*text)[len] == ' ');
    err_ignore(str_to_u64(word, 0, UINT64_MAX, &n, NULL)); /* n is 0 then */
    return n;
}

/* The state of op at this moment as a function of time: fills o and its bytes in out and err. */
void kept_look(const struct kept *k, struct kept_op *op, struct msg_output *o, struct buf *out,
               struct buf *err)
{
    uint64_t age_ms = clock_ms() - op->start_ms;
    const char *rest;
    bool done = true;
    int rc = 0;
    o->status = OP_STATUS_OK;
    if (stub_word_is(op->code, "slow", &rest)) { /* slow <lines> <ms each> */
        uint64_t lines = stub_number_at(&rest);
        uint64_t each_ms = stub_number_at(&rest);
        uint64_t ready = each_ms == 0 ? lines : age_ms / each_ms;
        for (uint64_t i = 0; i < lines && i < ready && rc == 0; i++) {
            rc = buf_printf(out, NULL, "line %llu\n", (unsigned long long)i);
        }
        done = ready >= lines;
    } else if (stub_word_is(op->code, "sleep", &rest)) {
        done = age_ms >= stub_number_at(&rest);
    } else if (stub_word_is(op->code, "wait", &rest)) { /* until it is cancelled */
        done = op->stopped;
    } else if (stub_word_is(op->code, "stubborn", &rest)) { /* until it is killed */
        done = op->forced;
    } else if (stub_word_is(op->code, "both", &rest)) {
        rc = buf_add_str(out, "to out", NULL) < 0 || buf_add_str(err, "to err", NULL) < 0;
    } else if (stub_word_is(op->code, "big", &rest)) {
        uint64_t n = stub_number_at(&rest);
        for (uint64_t i = 0; i < n && rc == 0; i++) {
            char c = (char)('a' + i % 26);
            rc = buf_add(out, &c, 1, NULL);
        }
    } else if (stub_word_is(op->code, "runs", &rest)) {
        rc = buf_printf(out, NULL, "%llu", (unsigned long long)count_runs(k));
    } else if (stub_word_is(op->code, "gen", &rest)) {
        rc = buf_printf(out, NULL, "%llu", (unsigned long long)k->generation);
    } else if (stub_word_is(op->code, "timeout", &rest)) {
        rc = buf_printf(out, NULL, "%llu", (unsigned long long)op->timeout_ms);
    } else if (stub_word_is(op->code, "stdin", &rest)) {
        rc = buf_add(out, op->echo.data, op->echo.len, NULL);
    } else if (stub_word_is(op->code, "raise", &rest)) {
        o->status = OP_STATUS_ERROR;
        o->error_name = view_of("OddError");
        o->error_message = view_of("odd\xff");
    } else if (stub_word_is(op->code, "heavy", &rest)) {
        o->max_rss_kb = 200u << 10;
    } else if (stub_word_is(op->code, "echo", &rest)) {
        rc = buf_add_str(out, rest, NULL);
    } else { /* words that misbehave end like this after they have done so */
        rc = buf_add_str(out, "survived", NULL);
    }
    if (rc < 0) {
        exit(EXIT_CODE_NO_MEMORY);
    }
    if (op->stopped) {
        bool obeys = !stub_word_is(op->code, "stubborn", &rest) || op->forced;
        done = done || obeys;
        o->status = obeys ? OP_STATUS_CANCELLED : OP_STATUS_OK;
    }
    o->state = done ? OP_DONE : OP_RUNNING;
    o->duration_us = age_ms * 1000;
}
/* ---- for the next supervisor ---- */

struct kept_all {
    struct kept_op ops[OPS_MAX];
    size_t count;
};

/* Loads all operations of the directory, of any worker, oldest first. */
static void load_all(const struct kept *k, struct kept_all *kept)
{
    DIR *dir = opendir(k->dir);
    struct dirent *entry;
    while (dir != NULL && kept->count < OPS_MAX && (entry = readdir(dir)) != NULL) {
        struct kept_op op = {.id = ""};
        if (strncmp(entry->d_name, "op-", 3) != 0 || !kept_load(k, entry->d_name + 3, &op)) {
            continue;
        }
        size_t at = kept->count++;
        for (; at > 0 && kept->ops[at - 1].start_ms > op.start_ms; at--) {
            kept->ops[at] = kept->ops[at - 1];
        }
        kept->ops[at] = op;
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static void add_info(const struct kept *k, struct kept_op *op, struct buf *text)
{
    CLEANUP_BUF struct buf out;
    CLEANUP_BUF struct buf err;
    struct msg_output o = {.state = 0};
    struct msg m = {.type = MSG_OP_INFO};
    buf_init(&out, LIMIT_FRAME);
    buf_init(&err, LIMIT_FRAME);
    kept_look(k, op, &o, &out, &err);
    uint64_t age_ms = clock_ms() - op->start_ms;
    m.op_info.op = view_of(op->id);
    m.op_info.kind = op->kind;
    m.op_info.state = o.state;
    m.op_info.language = view_of("python");
    m.op_info.age_ms = age_ms;
    m.op_info.timeout_ms = op->timeout_ms;
    m.op_info.ran_us = age_ms * 1000;
    if (msg_encode(text, &m, NULL) < 0) {
        exit(EXIT_CODE_PROTOCOL);
    }
}

void kept_ops(const struct kept *k, uint64_t seq, struct buf *reply)
{
    static struct kept_all kept;
    CLEANUP_BUF struct buf text;
    CLEANUP_BUF struct buf idle;
    size_t ends[OPS_MAX];
    struct view items[OPS_MAX];
    struct msg r = {.type = MSG_OPS_OK, .seq = seq};
    buf_init(&text, LIMIT_FRAME);
    buf_init(&idle, 64);
    kept.count = 0;
    load_all(k, &kept);
    for (size_t i = 0; i < kept.count; i++) {
        add_info(k, &kept.ops[i], &text);
        ends[i] = text.len;
    }
    for (size_t i = 0; i < kept.count; i++) {
        size_t from = i > 0 ? ends[i - 1] : 0;
        items[i] = view_bytes(text.data + from, ends[i] - from);
    }
    r.ops_ok.ops = (struct view_list){items, kept.count};
    r.ops_ok.evals = count_runs(k);
    CLEANUP_FREE char *path = alloc_printf("%s/idle", k->dir);
    if (file_read(path, &idle, NULL) == 0) {
        const char *number = buf_cstr(&idle);
        r.ops_ok.idle_ms = stub_number_at(&number);
    }
    if (kept_has(k, "ops-garbage")) {
        items[0] = view_of("\xc1");
        r.ops_ok.ops.count = 1;
    }
    if (msg_encode(reply, &r, NULL) < 0) {
        exit(EXIT_CODE_PROTOCOL);
    }
}

bool kept_is_first(void)
{
    CLEANUP_FREE char *path = alloc_printf("%s/first", getenv("WORKER_STUB_NOTES"));
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0;
}
