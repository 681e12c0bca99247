/*
 * Questions to clients of older revisions. Each is a request from us to the client. It goes out on
 * the stream of the call that needs the answer or, for a task, on the stream of a request that
 * waits for the task's result.
 *
 * An answer is matched by session and number. Each number is used once in the life of the server,
 * so an answer from another session matches nothing. A question whose stream is gone may still be
 * answered, because clients post answers over any connection. A task's question is then sent once
 * more, with a new number, when another request waits for the result.
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

#define ASKED_EACH 4 /* copies of a question that are kept: the latest ones */

/* A question that was sent to an older client. */
struct mcp_asked {
    struct mcp_asked *next;
    uint64_t id;
    char *key;                   /* key of the question in its round */
    struct mcp_session *session; /* the session that was asked */
    struct mcp_request *r;       /* the request that needs the answer */
    struct mcp_request *carrier; /* the request whose stream carried it; NULL: ended */
};

static struct mcp_inputs *request_inputs(const struct mcp_request *r)
{
    return r->session->server->inputs;
}

/* Returns the round with the open questions of a request; for a task it is part of the task. */
static struct input_round *asking_round(struct mcp_request *r)
{
    return r->task != NULL ? &r->task->round : &r->round->asking;
}

static void asked_free(struct mcp_asked **slot)
{
    struct mcp_asked *gone = *slot;
    *slot = gone->next;
    free(gone->key);
    free(gone);
}

void asking_withdraw(struct mcp_request *r)
{
    struct mcp_inputs *in = request_inputs(r);
    struct mcp_asked **slot = &in->asked;
    while (*slot != NULL) {
        if ((*slot)->r != r) {
            slot = &(*slot)->next;
            continue;
        }
        struct mcp_session *session = (*slot)->session;
        struct mcp_request *carrier = (*slot)->carrier;
        cJSON *params = cJSON_CreateObject();
        cJSON_AddItemToObjectCS(params, "requestId", cJSON_CreateNumber((double)(*slot)->id));
        cJSON_AddItemToObjectCS(params, "reason",
                                cJSON_CreateStringReference("the answer is not needed any more"));
        char *json = jsonrpc_notification("notifications/cancelled", params);
        asked_free(slot);
        if (carrier != NULL && carrier->sink != NULL && json != NULL) {
            /* sent even if the carrier is being cancelled */
            carrier->sink->ops->send(carrier->sink, json);
        } else {
            mcp_session_send(session, json);
        }
        slot = &in->asked; /* the sink may have changed the list */
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
    char *text = json_print(message);
    cJSON_Delete(message);
    return text;
}

/* Makes room for one more copy of a question: only ASKED_EACH copies are kept, and the oldest is
 * dropped. */
static void forget_oldest(struct mcp_inputs *in, const struct mcp_request *r, const char *key)
{
    struct mcp_asked **oldest = NULL;
    size_t count = 0;
    for (struct mcp_asked **slot = &in->asked; *slot != NULL; slot = &(*slot)->next) {
        if ((*slot)->r == r && strcmp((*slot)->key, key) == 0) {
            count++;
            oldest = slot; /* new ones are inserted in front */
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
    for (struct mcp_asked **slot = &in->asked; *slot != NULL; slot = &(*slot)->next) {
        if ((*slot)->id == id) {
            asked_free(slot);
            break;
        }
    }
    return false;
}

/* Whether the question was sent on a stream that still exists. */
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
            return; /* the next request that waits for the task carries the question */
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
    struct mcp_asked **slot = &in->asked;
    while (*slot != NULL &&
           ((*slot)->session != s || !json_is_int(id) || (double)(*slot)->id != id->valuedouble)) {
        slot = &(*slot)->next;
    }
    if (*slot == NULL) {
        return; /* too late, or not a question of ours */
    }
    struct mcp_request *r = (*slot)->r;
    CLEANUP_FREE char *key = STEAL_PTR((*slot)->key);
    asked_free(slot);
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
    struct mcp_asked **slot = &s->server->inputs->asked;
    while (*slot != NULL) {
        if ((*slot)->session == s) {
            asked_free(slot);
        } else {
            slot = &(*slot)->next;
        }
    }
}

void asking_forget(struct mcp_request *r)
{
    struct mcp_asked **slot = &request_inputs(r)->asked;
    while (*slot != NULL) {
        if ((*slot)->r == r) {
            asked_free(slot);
            continue;
        }
        if ((*slot)->carrier == r) {
            (*slot)->carrier = NULL;
        }
        slot = &(*slot)->next;
    }
}
