/*
 * Questions to clients of older revisions, which are requests from us; also what input.c shares
 * with asking.c. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_ASKING_H
#define CLOISTER_SUPERVISOR_MCP_ASKING_H

#include "supervisor/mcp/input_round.h"
#include "supervisor/mcp/input_states.h"
#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/wire/due_timer.h"

struct mcp_asked;

/* The input of one request. */
struct mcp_round {
    struct mcp_round *prev, *next; /* list of waiting requests, without tasks */
    struct mcp_request *r;
    bool waits;
    /* a sink is being called; code that ends the request meanwhile must not free the round */
    bool sending;
    cJSON *inputs, *state; /* for the next run of the handler */
    struct input_round asking;
};

struct mcp_inputs {
    struct mcp_server *server;
    struct input_states states;
    struct mcp_asked *asked;
    struct mcp_round *waiting;
    uint64_t last_id;
    struct due_timer timer; /* runs out when an answer is late or a state expires */
};

/* Sends one question of r's round on the carrier's stream. False if the carrier cannot send it. */
bool asking_send(struct mcp_request *r, struct mcp_request *carrier, const cJSON *question);

/* Tells the client that the open questions of this request need no answer any more. */
void asking_withdraw(struct mcp_request *r);

/* Removes all references to a request that is being freed, both as asker and as carrier. */
void asking_forget(struct mcp_request *r);

#endif
