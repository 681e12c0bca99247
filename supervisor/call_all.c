/*
 * All calls of a sandbox at once: what should have been over by now, and what becomes of them when
 * the sandbox or the server ends.
 */
#include <inttypes.h>

#include "common/log.h"
#include "supervisor/call_internal.h"

#define OVERDUE_MS 6000 /* after interrupt and backstop: then nobody will end it any more */
#define HINT_LEFT                                                                                  \
    "it may have been carried out: look, before doing it again, when the server is back"
#define HINT_UNHEARD "it was not begun; do it again when the server is back"

/* ---- what takes too long ---- */

static void check(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    uint64_t now = call_now_ms(call);
    uint64_t last_ms = TIME_INTERRUPT_MS + TIME_BACKSTOP_MS + OVERDUE_MS;
    bool overdue = call->began_ms != 0 && now - call->began_ms > call->timeout_ms + last_ms;
    if (!call_is_open(call)) {
        return;
    }
    if (call->stop != STOP_NONE && call->generation == s->generation) {
        if (call->stop != STOP_KILL && now - call->stopped_ms >= TIME_INTERRUPT_MS) {
            call->stop = STOP_KILL;
            call_tell_stop(call, call->stop);
        }
        overdue = overdue || now - call->stopped_ms > last_ms;
    }
    if (overdue) {
        struct err err = ERR_INIT;
        err_set(&err, ERR_INTERNAL, "the sandbox did not end the operation in time");
        log_error("call given up: neither deadline nor kill had an effect op=%s sandbox=%s "
                  "gen=%" PRIu64,
                  call->op, s->id, s->generation);
        call_fail_later(call, &err, "close this sandbox and create a new one");
    }
}

void call_check_all(struct sandbox *s)
{
    struct fleet_call *call;
    TAILQ_FOREACH(call, &s->calls, node)
    {
        check(call); /* answers later, so the list does not change here */
    }
}

/* ---- all at once ---- */

/* What is known of code whose sandbox is no more, if it is not known to have run. */
static const char *what_became(const struct fleet_call *call)
{
    if (call->was_over) {
        return "the code had ended before that, its result is lost";
    }
    return call->heard_of ? "it is not known whether the code had begun" : "the code was not begun";
}

/* What it showed is kept, and was of use to somebody even if its end is missing. */
static void end_execution(struct fleet_call *call, const struct err *cause, const char *hint)
{
    struct err err = ERR_INIT;
    if (call->known && !call->was_over && call->began_ms != 0) {
        call_answer_crashed(call, cause);
        return;
    }
    err_set(&err, cause->code, "%s; %s", cause->text, what_became(call));
    call_answer(call, -err.code, NULL, &err, hint);
}

void call_fail_all(struct sandbox *s, const struct err *err, const char *hint)
{
    struct fleet_call *call;
    while ((call = TAILQ_FIRST(&s->calls)) != NULL) {
        if (!call_is_open(call)) {
            call_on_answer_later(call);
        } else if (call->is_execution) {
            end_execution(call, err, hint);
        } else {
            call_answer(call, -err->code, NULL, err, hint);
        }
    }
}

void call_cancel_all(struct sandbox *s)
{
    struct fleet_call *call;
    while ((call = TAILQ_FIRST(&s->calls)) != NULL) {
        call_answer_cancelled(call);
    }
}

void call_leave_all(struct sandbox *s)
{
    struct fleet_call *call;
    struct err err = ERR_INIT;
    err_set(&err, ERR_SHUTTING_DOWN, "the server ends");
    while ((call = TAILQ_FIRST(&s->calls)) != NULL) {
        struct fleet_outcome outcome = call_look(call);
        if (!call_is_open(call)) {
            call_on_answer_later(call);
            continue;
        }
        call_leave_sandbox(call);
        if (call->is_execution && call->known) {
            call_tell(call, 0, &outcome, NULL, "");
        } else {
            call_tell(call, -ERR_SHUTTING_DOWN, NULL, &err,
                      call->heard_of ? HINT_LEFT : HINT_UNHEARD);
        }
    }
}
