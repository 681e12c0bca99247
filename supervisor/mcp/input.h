/*
 * What tasks need of input, and the other way round; what requests need is in internal.h.
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

/* Whether this can be the value of inputResponses: an object of objects. NULL is none. */
bool mcp_input_is_sound(const cJSON *responses);

/* A task of 2025-11-25 asks on the streams of those who wait for its result: sends them what is
 * open and not on its way to anybody. */
void mcp_input_carry(struct mcp_task *t);

/* All that this request asked for is there: its handler is called again. */
void mcp_input_resume(struct mcp_request *r);

/* What it asked for will not come: ends it with this text. */
void mcp_input_give_up(struct mcp_request *r, const char *why);

/* Ends the calls whose questions have not been answered in time, and forgets old states. The loop
 * does so when something is due. */
void mcp_inputs_look(struct mcp_server *s, uint64_t now_ms);

#endif
