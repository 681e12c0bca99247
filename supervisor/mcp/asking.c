/*
 * Questions to clients of older revisions. Each is a request of ours on the stream of the call that
 * needs the answer or, for tasks, of somebody who waits for the result.
 *
 * They are found again by session and number. The number comes once in the life of the server; an
 * answer from another session finds nothing. A question whose stream is gone may still be answered,
 * because clients post answers over whatever connection they like; for a task it is asked once more
 * when somebody waits again, under another number.
 */
#include "supervisor/mcp/asking.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "supervisor/mcp/input.h"
#include "supervisor/mcp/task.h"
#include "supervisor/mcp/tasks.h"

#define ASKED_EACH                                                                                 \
    4 /* times that one question is waited for: on lost streams, and on the latest                 \
       */

/* A question on its way to an older client. */
struct mcp_asked {
    struct mcp_asked *next;
    uint64_t id;
    char *key;                   /* in the round */
    struct mcp_session *session; /* whose client was asked */
    struct mcp_request *r;       /* which needs the answer */
    struct mcp_request *carrier; /* on whose stream it went; NULL: over by now */
};

static struct mcp_inputs *request_inputs(const struct mcp_request *r)
{
    return r->session->server->inputs;
}

/* Where the open questions of a request are: those of a task are shown with it. */
static struct input_round *asking_round(struct mcp_request *r)
{
    return r->task != NULL ? &r->task->round : &r->round->asking;
}

static void asked_free(struct mcp_asked **place)
{
    struct mcp_asked *gone = *place;
    *place = gone->next;
    free(gone->key);
    free(gone);
}

void asking_withdraw(struct mcp_request *r)
{
    struct mcp_inputs *in = request_inputs(r);
    struct mcp_asked **place = &in->asked;
    while (*place != NULL) {
        if ((*place)->r != r) {
            place = &(*place)->next;
            continue;
        }
        struct mcp_session *session = (*place)->session;
        struct mcp_request *carrier = (*place)->carrier;
        cJSON *params = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(params, "requestId", cJSON_CreateNumber((double)(*place)->id));
        cJSON_AddItemToObjectCS(params, "reason",
                                cJSON_CreateStringReference("the answer is not needed any more"));
        char *json = jsonrpc_notification("notifications/cancelled", params);
        asked_free(place);
        if (carrier != NULL && carrier->sink != NULL && json != NULL) {
            carrier->sink->ops->send(carrier->sink, json); /* even if it is being cancelled */
        } else {
            mcp_session_send(session, json);
        }
        place = &in->asked; /* sinks may have changed the list */
    }
}

static char *question_text(uint64_t id, const struct mcp_request *r, const cJSON *question)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddItemToObjectCS(message, "jsonrpc", cJSON_CreateStringReference("2.0"));
    cJSON_AddItemToObjectCS(message, "id", cJSON_CreateNumber((double)id));
    cJSON_AddItemToObjectCS(message, "method",
                            cJSON_CreateString(json_get_str(question, "method")));
    const cJSON *given = json_get(question, "params");
    cJSON *params = cJSON_IsObject(given) ? cJSON_Duplicate(given, true) : cJSON_CreateObject();
    if (r->task != NULL) {
        mcp_task_relate(r->task, params);
    }
    cJSON_AddItemToObjectCS(message, "params", params);
    char *text = cJSON_PrintUnformatted(message);
    cJSON_Delete(message);
    return text;
}

/* One more is to be asked: only so many are remembered of each question, the oldest goes. */
static void forget_oldest(struct mcp_inputs *in, const struct mcp_request *r, const char *key)
{
    struct mcp_asked **oldest = NULL;
    size_t count = 0;
    for (struct mcp_asked **place = &in->asked; *place != NULL; place = &(*place)->next) {
        if ((*place)->r == r && strcmp((*place)->key, key) == 0) {
            count++;
            oldest = place; /* the latest are in front */
        }
    }
    if (count >= ASKED_EACH) {
        asked_free(oldest);
    }
}

bool asking_send(struct mcp_request *r, struct mcp_request *carrier, const cJSON *question)
{
    struct mcp_inputs *in = request_inputs(r);
    forget_oldest(in, r, question->string);
    struct mcp_asked *a = alloc_one(struct mcp_asked);
    a->id = ++in->last_id;
    a->key = alloc_strdup(question->string);
    a->session = carrier->session;
    a->r = r;
    a->carrier = carrier;
    a->next = in->asked;
    in->asked = a;
    uint64_t id = a->id;
    if (mcp_request_send(carrier, question_text(id, r, question))) {
        return true;
    }
    for (struct mcp_asked **place = &in->asked; *place != NULL; place = &(*place)->next) {
        if ((*place)->id == id) {
            asked_free(place);
            break;
        }
    }
    return false;
}

/* Asked on a stream that is still there. */
static bool is_on_its_way(const struct mcp_inputs *in, const struct mcp_request *r, const char *key)
{
    const struct mcp_asked *a = in->asked;
    while (a != NULL && (a->r != r || a->carrier == NULL || a->carrier->sink == NULL ||
                         strcmp(a->key, key) != 0)) {
        a = a->next;
    }
    return a != NULL;
}

void mcp_input_carry(struct mcp_task *t)
{
    struct mcp_request *r = t->request;
    const cJSON *next = NULL;
    for (const cJSON *q = t->round.open != NULL ? t->round.open->child : NULL; q != NULL;
         q = next) {
        next = q->next;
        struct mcp_request *carrier = mcp_task_listener(t);
        if (carrier == NULL) {
            return; /* whoever waits for the task next will be asked */
        }
        if (!is_on_its_way(request_inputs(r), r, q->string)) {
            asking_send(r, carrier, q);
        }
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

void mcp_input_response(struct mcp_session *s, const cJSON *message, bool has_nul)
{
    struct mcp_inputs *in = s->server->inputs;
    const cJSON *id = json_get(message, "id");
    struct mcp_asked **place = &in->asked;
    while (*place != NULL && ((*place)->session != s || !json_is_int(id) ||
                              (double)(*place)->id != id->valuedouble)) {
        place = &(*place)->next;
    }
    if (*place == NULL) {
        return; /* late, or none of ours */
    }
    struct mcp_request *r = (*place)->r;
    CLEANUP_FREE char *key = STEAL_PTR((*place)->key);
    asked_free(place);
    const cJSON *result = json_get(message, "result");
    struct input_round *asking = asking_round(r);
    enum input_taken taken = INPUT_UNKNOWN;
    if (!cJSON_IsObject(result) || has_nul) {
        const char *said = has_nul ? "its response contains \\u0000 (the NUL character)"
                                   : json_get_str(json_get(message, "error"), "message");
        CLEANUP_FREE char *why =
            alloc_printf("The client did not answer a question that this call depends on: %.500s",
                         said != NULL ? said : "its response has neither a result nor an error");
        mcp_input_give_up(r, why);
        return;
    }
    taken = input_round_answer(asking, key, cJSON_Duplicate(result, true));
    if (taken == INPUT_TOO_MUCH) {
        mcp_input_give_up(r, "The client's answers to questions of this call are too large: at "
                             "most 1 MiB is taken");
    } else if (taken == INPUT_TAKEN && input_round_is_whole(asking)) {
        mcp_input_resume(r);
    }
}

void mcp_inputs_end(struct mcp_session *s)
{
    struct mcp_asked **place = &s->server->inputs->asked;
    while (*place != NULL) {
        if ((*place)->session == s) {
            asked_free(place);
        } else {
            place = &(*place)->next;
        }
    }
}

void asking_forget(struct mcp_request *r)
{
    struct mcp_asked **place = &request_inputs(r)->asked;
    while (*place != NULL) {
        if ((*place)->r == r) {
            asked_free(place);
            continue;
        }
        if ((*place)->carrier == r) {
            (*place)->carrier = NULL;
        }
        place = &(*place)->next;
    }
}
