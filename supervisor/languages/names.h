/*
 * Names and aliases of languages. Each word has one meaning. Private to this room; thread: any,
 * after the start.
 */
#ifndef CLOISTER_SUPERVISOR_LANGUAGES_NAMES_H
#define CLOISTER_SUPERVISOR_LANGUAGES_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct word_list {
    char **items;
    size_t count;
};

/* In memory of the caller; a zeroed struct is empty. */
struct language_names {
    struct word_list names;
    struct word_list aliases; /* the name of each is in targets, at the same index */
    struct word_list targets;
    struct word_list words; /* names, then aliases; borrowed from both lists */
};

/* The text of -ERR_CONFIG says what is wrong with the word. Adding the same again is fine. */
int language_names_add(struct language_names *l, const char *name, struct err *err) WARN_UNUSED;
int language_names_add_alias(struct language_names *l, const char *alias, const char *name,
                             struct err *err) WARN_UNUSED;

/* Call it once after the last addition, before language_names_words(). */
void language_names_seal(struct language_names *l);
void language_names_finish(struct language_names *l);

/* Whether it is a name (not an alias), and its index in the order of addition. */
bool language_names_has(const struct language_names *l, const char *name, size_t *ret_at);

/* The name for a name or alias; NULL: unknown. Borrowed. */
const char *language_names_find(const struct language_names *l, const char *word);

/* All names; all names, then all aliases. Borrowed. */
const char *const *language_names_list(const struct language_names *l, size_t *ret_count);
const char *const *language_names_words(const struct language_names *l, size_t *ret_count);

/* Makes a word of the file printable, for an error of one line. */
const char *language_name_shown(const char *text);

#endif
