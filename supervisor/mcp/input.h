/*
 * What input.c and tasks.c call of each other; what requests need of input is in internal.h.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

struct mcp_request;
struct mcp_server;
struct mcp_task;

/* Whether this is valid as inputResponses: an object of objects. NULL is valid, too. */
bool mcp_input_is_sound(const cJSON *responses);

/* Sends the open questions of a task of 2025-11-25 on the streams of requests that wait for its
 * result, except those that were sent already. */
void mcp_input_carry(struct mcp_task *t);

/* Calls the handler again after all questions of the request were answered. */
void mcp_input_resume(struct mcp_request *r);

/* Ends a request whose input will not come; `why` is the text of its failure. */
void mcp_input_give_up(struct mcp_request *r, const char *why);

/* Ends calls whose questions were not answered in time, and drops expired states. A timer does the
 * same when something is due. */
void mcp_inputs_look(struct mcp_server *s, uint64_t now_ms);

#endif
