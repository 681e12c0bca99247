/*
 * The states of an exchange. It has two sides, and so two machines.
 *
 * The handler's:
 *
 *              called              client gone           asks to be told
 *     NONE ─────────────▶ HAS ─────────────────▶ LOST ◀───────────────▶ LATE
 *       ◀── only to admit ─┘│                     │       in vain        │
 *                           │ ends it             │ ends it, or is told  │ ends it
 *                           └─────────▶ OVER ◀────┴──────────────────────┘
 *
 * A handler that is lost stays lost until it asks to be told of it or ends the exchange: nobody
 * takes the exchange from it without a word.
 *
 * The response's:
 *
 *     NONE ──▶ WHOLE
 *       │
 *       └────▶ STREAM ──▶ ENDED
 *
 * A response may be begun without the handler (a refusal), and go on without it (a slow client).
 */
#include "supervisor/web/http/internal.h"

const struct sm_state web_handler_states[WEB_HANDLER_STATE_COUNT] = {
    [WEB_HANDLER_NONE] = {"none", SM_BIT(WEB_HANDLER_HAS)},
    [WEB_HANDLER_HAS] = {"has it", SM_BIT(WEB_HANDLER_NONE) | SM_BIT(WEB_HANDLER_LOST) |
                                       SM_BIT(WEB_HANDLER_OVER)},
    [WEB_HANDLER_LOST] = {"lost", SM_BIT(WEB_HANDLER_LATE) | SM_BIT(WEB_HANDLER_OVER)},
    [WEB_HANDLER_LATE] = {"late", SM_BIT(WEB_HANDLER_LOST) | SM_BIT(WEB_HANDLER_OVER)},
    [WEB_HANDLER_OVER] = {"over", 0},
};

const struct sm_state web_response_states[WEB_RESPONSE_STATE_COUNT] = {
    [WEB_RESPONSE_NONE] = {"none", SM_BIT(WEB_RESPONSE_WHOLE) | SM_BIT(WEB_RESPONSE_STREAM)},
    [WEB_RESPONSE_WHOLE] = {"whole", 0},
    [WEB_RESPONSE_STREAM] = {"stream", SM_BIT(WEB_RESPONSE_ENDED)},
    [WEB_RESPONSE_ENDED] = {"ended", 0},
};

/* ---- invariants ---- */

#define HANDLER(state)  SM_BIT(WEB_HANDLER_##state)
#define RESPONSE(state) SM_BIT(WEB_RESPONSE_##state)

static bool has_connection(const void *owner)
{
    const struct web_exchange *x = owner;
    return x->connection != NULL;
}

static bool is_listed(const void *owner)
{
    const struct web_exchange *x = owner;
    const struct web_exchange *late = x->listener->late;
    while (late != NULL && late != x) {
        late = late->handler.next_late;
    }
    return late == x;
}

static bool is_not_listed(const void *owner)
{
    return !is_listed(owner);
}

static bool wants_to_know(const void *owner)
{
    const struct web_exchange *x = owner;
    return x->handler.on_gone != NULL;
}

static bool has_status(const void *owner)
{
    const struct web_exchange *x = owner;
    return x->response.status >= 100;
}

static bool has_no_text(const void *owner)
{
    const struct web_exchange *x = owner;
    return x->response.text == NULL;
}

static bool has_no_chunks(const void *owner)
{
    const struct web_exchange *x = owner;
    return x->response.first == NULL && x->response.queue_bytes == 0;
}

static bool has_had_handler(const void *owner)
{
    return web_exchange_was_handed(owner);
}

static const struct sm_invariant handler_invariants[] = {
    {"a handler gets what libmicrohttpd still has", HANDLER(HAS), has_connection},
    {"who is told late is in the list", HANDLER(LATE), is_listed},
    {"nobody else is in the list", SM_EVERY & ~HANDLER(LATE), is_not_listed},
    {"who is told late has asked to be", HANDLER(LATE), wants_to_know},
};

static const struct sm_invariant response_invariants[] = {
    {"a response has a status", SM_EVERY & ~RESPONSE(NONE), has_status},
    {"a stream is not a text", RESPONSE(STREAM) | RESPONSE(ENDED), has_no_text},
    {"what is answered whole has no chunks", RESPONSE(WHOLE), has_no_chunks},
    {"a stream is a handler's", RESPONSE(STREAM) | RESPONSE(ENDED), has_had_handler},
};

static const struct sm_guard handler_guard = {"exchange's handler", handler_invariants,
                                              sizeof(handler_invariants) /
                                                  sizeof(handler_invariants[0])};

static const struct sm_guard response_guard = {"exchange's response", response_invariants,
                                               sizeof(response_invariants) /
                                                   sizeof(response_invariants[0])};

/* ---- moves and questions ---- */

void web_exchange_init_states(struct web_exchange *x)
{
    sm_init(&x->handler.sm, web_handler_states, WEB_HANDLER_STATE_COUNT, WEB_HANDLER_NONE);
    sm_watch(&x->handler.sm, &handler_guard, x);
    sm_init(&x->response.sm, web_response_states, WEB_RESPONSE_STATE_COUNT, WEB_RESPONSE_NONE);
    sm_watch(&x->response.sm, &response_guard, x);
}

void web_handler_set(struct web_exchange *x, enum web_handler_state next)
{
    sm_move(&x->handler.sm, next);
}

void web_response_set(struct web_exchange *x, enum web_response_state next)
{
    sm_move(&x->response.sm, next);
}

bool web_exchange_was_handed(const struct web_exchange *x)
{
    return x->handler.sm.state != WEB_HANDLER_NONE;
}

bool web_exchange_is_over(const struct web_exchange *x)
{
    return x->handler.sm.state == WEB_HANDLER_OVER;
}

bool web_exchange_is_live(const struct web_exchange *x)
{
    return x->handler.sm.state == WEB_HANDLER_HAS;
}

bool web_exchange_is_answered(const struct web_exchange *x)
{
    return x->response.sm.state != WEB_RESPONSE_NONE;
}
