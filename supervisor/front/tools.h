/*
 * The tools that this server offers: one table of rows, each with parsed schemas and its entry of
 * tools/list. The tools themselves are in tools/<name>.c.
 *
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

/* `config` provides limits for schemas, `languages` their names; both are borrowed during the
 * call. */
struct tools *tools_create(const struct config *config, const struct languages *languages);
void tools_destroy(struct tools *t);

/* Fills in the @names@ of a text, as in descriptions; the caller frees it. */
char *tools_text(const char *text, const struct config *config, const struct languages *languages);

/* NULL if there is no such tool. */
const struct mcp_tool *tools_find(const struct tools *t, const char *name);

/* The tool of an entry of tools_find(). */
const struct tool *tools_tool(const struct mcp_tool *entry);

/* Checks arguments (NULL: none) against the tool's schema; -ERR_INVALID with the first violation.
 * If they could be repaired, *ret_meant has the repaired ones (owned by the caller); otherwise it
 * is NULL. */
int tools_read(const struct mcp_tool *tool, const cJSON *arguments, cJSON **ret_meant,
               struct err *err) WARN_UNUSED;

/* A new array of all tools as tools/list shows them to a client with this form of results. It
 * borrows from t. */
cJSON *tools_list(const struct tools *t, enum result_form form);

/* Names the view in the entries of such a list whose tools have one. */
void tools_list_views(const struct tools *t, cJSON *list);

#endif
