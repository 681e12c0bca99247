/*
 * The languages: their names and aliases, and for those that programs run, the commands. The table
 * is built in; the file of --languages adds or replaces languages:
 *
 *   {"languages": [{"name": "zig", "aliases": ["zg"], "file": "main.zig",
 *                   "compile": ["zig", "build-exe", "-femit-bin={exe}", "{file}"],
 *                   "run": ["{exe}"], "needs": ["cc"]}]}
 *
 * `aliases`, `compile` and `needs` are optional. Of several rows with one name, the sandbox uses
 * the first whose programs it has.
 *
 * The agent finds out which languages a sandbox has. Thread: any, after the start.
 */
#ifndef CLOISTER_SUPERVISOR_LANGUAGES_LANGUAGES_H
#define CLOISTER_SUPERVISOR_LANGUAGES_LANGUAGES_H

#include <stddef.h>

#include "common/err.h"
#include "common/view.h"

struct languages;

/* Loads the built-in table and the file (JSON; "" = none). The text of -ERR_CONFIG says what is
 * wrong. */
int languages_load(const char *file, struct languages **ret, struct err *err) WARN_UNUSED;

/* The same with the file's content; empty: only the built-in table. */
int languages_read(struct view text, struct languages **ret, struct err *err) WARN_UNUSED;
void languages_destroy(struct languages *l);

/* Returns the agent's name for a name or alias ("js" is "javascript"); NULL: unknown language.
 * Borrowed from l. */
const char *languages_find(const struct languages *l, const char *name);

/* All names, live languages first, without aliases. */
const char *const *languages_names(const struct languages *l, size_t *ret_count);

/* All names and aliases that languages_find() knows: the names first. */
const char *const *languages_words(const struct languages *l, size_t *ret_count);

/* The encoded RUNNER messages for OPEN. Borrowed from l. */
struct view_list languages_runners(const struct languages *l);

#endif
