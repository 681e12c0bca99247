/*
 * Input from the client. A handler ends its run with questions, and is called again with the
 * answers. Underneath there are three ways. In the latest revision the questions are the answer,
 * and the client repeats its request with the input. In older revisions each question is a request
 * from us, on the stream of the call that needs it. The questions of a task are part of the task
 * or, in 2025-11-25, go to requests that wait for its result.
 *
 * In the last two ways the request stays and waits, and its handler is run again from here. No
 * handler works for it meanwhile, so cancelling it ends it here. If the client answers a question
 * with an error, or does not answer all of them within INPUT_TIME_MS, the call ends with a text
 * that says so.
 */
#include "supervisor/mcp/input.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/log.h"
#include "supervisor/mcp/asking.h"
#include "supervisor/mcp/input_kinds.h"
#include "supervisor/mcp/task.h"
#include "supervisor/mcp/tasks.h"

/* ---- input of all requests ------------------------------------------------------------------- */

void mcp_inputs_look(struct mcp_server *s, uint64_t now_ms)
{
    struct mcp_inputs *in = s->inputs;
    input_states_expire(&in->states, now_ms);
    struct mcp_round *late = in->waiting;
    while (late != NULL) {
        if (late->asking.deadline_ms <= now_ms) {
            mcp_input_give_up(late->r, "The client did not answer a question within 10 minutes");
            late = in->waiting; /* ending a request may have changed the whole list */
        } else {
            late = late->next;
        }
    }
    uint64_t due = input_states_due(&in->states);
    for (const struct mcp_round *one = in->waiting; one != NULL; one = one->next) {
        due = one->asking.deadline_ms < due ? one->asking.deadline_ms : due;
    }
    due_timer_set(&in->timer, due);
}

static void on_input_due(void *arg, uint64_t now_ms)
{
    const struct mcp_inputs *in = arg;
    mcp_inputs_look(in->server, now_ms);
}

void mcp_inputs_open(struct mcp_server *s)
{
    struct mcp_inputs *in = alloc_one(struct mcp_inputs);
    in->server = s;
    due_timer_init(&in->timer, s->loop, on_input_due, in);
    mcp_server_hold(s);
    s->inputs = in;
}

static void on_input_closed(uv_handle_t *handle)
{
    struct mcp_inputs *in = handle->data;
    struct mcp_server *s = in->server;
    free(in);
    mcp_server_release(s);
}

void mcp_inputs_close(struct mcp_server *s)
{
    struct mcp_inputs *in = STEAL_PTR(s->inputs);
    input_states_finish(&in->states);
    due_timer_close(&in->timer, on_input_closed);
}

static struct mcp_inputs *inputs_of(const struct mcp_request *r)
{
    return r->session->server->inputs;
}

/* ---- input of one request -------------------------------------------------------------------- */

static struct mcp_round *input_round_of(struct mcp_request *r)
{
    if (r->round == NULL) {
        r->round = alloc_one(struct mcp_round);
        r->round->r = r;
    }
    return r->round;
}

static void set_waiting(struct mcp_request *r, bool waits)
{
    struct mcp_round *round = input_round_of(r);
    struct mcp_inputs *in = inputs_of(r);
    if (r->task != NULL || round->waits == waits) {
        return; /* for tasks, tasks.c has the timer */
    }
    round->waits = waits;
    if (waits) {
        round->prev = NULL;
        round->next = in->waiting;
        if (round->next != NULL) {
            round->next->prev = round;
        }
        in->waiting = round;
        due_timer_by(&in->timer, round->asking.deadline_ms);
    } else {
        *(round->prev != NULL ? &round->prev->next : &in->waiting) = round->next;
        if (round->next != NULL) {
            round->next->prev = round->prev;
        }
    }
}

const cJSON *mcp_request_inputs(const struct mcp_request *r)
{
    return r->round != NULL ? r->round->inputs : NULL;
}

const cJSON *mcp_request_state(const struct mcp_request *r)
{
    return r->round != NULL ? r->round->state : NULL;
}

bool mcp_input_begin(struct mcp_request *r)
{
    if (r->round != NULL || !revision_is_modern(r->revision)) {
        return true; /* the input has been taken, or comes in another way */
    }
    const cJSON *responses = json_get(r->params, "inputResponses");
    const cJSON *name = json_get(r->params, "requestState");
    const cJSON *state = NULL;
    if (responses != NULL && !mcp_input_is_sound(responses)) {
        return mcp_bad_params(r,
                              "\"inputResponses\" must be an object whose members are objects, the "
                              "results of what was asked for");
    }
    if (name != NULL) {
        state = cJSON_IsString(name)
                    ? input_states_find(&inputs_of(r)->states, r->session->principal->name,
                                        input_binding(r->method_name, r->params), name->valuestring,
                                        clock_ms())
                    : NULL;
        if (state == NULL) {
            return mcp_bad_params(
                r, "\"requestState\" is not what this server gave for this request, or "
                   "is more than 10 minutes old; begin again without it");
        }
    }
    if (responses != NULL || state != NULL) {
        struct mcp_round *round = input_round_of(r);
        /* the message lives as long as the request */
        round->inputs = responses != NULL ? cJSON_CreateObjectReference(responses->child) : NULL;
        round->state = state != NULL ? cJSON_Duplicate(state, true) : NULL;
    }
    return true;
}

bool mcp_input_is_sound(const cJSON *responses)
{
    if (!cJSON_IsObject(responses)) {
        return false;
    }
    for (const cJSON *one = responses->child; one != NULL; one = one->next) {
        if (!cJSON_IsObject(one)) {
            return false;
        }
    }
    return true;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* No handler is running, so the request must be ended here. */
static void on_input_cancelled(struct mcp_request *r)
{
    if (r->round->sending) {
        return; /* ask_by_requests() checks `cancelled` when it has sent the rest */
    }
    set_waiting(r, false);
    asking_withdraw(r);
    mcp_answer_error(r, JSONRPC_INTERNAL, "Cancelled while waiting for input", NULL);
}

void mcp_input_resume(struct mcp_request *r)
{
    struct mcp_round *round = input_round_of(r);
    cJSON_Delete(round->inputs);
    round->inputs = r->task != NULL ? task_resume(r->task) : input_round_take(&round->asking);
    set_waiting(r, false);
    r->on_cancel = NULL;
    if (r->task != NULL) {
        mcp_task_changed(r);
    }
    r->method->run(r);
}

void mcp_input_give_up(struct mcp_request *r, const char *why)
{
    log_debug("input did not come id=%s method=%s: %s", r->id, r->method_name, why);
    set_waiting(r, false);
    r->on_cancel = NULL;
    asking_withdraw(r);
    if (r->task != NULL && r->task->sm.state == TASK_INPUT) {
        cJSON_Delete(task_resume(r->task));
    }
    if (r->tool == NULL) {
        mcp_answer_error(r, JSONRPC_INTERNAL, why, NULL);
        return;
    }
    mcp_answer_failure(r, why);
}

void mcp_inputs_begin_again(struct mcp_session *s)
{
    struct mcp_inputs *in = s->server->inputs;
    struct mcp_round *round = in->waiting;
    while (round != NULL) {
        if (round->r->session == s) {
            mcp_input_give_up(round->r, "The client initialized its session again before it "
                                        "answered a question that this call depends on");
            round = in->waiting; /* ending a request may have changed the whole list */
        } else {
            round = round->next;
        }
    }
    mcp_inputs_end(s); /* those of tasks */
}

/* Sends all questions on the stream of the call. */
static void ask_by_requests(struct mcp_request *r, cJSON *requests)
{
    struct mcp_round *round = input_round_of(r);
    if (!input_round_begin(&round->asking, requests, clock_ms())) {
        mcp_input_give_up(r, "Too many rounds of questions to the client: at most 8 are asked");
        return;
    }
    bool all = true;
    set_waiting(r, true);
    r->on_cancel = on_input_cancelled;
    round->sending = true;
    for (const cJSON *q = round->asking.open->child; q != NULL && all; q = q->next) {
        all = asking_send(r, r, q);
    }
    round->sending = false;
    if (r->cancelled) {
        on_input_cancelled(r);
    } else if (!all) {
        mcp_input_give_up(r, "The client could not be asked: it does not read this connection");
    } else if (input_round_is_whole(&round->asking)) {
        mcp_input_resume(r); /* there was no question */
    }
}

static void ask_by_task(struct mcp_request *r, cJSON *requests)
{
    if (!task_ask(r->task, requests, clock_ms())) {
        mcp_input_give_up(r, "Too many rounds of questions to the client: at most 8 are asked");
        return;
    }
    r->on_cancel = on_input_cancelled;
    mcp_task_changed(r);
    if (input_round_is_whole(&r->task->round)) {
        mcp_input_resume(r);
    } else if (!r->task->modern) {
        mcp_input_carry(r->task);
    }
}

/* Ends the request with the questions as its answer. */
static void ask_by_answer(struct mcp_request *r, cJSON *requests, cJSON *state)
{
    struct mcp_inputs *in = inputs_of(r);
    struct err err = ERR_INIT;
    const char *name = NULL;
    if (state != NULL && input_states_put(&in->states, r->session->principal->name,
                                          input_binding(r->method_name, r->params), state,
                                          clock_ms(), &name, &err) < 0) {
        cJSON_Delete(requests);
        mcp_answer_error(r, JSONRPC_INTERNAL, err.text, NULL);
        return;
    }
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(result, "resultType", cJSON_CreateStringReference("input_required"));
    if (requests->child != NULL) {
        cJSON_AddItemToObjectCS(result, "inputRequests", requests);
    } else {
        cJSON_Delete(requests);
    }
    if (name != NULL) {
        due_timer_by(&in->timer, input_states_due(&in->states)); /* when the state expires */
        cJSON_AddItemToObjectCS(result, "requestState", cJSON_CreateString(name));
    }
    mcp_seal(r->session->server, r->revision, result);
    mcp_answer_as_is(r, result);
}

/* Removes the questions that this client cannot answer. If none is left, returns the capability
 * that it lacks. */
static const char *strip_requests(const struct mcp_request *r, cJSON *requests)
{
    const char *lacks = NULL;
    cJSON *next = NULL;
    for (cJSON *q = requests->child; q != NULL; q = next) {
        next = q->next;
        const char *lack = input_kind_lacks(mcp_request_capabilities(r), q);
        if (lack == NULL) {
            input_kind_adapt(q, r->revision);
        } else {
            lacks = lacks != NULL ? lacks : lack;
            cJSON_Delete(cJSON_DetachItemViaPointer(requests, q));
        }
    }
    return requests->child == NULL ? lacks : NULL;
}

void mcp_answer_input(struct mcp_request *r, cJSON *requests, cJSON *state)
{
    requests = requests != NULL ? requests : alloc_check(cJSON_CreateObject());
    const char *lacks = strip_requests(r, requests);
    if (r->cancelled || lacks != NULL || (requests->child == NULL && state == NULL)) {
        cJSON_Delete(requests);
        cJSON_Delete(state);
        if (r->cancelled || lacks == NULL) {
            mcp_answer_error(r, JSONRPC_INTERNAL, "Input was needed, but nothing was asked", NULL);
        } else {
            mcp_answer_needs(r, lacks);
        }
        return;
    }
    if (r->task == NULL && revision_is_modern(r->revision)) {
        ask_by_answer(r, requests, state);
        return;
    }
    struct mcp_round *round = input_round_of(r);
    cJSON_Delete(round->state);
    cJSON_Delete(round->inputs);
    round->state = state;
    round->inputs = NULL;
    if (r->task != NULL) {
        ask_by_task(r, requests);
    } else {
        ask_by_requests(r, requests);
    }
}

/* ---- the end -------------------------------------------------------------------------------- */

void mcp_input_finish(struct mcp_request *r)
{
    asking_forget(r);
    struct mcp_round *round = r->round;
    if (round != NULL) {
        set_waiting(r, false);
        input_round_finish(&round->asking);
        cJSON_Delete(round->inputs);
        cJSON_Delete(round->state);
        free(round);
        r->round = NULL;
    }
}
