/*
 * What a client can be asked: which capability each question needs, and what older revisions want
 * of it. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_INPUT_KINDS_H
#define CLOISTER_SUPERVISOR_MCP_INPUT_KINDS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "supervisor/mcp/wire/revision.h"

/* NULL if a client of this revision with these capabilities (object or NULL) may be asked this
 * ({method, params}); otherwise the capability that it lacks, a literal. */
const char *input_kind_lacks(const cJSON *capabilities, enum revision revision,
                             const cJSON *question);

/* Rewrites a question, as the latest revision has it, for this one. */
void input_kind_adapt(cJSON *question, enum revision revision);

#endif
