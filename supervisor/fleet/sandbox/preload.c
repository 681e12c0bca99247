/*
 * What a sandbox that is made for nobody imports before it is kept (--preload): one operation for
 * each module, so that it is known which one has failed, hangs, or has ended its interpreter. An
 * operation is what carries a deadline already, which the worker keeps, and which takes away what a
 * module writes while it is imported.
 *
 * A module that cannot be imported takes its interpreter with it: half of it may be there, with
 * parts that can be loaded once in a process only. The agent puts a new one in its place, so those
 * before it are imported once more, without the one that has failed. That ends, since each failure
 * leaves one less. The sandbox is good in any case, only slower for whoever wants that module.
 *
 * Nobody waits for this: no client knows of the sandbox. What ends it meanwhile ends it as a
 * creation that fails.
 */
#include <inttypes.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/str.h"
#include "common/text.h"
#include "supervisor/base/pool_option.h"
#include "supervisor/fleet/sandbox/sandbox.h"

#define REASON_BYTES 300 /* of the name of an error, and of its message */
#define LATE_MS      (TIME_INTERRUPT_MS + TIME_BACKSTOP_MS + 6000) /* after the deadline */

static void import_next(struct sandbox *s);

static bool is_left_out(const struct sandbox_preload *p, size_t module)
{
    return (p->left_out & 1u << module) != 0;
}

static void end_preload(struct sandbox *s)
{
    struct sandbox_preload *p = &s->pooled.preload;
    size_t imported = 0;
    for (size_t i = 0; p->modules != NULL && i < p->modules->count; i++) {
        if (!is_left_out(p, i)) {
            p->told(s->opening.arg, i, NULL);
            imported++;
        }
    }
    if (imported > 0) {
        log_info("sandbox has imported in advance: modules=%zu memory_mb=%" PRIu64 " sandbox=%s",
                 imported, p->resident_bytes >> 20, s->id);
    }
    sandbox_preloaded(s);
}

/* ---- one module ------------------------------------------------------------------------------ */

static void module_failed(struct sandbox *s, const char *why)
{
    struct sandbox_preload *p = &s->pooled.preload;
    size_t module = p->at;
    p->left_out |= 1u << module;
    p->at = 0;
    p->resident_bytes = 0;
    p->told(s->opening.arg, module, why);
    import_next(s);
}

/* The first of it: a sentence is wanted, and whole tracebacks may come. */
static void add_words(struct buf *out, struct view text)
{
    size_t len = text.len < REASON_BYTES ? text.len : REASON_BYTES;
    err_ignore(utf8_add_lossy(out, (const char *)text.data, len, NULL));
}

static void explain(const struct msg_output *o, struct buf *why)
{
    if (o->status == OP_STATUS_TIMEOUT) {
        err_ignore(buf_printf(why, NULL, "it was not done within %d s", TIME_PRELOAD_MS / 1000));
        return;
    }
    if (o->error_name.len > 0) {
        add_words(why, o->error_name);
        err_ignore(buf_add_str(why, ": ", NULL));
    }
    add_words(why, o->error_message);
    if (why->len == 0) {
        err_ignore(buf_add_str(why, op_status_name(o->status), NULL));
    }
}

static void module_ended(struct sandbox *s, const struct msg_output *o)
{
    struct sandbox_preload *p = &s->pooled.preload;
    uint64_t resident = o->max_rss_kb << 10;
    struct buf why;
    if (o->status == OP_STATUS_OK) {
        p->resident_bytes = resident > p->resident_bytes ? resident : p->resident_bytes;
        p->at++;
        import_next(s);
        return;
    }
    buf_init(&why, LIMIT_TEXT);
    explain(o, &why);
    module_failed(s, text_cstr(&why));
    buf_finish(&why);
}

/* ---- what its worker is asked ---------------------------------------------------------------- */

static void on_import_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                               const char *hint);

static void ask(struct sandbox *s, struct msg *m)
{
    struct err err = ERR_INIT;
    if (worker_link_ask(s->link, m, 0, on_import_answered, s, &err) < 0) {
        worker_link_kill(s->link, "%s", err.text);
    }
}

static void ask_on(struct sandbox *s, const struct msg_output *o)
{
    struct sandbox_preload *p = &s->pooled.preload;
    struct msg m = {.type = MSG_WAIT};
    if (clock_ms() > p->until_ms) {
        worker_link_kill(s->link, "an import goes on long after its deadline");
        return;
    }
    p->out_from = o->out_from + o->out.len; /* what a module says is for nobody */
    p->err_from = o->err_from + o->err.len;
    m.wait.op = view_of(p->op);
    m.wait.out_from = p->out_from;
    m.wait.err_from = p->err_from;
    m.wait.wait_ms = TIME_WAIT_MS;
    ask(s, &m);
}

static void on_import_answered(void *arg, int rc, const struct msg *reply, const struct err *err,
                               const char *hint)
{
    struct sandbox *s = arg;
    if (sandbox_is_leaving(s) || (rc < 0 && err == NULL)) {
        return; /* closed meanwhile, or the worker died: on_worker_dead() follows */
    }
    if (rc == -ERR_LANGUAGE) {
        module_failed(s, err->text);
    } else if (rc < 0) {
        sandbox_create_failed(s, err, hint);
    } else if (reply->output.state != OP_DONE) {
        ask_on(s, &reply->output);
    } else {
        sandbox_ack(s, s->pooled.preload.op, false);
        module_ended(s, &reply->output);
    }
}

static void import_next(struct sandbox *s)
{
    struct sandbox_preload *p = &s->pooled.preload;
    struct msg m = {.type = MSG_START};
    struct err err = ERR_INIT;
    while (p->modules != NULL && p->at < p->modules->count && is_left_out(p, p->at)) {
        p->at++;
    }
    if (p->modules == NULL || p->at == p->modules->count) {
        end_preload(s);
        return;
    }
    if (random_id(p->op, sizeof(p->op) - 1, &err) < 0) {
        module_failed(s, err.text);
        return;
    }
    struct view module = p->modules->names[p->at];
    p->until_ms = clock_ms() + TIME_PRELOAD_MS + LATE_MS;
    m.start.op = view_of(p->op);
    m.start.kind = OP_PRELOAD;
    m.start.language = view_of("python");
    m.start.args = (struct view_list){&module, 1};
    m.start.timeout_ms = TIME_PRELOAD_MS;
    m.start.wait_ms = TIME_WAIT_MS;
    ask(s, &m);
}

bool sandbox_is_preloading(const struct sandbox *s, size_t *ret_module)
{
    const struct sandbox_preload *p = &s->pooled.preload;
    bool begun = s->pooled.sm.state == POOLED_FILLING && p->op[0] != '\0';
    if (begun && p->at < p->modules->count) {
        *ret_module = p->at;
        return true;
    }
    return false;
}

void sandbox_begin_preload(struct sandbox *s)
{
    s->pooled.preload.at = 0;
    import_next(s);
}

/* Below what is in use the kernel would end processes, and code needs room besides. */
uint64_t sandbox_memory_least(const struct sandbox *s)
{
    return s->pooled.preload.resident_bytes * 2;
}
