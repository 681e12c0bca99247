/*
 * Executions: listed, looked at, stopped. One that is waited for lives on when its client has gone,
 * since the wait is all that the client had of it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

#define LISTED_USUAL 100
#define LISTED_MAX   10000
#define WAIT_MAX_S   3600

#define HINT_WHERE "GET /v1/executions lists those that are kept"

/* ---- the list ------------------------------------------------------------------------------- */

struct selection {
    cJSON *list;
    uint64_t left; /* rows that it may still take */
    bool running;
};

static void add_execution_row(void *arg, const struct fleet_outcome *outcome)
{
    struct selection *s = arg;
    bool is_meant = !s->running || outcome->state != OP_DONE;
    if (is_meant && s->left > 0) {
        s->left--;
        cJSON_AddItemToArray(s->list, control_execution(outcome));
    }
}

void control_list_executions(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    struct err err = ERR_INIT;
    struct selection s = {.running = control_asks_for(x, "running")};
    const char *sandbox = web_query(x, "sandbox"), *id = NULL;
    if (!control_number(x, "limit", LISTED_USUAL, LISTED_MAX, &s.left)) {
        return;
    }
    if (sandbox != NULL) {
        int rc = fleet_find_any(c->fleet, sandbox, &id, &err);
        if (rc < 0) {
            control_fail(x, rc, err.text, NULL);
            return;
        }
    }
    cJSON *body = cJSON_CreateObject();
    s.list = result_put_array(body, "executions");
    fleet_executions(c->fleet, NULL, id, add_execution_row, &s);
    control_answer(x, 200, body);
}

/* ---- one ------------------------------------------------------------------------------------ */

struct execution_wait {
    struct web_exchange *x; /* NULL: its client has gone */
    struct fleet_await *await;
    cJSON *(*view)(const struct fleet_outcome *outcome);
};

static void on_wait_outcome(void *arg, int rc, const struct fleet_outcome *outcome,
                            const struct err *err, const char *hint)
{
    struct execution_wait *w = arg;
    if (w->x != NULL && rc < 0) {
        control_fail(w->x, rc, err->text, hint);
    } else if (w->x != NULL) {
        control_answer(w->x, 200, w->view(outcome));
    }
    free(w);
}

static void on_wait_gone(void *arg)
{
    struct execution_wait *w = arg;
    w->x = NULL;
    fleet_await_end(w->await);
}

/* Answers with a view of the execution, after `wait_s` or its end. */
static void show_execution(struct control *c, struct web_exchange *x, const char *name,
                           uint64_t wait_s, cJSON *(*view)(const struct fleet_outcome *outcome))
{
    const char *owner = fleet_execution_owner(c->fleet, name);
    if (owner == NULL) {
        control_fail(x, ERR_EXECUTION_NOT_FOUND, "no such execution", HINT_WHERE);
        return;
    }
    struct execution_wait *w = alloc_one(struct execution_wait);
    w->x = x;
    w->view = view;
    w->await = fleet_await(c->fleet, owner, name, wait_s * 1000, on_wait_outcome, w);
    web_on_gone(x, on_wait_gone, w);
}

static cJSON *view_with_output(const struct fleet_outcome *outcome)
{
    return control_execution_whole(outcome, true);
}

void control_get_execution(struct control *c, struct web_exchange *x, const char *name)
{
    uint64_t wait_s;
    if (control_number(x, "wait", 0, WAIT_MAX_S, &wait_s)) {
        show_execution(c, x, name, wait_s, view_with_output);
    }
}

void control_get_displays(struct control *c, struct web_exchange *x, const char *name)
{
    show_execution(c, x, name, 0, control_displays);
}

void control_stop_execution(struct control *c, struct web_exchange *x, const char *name)
{
    struct err err = ERR_INIT;
    const char *owner = fleet_execution_owner(c->fleet, name);
    if (owner == NULL || fleet_stop(c->fleet, owner, name, &err) < 0) {
        control_fail(x, ERR_EXECUTION_NOT_FOUND, "no such execution", HINT_WHERE);
        return;
    }
    control_deed_on(x, NULL, name);
    cJSON *body = cJSON_CreateObject();
    result_put_text(body, "execution_id", name);
    result_put_bool(body, "stopping", true);
    control_answer(x, 200, body);
}
