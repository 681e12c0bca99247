/*
 * The tools this server offers: one table of rows, each with its schemas parsed once and its entry
 * of tools/list. What a tool does is in tools/<name>.c.
 * Thread: the loop thread.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_TOOLS_H
#define CLOISTER_SUPERVISOR_FRONT_TOOLS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"
#include "supervisor/base/result_form.h"
#include "supervisor/mcp/app.h"

struct config;
struct languages;
struct tool;
struct tools;

/* `config` puts its limits into the schemas, `languages` its names; borrowed during the call. */
struct tools *tools_create(const struct config *config, const struct languages *languages);
void tools_destroy(struct tools *t);

/* A text with @names@ as descriptions have them, filled in; owned by the caller. */
char *tools_text(const char *text, const struct config *config, const struct languages *languages);

/* NULL if there is no such tool. */
const struct mcp_tool *tools_find(const struct tools *t, const char *name);

/* What an entry of tools_find() runs. */
const struct tool *tools_tool(const struct mcp_tool *entry);

/* Checks arguments (NULL: none) against the tool's schema; -ERR_INVALID with the first objection.
 * If they can be meant in another way that fits, *ret_meant has them so, and is the caller's;
 * otherwise it is NULL. */
int tools_read(const struct mcp_tool *tool, const cJSON *arguments, cJSON **ret_meant,
               struct err *err) WARN_UNUSED;

/* A new array of all tools as tools/list shows them to whom gets results in this form. It borrows
 * from t. */
cJSON *tools_list(const struct tools *t, enum result_form form);

#endif
