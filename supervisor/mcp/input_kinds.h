/*
 * Which capability a client needs for each kind of question, and the form of a question in older
 * revisions. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_KINDS_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_KINDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/mcp/wire/capabilities.h"
#include "supervisor/mcp/wire/revision.h"

/* Returns NULL if a client with these capabilities may get this question ({method, params});
 * otherwise the capability that it lacks, a string literal. */
const char *input_kind_lacks(const struct mcp_client_capabilities *capabilities,
                             const cJSON *question);

/* Rewrites a question from the shape of the latest revision to that of this one. */
void input_kind_adapt(cJSON *question, enum revision revision);

#endif
