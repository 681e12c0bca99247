/*
 * Languages: which there may be, what clients may call them, and for those that are run by
 * programs, how. The table is built in; --languages adds to it or replaces languages:
 *
 *   {"languages": [{"name": "zig", "aliases": ["zg"], "file": "main.zig",
 *                   "compile": ["zig", "build-exe", "-femit-bin={exe}", "{file}"],
 *                   "run": ["{exe}"], "needs": ["cc"]}]}
 *
 * `aliases`, `compile` and `needs` may be left out. Of several rows of one name the first whose
 * programs the sandbox has counts.
 *
 * Whether a sandbox has one is found out in it, by the agent. Thread: any, after the start.
 */
#ifndef CLOISTER_SUPERVISOR_LANGUAGES_LANGUAGES_H
#define CLOISTER_SUPERVISOR_LANGUAGES_LANGUAGES_H

#include <stddef.h>

#include "common/err.h"
#include "common/view.h"

struct languages;

/* The built-in table and what the file (JSON; "" = none) adds. -ERR_CONFIG names what is wrong. */
int languages_load(const char *file, struct languages **ret, struct err *err) WARN_UNUSED;

/* The same with what is in the file; no bytes: the built-in table. */
int languages_read(struct view text, struct languages **ret, struct err *err) WARN_UNUSED;
void languages_destroy(struct languages *l);

/* The name that the agent knows, for any name or alias ("js" is "javascript"); NULL: there is no
 * such language. Borrowed from l. */
const char *languages_find(const struct languages *l, const char *name);

/* All names, live languages first, without aliases. */
const char *const *languages_names(const struct languages *l, size_t *ret_count);

/* All that languages_find() knows: the names, then the aliases. */
const char *const *languages_words(const struct languages *l, size_t *ret_count);

/* Encoded RUNNER messages for OPEN. Borrowed from l. */
struct view_list languages_runners(const struct languages *l);

#endif
