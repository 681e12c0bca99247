/*
 * Sandboxes: listed, looked at, stopped, closed.
 *
 * What a sandbox uses is asked of its worker, so a list with usage is a round of questions, which
 * all go out at once and are answered within the 2 s that the fleet gives a worker for that. The
 * exchange is answered when the last one is; one whose client has gone meanwhile is answered to
 * nobody.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/control/internal.h"
#include "supervisor/results/result.h"

#define RECENT_MAX 20

bool control_find_sandbox(struct control *c, struct web_exchange *x, const char *name,
                          char ret_id[FLEET_ID_SIZE])
{
    struct err err = ERR_INIT;
    const char *id;
    int rc = fleet_find_any(c->fleet, name, &id, &err);
    if (rc < 0) {
        control_fail(x, rc, err.text, rc == -ERR_INVALID ? NULL : "GET /v1/sandboxes lists them");
        return false;
    }
    snprintf(ret_id, FLEET_ID_SIZE, "%s", id);
    control_deed_on(x, id, NULL);
    return true;
}

/* ---- the list ------------------------------------------------------------------------------- */

struct round {
    struct web_exchange *x;
    cJSON *body;
    cJSON *list; /* of the body */
    char (*ids)[FLEET_ID_SIZE];
    size_t count, waiting;
};

static void answer_round(struct round *r)
{
    result_put_int(r->body, "count", cJSON_GetArraySize(r->list));
    control_answer(r->x, 200, r->body);
    free(r->ids);
    free(r);
}

static void on_round_status(void *arg, int rc, const struct fleet_info *info, const struct err *err,
                            const char *hint)
{
    struct round *r = arg;
    (void)err, (void)hint;
    if (rc == 0 && !control_is_ending(info)) { /* else it has ended since the round began */
        cJSON_AddItemToArray(r->list, control_sandbox(info));
    }
    if (--r->waiting == 0) {
        answer_round(r);
    }
}

static void note_round_id(void *arg, const struct fleet_info *info)
{
    struct round *r = arg;
    if (control_is_ending(info)) {
        return;
    }
    char(*more)[FLEET_ID_SIZE] = r->ids;
    if ((r->count & (r->count + 1)) == 0) { /* double at 0, 1, 3, 7, ... */
        more = alloc_array(2 * r->count + 1, sizeof(*more));
        memcpy(more, r->ids != NULL ? r->ids : more, r->count * sizeof(*more));
        free(r->ids);
    }
    r->ids = more;
    snprintf(r->ids[r->count++], FLEET_ID_SIZE, "%s", info->id);
}

static void list_with_usage(struct control *c, struct round *r)
{
    fleet_list(c->fleet, NULL, note_round_id, r);
    r->waiting = r->count;
    if (r->count == 0) {
        answer_round(r);
        return;
    }
    for (size_t i = 0, count = r->count; i < count; i++) { /* answers come later */
        fleet_status(c->fleet, r->ids[i], on_round_status, r);
    }
}

static void add_sandbox(void *arg, const struct fleet_info *info)
{
    if (!control_is_ending(info)) {
        cJSON_AddItemToArray(arg, control_sandbox(info));
    }
}

void control_list_sandboxes(struct control *c, struct web_exchange *x, const char *name)
{
    (void)name;
    struct round *r = alloc_one(struct round);
    r->x = x;
    r->body = cJSON_CreateObject();
    r->list = result_put_array(r->body, "sandboxes");
    if (control_asks_for(x, "usage")) {
        list_with_usage(c, r);
    } else {
        fleet_list(c->fleet, NULL, add_sandbox, r->list);
        answer_round(r);
    }
}

/* ---- one ------------------------------------------------------------------------------------ */

struct question {
    struct control *control;
    struct web_exchange *x;
    char id[FLEET_ID_SIZE];
};

static struct question *new_question(struct control *c, struct web_exchange *x, const char *id)
{
    struct question *q = alloc_one(struct question);
    q->control = c;
    q->x = x;
    snprintf(q->id, sizeof(q->id), "%s", id);
    return q;
}

struct recent {
    cJSON *list;
    unsigned left; /* rows that it may still take */
};

static void add_recent(void *arg, const struct fleet_outcome *outcome)
{
    struct recent *recent = arg;
    if (recent->left > 0) {
        recent->left--;
        cJSON_AddItemToArray(recent->list, control_execution(outcome));
    }
}

static void on_question_status(void *arg, int rc, const struct fleet_info *info,
                               const struct err *err, const char *hint)
{
    struct question *q = arg;
    if (rc < 0) {
        control_fail(q->x, rc, err->text, hint);
    } else {
        cJSON *body = control_sandbox(info);
        struct recent recent = {result_put_array(body, "executions_recent"), RECENT_MAX};
        fleet_executions(q->control->fleet, NULL, q->id, add_recent, &recent);
        control_answer(q->x, 200, body);
    }
    free(q);
}

void control_get_sandbox(struct control *c, struct web_exchange *x, const char *name)
{
    char id[FLEET_ID_SIZE];
    if (control_find_sandbox(c, x, name, id)) {
        fleet_status(c->fleet, id, on_question_status, new_question(c, x, id));
    }
}

static void on_question_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct question *q = arg;
    if (rc < 0) {
        control_fail(q->x, rc, err->text, hint);
    } else {
        cJSON *body = cJSON_CreateObject();
        result_put_text(body, "sandbox_id", q->id);
        result_put_text(body, "state", "closed");
        control_answer(q->x, 200, body);
    }
    free(q);
}

void control_delete_sandbox(struct control *c, struct web_exchange *x, const char *name)
{
    char id[FLEET_ID_SIZE];
    if (control_find_sandbox(c, x, name, id)) {
        fleet_close(c->fleet, id, on_question_closed, new_question(c, x, id));
    }
}

/* ---- stopped -------------------------------------------------------------------------------- */

struct stopping {
    struct fleet *fleet;
    cJSON *stopped;
};

static void stop_running(void *arg, const struct fleet_outcome *outcome)
{
    const struct stopping *s = arg;
    if (outcome->state != OP_DONE && fleet_stop(s->fleet, outcome->owner, outcome->op, NULL) == 0) {
        cJSON_AddItemToArray(s->stopped, cJSON_CreateString(outcome->op));
    }
}

void control_stop_sandbox(struct control *c, struct web_exchange *x, const char *name)
{
    char id[FLEET_ID_SIZE];
    if (!control_find_sandbox(c, x, name, id)) {
        return;
    }
    cJSON *body = cJSON_CreateObject();
    result_put_text(body, "sandbox_id", id);
    struct stopping s = {c->fleet, result_put_array(body, "stopped")};
    fleet_executions(c->fleet, NULL, id, stop_running, &s);
    control_answer(x, 200, body);
}
