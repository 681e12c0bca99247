/*
 * What clients may call languages: names, and aliases that stand for them. No word means two
 * things. Inside of languages.c; thread: any, after the start.
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

/* Memory of the caller; empty when it is zero. */
struct language_names {
    struct word_list names;
    struct word_list aliases; /* each with what it stands for, at the same index: */
    struct word_list targets;
    struct word_list words; /* names, then aliases; borrowed from the two */
};

/* -ERR_CONFIG says what is wrong with the word. Adding the same once more is fine. */
int language_names_add(struct language_names *l, const char *name, struct err *err) WARN_UNUSED;
int language_names_add_alias(struct language_names *l, const char *alias, const char *name,
                             struct err *err) WARN_UNUSED;

/* Nothing is added any more; needed once before language_names_words(). */
void language_names_seal(struct language_names *l);
void language_names_finish(struct language_names *l);

/* Whether it is a name (and no alias), and which, in the order in which they were added. */
bool language_names_has(const struct language_names *l, const char *name, size_t *ret_at);

/* The name for a name or alias; NULL: it is neither. Borrowed. */
const char *language_names_find(const struct language_names *l, const char *word);

/* All names; all names and then the aliases. Borrowed. */
const char *const *language_names_list(const struct language_names *l, size_t *ret_count);
const char *const *language_names_words(const struct language_names *l, size_t *ret_count);

/* A word of somebody's file for a message, which is one line of text. */
const char *language_name_shown(const char *text);

#endif
