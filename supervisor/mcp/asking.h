/*
 * Questions to clients of older revisions, which are requests of ours; and what input.c and this
 * share. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_ASKING_H
#define CLOISTER_SUPERVISOR_MCP_ASKING_H

#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/input_states.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/wire/due_timer.h"

struct mcp_asked;

/* Of one request. */
struct mcp_round {
    struct mcp_round *prev, *next; /* of those that wait, tasks excepted */
    struct mcp_request *r;
    bool waits;
    bool sending; /* a sink is being called: whoever ends this now has to leave it standing */
    cJSON *inputs, *state; /* for the next run of the handler */
    struct input_round asking;
};

struct mcp_inputs {
    struct mcp_server *server;
    struct input_states states;
    struct mcp_asked *asked;
    struct mcp_round *waiting;
    uint64_t last_id;
    struct due_timer timer; /* when an answer is late, or a state is to be forgotten */
};

/* Sends one question of r, a member of its round, on the carrier's stream. */
bool asking_send(struct mcp_request *r, struct mcp_request *carrier, const cJSON *question);

/* What the client is still asked for this request is of no use any more, and it is told so. */
void asking_withdraw(struct mcp_request *r);

/* The request is no more, neither as one that asked nor as one whose stream it went on. */
void asking_forget(struct mcp_request *r);

#endif
