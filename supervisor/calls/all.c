/*
 * All calls of a sandbox at once: those that should have ended, and all of them when the sandbox or
 * the server ends.
 */
#include <inttypes.h>

#include "common/log.h"
#include "supervisor/calls/call_internal.h"

#define OVERDUE_MS 6000 /* after interrupt and backstop; then nobody will end it any more */
#define HINT_LEFT                                                                                  \
    "it may have been carried out: look, before doing it again, when the server is back"
#define HINT_UNHEARD "it was not begun; do it again when the server is back"
#define HINT_SILENT                                                                                \
    "it may have been carried out: look, before doing it again, when the sandbox answers; its "    \
    "engine may be busy or stopped"
#define HINT_SILENT_UNHEARD                                                                        \
    "it was not begun; do it again when the sandbox answers: its engine may be busy or stopped"

/* ---- overdue calls --------------------------------------------------------------------------- */

/* Reports code as running. Other operations leave nothing that could be fetched later, so they
 * fail. */
static void fail_silent(struct fleet_call *call, uint64_t passed_ms)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_ENGINE,
            "the sandbox has not answered for %" PRIu64 " s; it is not known to have ended",
            passed_ms / 1000);
    call_fail_later(call, &err, call->heard_of ? HINT_SILENT : HINT_SILENT_UNHEARD);
}

/* For how long it has waited in vain. Other than calls of tools a connection may last, and during a
 * pause it waits for nothing. */
static uint64_t waited_ms(const struct fleet_call *call)
{
    uint64_t since_ms = call->entered_ms;
    if (call->flow != NULL && call->paused && call->stop == STOP_NONE) {
        return 0;
    }
    if (call->flow != NULL) {
        since_ms = call->heard_ms > since_ms ? call->heard_ms : since_ms;
        since_ms = call->resumed_ms > since_ms ? call->resumed_ms : since_ms;
    }
    return call_now_ms(call) - since_ms;
}

static void check_call(struct fleet_call *call)
{
    struct sandbox *s = call->sandbox;
    /* Measured by the replies: a sandbox that was stopped gets some time to end the operation when
     * it continues. */
    bool overdue = call->late_ms != 0 && call->heard_ms > call->late_ms + OVERDUE_MS;
    if (!call_is_open(call)) {
        return;
    }
    if (!call->is_execution && call_is_silent(call) && !sandbox_is_installer(s) &&
        waited_ms(call) >= fleet_host_patience_ms(s->host)) {
        fail_silent(call, waited_ms(call));
        return;
    }
    if (call->stop != STOP_NONE && call->generation == s->generation) {
        if (call->stop != STOP_KILL && call_now_ms(call) - call->stopped_ms >= TIME_INTERRUPT_MS) {
            call->stop = STOP_KILL;
            call_tell_stop(call, call->stop);
        }
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
        check_call(call); /* the answer is deferred, so the list does not change here */
        call_inputs_check(call);
    }
}

/* ---- all calls at once ----------------------------------------------------------------------- */

/* Describes the end of code that is not known to have run when its sandbox ended. */
static const char *what_became(const struct fleet_call *call)
{
    if (call->was_over) {
        return "the code had ended before that, its result is lost";
    }
    return call->heard_of ? "it is not known whether the code had begun" : "the code was not begun";
}

/* Ends an execution. Its output so far is kept, and is useful even without its end. */
static void end_execution(struct fleet_call *call, const struct err *cause, const char *hint)
{
    struct err err = ERR_INIT;
    if (call->known && !call->was_over && call->runs) {
        call_answer_crashed(call, cause);
        return;
    }
    err_set(&err, (enum err_code)cause->code, "%s; %s", cause->text, what_became(call));
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
