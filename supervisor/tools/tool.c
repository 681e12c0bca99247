/*
 * The life of a tool call, and the default sandbox.
 *
 * A call that names no sandbox uses the session's default one. The first such call creates it;
 * calls that arrive meanwhile wait and share the outcome, good or bad. The sandbox may end at any
 * time (closed, expired, lost), so each call looks its id up again, and creates a new one if it is
 * gone; the client is told, since its variables and files are lost. An earlier server may have left
 * a default sandbox, so the fleet is asked for one first.
 */
#include "supervisor/tools/tool.h"

#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/base/principal.h"
#include "supervisor/links/links.h"
#include "supervisor/links/mime.h"
#include "supervisor/links/uri.h"
#include "supervisor/tools/args.h"

/* Clients get progress twice a second. The interval is a bit longer, since the layer drops a
 * notification that comes a moment too early. */
#define OUTPUT_EVERY_MS 520

#define LEAST_WAIT_MS 1000 /* for code, if its call was slow to start */

void tool_session_init(struct tool_session *s, struct fleet *fleet, const struct config *config,
                       const struct tool_services *services, const struct principal *principal,
                       enum tool_default kind)
{
    *s = (struct tool_session){
        .fleet = fleet,
        .config = config,
        .services = services,
        .principal = principal,
        .owner = principal->name,
        .kind = kind,
        .name = "",
    };
}

static void on_left_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    (void)arg, (void)hint;
    if (rc < 0 && rc != -ERR_SANDBOX_NOT_FOUND && rc != -ERR_SHUTTING_DOWN) {
        log_warn("a sandbox that nobody can name any more did not close: %s", err->text);
    }
}

static void let_sandbox_go(struct tool_session *s, const char *id,
                           void (*unused)(struct tool_session *s))
{
    /* Code that a call has left running goes on even if the connection was lost. */
    bool stays = s->lost && id[0] != '\0' && fleet_retire(s->fleet, id);
    if (s->kind == TOOL_DEFAULT_SESSION && id[0] != '\0' && !stays) {
        fleet_close(s->fleet, id, on_left_closed, NULL);
    }
    unused(s);
}

void tool_session_revive(struct tool_session *s)
{
    s->unused = NULL;
}

void tool_open(struct tool_session *s, const struct fleet_spec *spec, fleet_info_fn done, void *arg)
{
    struct fleet_spec limited = *spec;
    limited.owner_sandboxes = s->principal->limits.sandboxes;
    limited.owner_memory_mb = s->principal->limits.memory_mb;
    fleet_open(s->fleet, s->owner, &limited, done, arg);
}

void tool_finish(struct tool_call *call, struct result *result)
{
    struct result mine = *result;
    *result = (struct result){NULL, NULL, false};
    if (call->in_fresh && call->cancelled) {
        /* nobody learns the sandbox's id */
        fleet_close(call->session->fleet, call->sandbox_id, on_left_closed, NULL);
    } else if (call->in_fresh) {
        CLEANUP_FREE char *text = alloc_printf("[this call made sandbox %s; name it as sandbox_id "
                                               "in later calls that belong to this one]",
                                               call->sandbox_id);
        result_add_text(&mine, text);
    }
    call->done(call, &mine);
    result_finish(&mine);
}

void tool_fail(struct tool_call *call, int code, const char *message, const char *hint)
{
    struct result r;
    result_init(&r);
    result_set_failure(&r, code, message, hint);
    tool_finish(call, &r);
}

void tool_fail_fleet(struct tool_call *call, int rc, const struct err *err, const char *hint)
{
    tool_fail(call, rc, err != NULL ? err->text : NULL, hint);
}

static void copy_id(char *to, const char *id)
{
    snprintf(to, FLEET_ID_SIZE, "%s", id);
}

uint64_t tool_budget_left_ms(const struct tool_call *call)
{
    uint64_t budget_ms = call->session->config->sync_budget_s * 1000;
    uint64_t passed_ms = clock_ms() - call->begun_ms;
    return passed_ms < budget_ms ? budget_ms - passed_ms : 0;
}

uint64_t tool_wait_ms(const struct tool_call *call)
{
    uint64_t left_ms = tool_budget_left_ms(call);
    return left_ms > LEAST_WAIT_MS ? left_ms : LEAST_WAIT_MS;
}

bool tool_is_task(struct tool_call *call, const char *status)
{
    if (call->task == NULL) {
        return false;
    }
    uint64_t after_ms = call->session->config->task_after_s * 1000;
    enum tool_task task = call->task(call);
    bool late = clock_ms() - call->begun_ms >= after_ms && !call->cancelled;
    if (task == TOOL_TASK_IS || (task == TOOL_TASK_MAY && late)) {
        call->tell_task(call, status);
        task = call->task(call);
    }
    return task == TOOL_TASK_IS;
}

void tool_tell(void *arg, const struct fleet_progress *progress)
{
    struct tool_call *call = arg;
    if (!tool_is_task(call, progress->text) && call->progress != NULL) {
        call->progress(call, progress);
    }
}

/* A notification may reveal that the client is gone, which ends its calls, so the list is read from
 * its start after each. */
static void on_default_progress(void *arg, const struct fleet_progress *progress)
{
    struct tool_session *s = arg;
    struct tool_call *call = s->waiting;
    s->progress_seq++;
    while (call != NULL) {
        if (call->told_seq == s->progress_seq) {
            call = call->next_waiting;
        } else {
            call->told_seq = s->progress_seq;
            tool_tell(call, progress);
            call = s->waiting;
        }
    }
}

/* Gives the outcome of opening the default sandbox to all waiting calls. Ending a call may start
 * others, so the queue is emptied first. */
static void on_default_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                            const char *hint)
{
    struct tool_session *s = arg;
    s->default_opening = false;
    if (s->unused != NULL) {
        let_sandbox_go(s, rc == 0 ? info->id : "", s->unused);
        return;
    }
    const char *notice = NULL;
    if (rc == 0) {
        copy_id(s->default_id, info->id);
        notice = s->default_lost ? "the session's earlier sandbox has ended, this is a new one: "
                                   "its files and variables are gone"
                 : s->resumed    ? "this session goes on after a restart or a long pause, with a "
                                   "new sandbox: files and variables of an earlier one are gone"
                                 : NULL;
        s->default_lost = s->resumed = false;
    }
    struct tool_call *call = s->waiting;
    s->waiting = NULL;
    while (call != NULL) {
        struct tool_call *next = call->next_waiting;
        if (rc < 0) {
            tool_fail_fleet(call, rc, err, hint);
        } else if (call->cancelled) { /* cancelled while another call of the queue was answered */
            tool_fail(call, ERR_GONE, "cancelled", NULL);
        } else {
            copy_id(call->sandbox_id, s->default_id);
            call->notice = notice;
            call->ready(call);
        }
        call = next;
    }
}

/* The next server can find its default sandbox. */
static bool outlives_server(const struct tool_session *s)
{
    return s->kind == TOOL_DEFAULT_OWNER || (s->kind == TOOL_DEFAULT_SESSION && s->name[0] != '\0');
}

static void wait_for_default(struct tool_call *call)
{
    struct tool_session *s = call->session;
    struct tool_call **end = &s->waiting;
    while (*end != NULL) {
        end = &(*end)->next_waiting;
    }
    call->next_waiting = NULL;
    *end = call;
    if (!s->default_opening) {
        s->default_opening = true;
        struct fleet_spec spec = {
            .is_default = outlives_server(s),
            .session = s->name,
            .evict_idle_ms = FLEET_EVICT_IDLE_MS,
            .progress = on_default_progress,
        };
        tool_open(s, &spec, on_default_open, s);
    }
}

static void forget_default(struct tool_session *s)
{
    copy_id(s->lost_id, s->default_id);
    s->default_id[0] = '\0';
    s->default_lost = true;
}

static void on_fresh_open(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                          const char *hint)
{
    struct tool_call *call = arg;
    if (rc < 0) {
        tool_fail_fleet(call, rc, err, hint);
        return;
    }
    if (call->cancelled) {
        fleet_close(call->session->fleet, info->id, on_left_closed, NULL);
        tool_fail(call, ERR_GONE, "cancelled", NULL);
        return;
    }
    copy_id(call->sandbox_id, info->id);
    call->in_fresh = true;
    call->ready(call);
}

static void use_fresh(struct tool_call *call)
{
    const struct fleet_spec spec = {.evict_idle_ms = FLEET_EVICT_IDLE_MS, .progress = tool_tell};
    tool_open(call->session, &spec, on_fresh_open, call);
}

/* Updates default_id: "" if there is no default sandbox. */
static void look_for_default(struct tool_session *s)
{
    const char *id;
    if (s->default_id[0] != '\0' && fleet_find(s->fleet, s->owner, s->default_id, &id, NULL) < 0) {
        forget_default(s);
    }
    if (outlives_server(s) && s->default_id[0] == '\0' && !s->default_opening) {
        int rc = fleet_find_default(s->fleet, s->owner, s->name, &id);
        if (rc == 0 && strcmp(id, s->lost_id) != 0) {
            copy_id(s->default_id, id);
            s->resumed = false;
        }
        /* it may have ended under an earlier server */
        s->default_lost = s->default_lost || rc == -ERR_GONE;
    }
}

void tool_session_end(struct tool_session *s, void (*unused)(struct tool_session *s))
{
    if (s->default_opening) {
        s->unused = unused;
        return;
    }
    if (s->resumed) { /* no call has looked for its sandbox yet */
        look_for_default(s);
    }
    let_sandbox_go(s, s->default_id, unused);
}

static void fail_without_sandbox(struct tool_call *call)
{
    const struct tool_session *s = call->session;
    if (s->kind == TOOL_DEFAULT_FRESH) {
        tool_fail(call, ERR_SANDBOX_NOT_FOUND,
                  "no sandbox is named, and calls without sandbox_id share none here",
                  "name the sandbox by sandbox_id: results of execute_code and create_sandbox "
                  "have it");
        return;
    }
    tool_fail(call, ERR_SANDBOX_NOT_FOUND,
              s->default_lost ? "the earlier sandbox has ended, and its files with it"
                              : "there is no sandbox yet, so there is nothing in it",
              "execute_code and write_file make the sandbox when they are first called; another "
              "one is named by sandbox_id");
}

static void use_default(struct tool_call *call, bool make)
{
    struct tool_session *s = call->session;
    if (s->kind == TOOL_DEFAULT_FRESH && make) {
        use_fresh(call);
        return;
    }
    if (s->kind != TOOL_DEFAULT_FRESH) {
        look_for_default(s);
    }
    if (s->default_id[0] != '\0') {
        copy_id(call->sandbox_id, s->default_id);
        call->ready(call);
    } else if (make || s->default_opening) {
        wait_for_default(call);
    } else {
        fail_without_sandbox(call);
    }
}

static void use_named(struct tool_call *call, const char *wanted)
{
    struct tool_session *s = call->session;
    struct err err = ERR_INIT;
    const char *id;
    int rc = args_check_name("sandbox_id", wanted, &err);
    if (rc == 0) {
        rc = fleet_find(s->fleet, s->owner, wanted, &id, &err);
    }
    if (rc < 0) {
        tool_fail_fleet(call, rc, &err, NULL);
        return;
    }
    copy_id(call->sandbox_id, id);
    call->ready(call);
}

static void use_sandbox(struct tool_call *call, tool_ready_fn ready, bool make)
{
    const char *wanted = json_get_str(call->args, "sandbox_id");
    call->ready = ready;
    if (wanted != NULL) {
        use_named(call, wanted);
    } else {
        use_default(call, make);
    }
}

void tool_with_sandbox(struct tool_call *call, tool_ready_fn ready)
{
    use_sandbox(call, ready, true);
}

void tool_with_sandbox_there(struct tool_call *call, tool_ready_fn ready)
{
    use_sandbox(call, ready, false);
}

void tool_run_op(struct tool_call *call, const struct fleet_op *op, fleet_outcome_fn done)
{
    call->running = fleet_run(call->session->fleet, call->sandbox_id, op, done, call);
}

static bool on_fleet_output(void *arg, const struct fleet_output *output)
{
    struct tool_call *call = arg;
    return call->output(call, output);
}

void tool_await(struct tool_call *call, uint64_t wait_ms, fleet_outcome_fn done)
{
    struct tool_session *s = call->session;
    call->await = fleet_await(s->fleet, s->owner, call->execution_id, wait_ms, done, call);
    if (call->output != NULL) {
        fleet_await_output(call->await, OUTPUT_EVERY_MS, on_fleet_output);
    }
}

void tool_sandbox_ended(struct tool_session *s, const char *sandbox)
{
    if (sandbox[0] != '\0' && strcmp(sandbox, s->default_id) == 0) {
        forget_default(s);
    }
}

void tool_op_over(struct tool_call *call, int rc)
{
    call->running = NULL;
    call->await = NULL;
    if (rc == -ERR_GONE || rc == -ERR_SANDBOX_NOT_FOUND) {
        tool_sandbox_ended(call->session, call->sandbox_id);
    }
}

bool tool_ran(struct tool_call *call, int rc, const struct err *err, const char *hint)
{
    tool_op_over(call, rc);
    if (rc == 0) {
        return true;
    }
    tool_fail_fleet(call, rc, err, hint);
    return false;
}

static void on_file_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                            const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    if (!tool_ran(call, rc, err, hint)) {
        return;
    }
    if (outcome->end->status == OP_STATUS_OK) {
        call->file_done(call, outcome);
        return;
    }
    struct result r;
    result_init(&r);
    result_set_operation_failure(&r, outcome);
    tool_finish(call, &r);
}

void tool_run_file_op(struct tool_call *call, const struct fleet_op *op, tool_file_fn done)
{
    call->file_done = done;
    tool_run_op(call, op, on_file_outcome);
}

void tool_add_file_link(const struct tool_call *call, struct result *r, const char *path,
                        const char *mime_type, uint64_t size)
{
    const char *workspace = fleet_workspace(call->session->fleet, call->sandbox_id);
    CLEANUP_FREE char *uri = uri_of_file(call->sandbox_id, workspace, view_of(path));
    const char *slash = strrchr(path, '/');
    result_add_link(r, uri, slash != NULL ? slash + 1 : path,
                    mime_type != NULL ? mime_type : mime_of_name(path), size);
    CLEANUP_FREE char *url = links_make(call->session->services->links, call->sandbox_id, path);
    if (url != NULL) {
        result_put_text(r->structured, "url", url);
    }
}

void tool_call_finish(struct tool_call *call)
{
    result_finish(&call->held);
    buf_finish(&call->scratch);
    if (call->own_free != NULL) {
        call->own_free(call->own);
    }
}

void tool_log(struct tool_call *call, const char *level, const char *text)
{
    if (call->log != NULL) {
        call->log(call, level, text);
    }
}

void tool_cancel(struct tool_call *call)
{
    if (call->cancelled) {
        return;
    }
    call->cancelled = true;
    for (struct tool_call **c = &call->session->waiting; *c != NULL; c = &(*c)->next_waiting) {
        if (*c == call) {
            *c = call->next_waiting;
            tool_fail(call, ERR_GONE, "cancelled", NULL);
            return;
        }
    }
    if (call->package_wait != NULL) { /* the installation goes on */
        packages_await_end(call->package_wait);
    } else if (call->running != NULL) {
        fleet_cancel(call->running);
    } else if (call->await != NULL && !call->stops) {
        fleet_await_end(call->await);
    } else if (call->await != NULL) {
        struct tool_session *s = call->session;
        /* the code may have ended already */
        err_ignore(fleet_stop(s->fleet, s->owner, call->execution_id, NULL));
    }
}
