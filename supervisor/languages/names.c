/*
 * Names are used in schemas, URIs and messages without escapes, so they have a grammar. There are
 * few, so they are searched linearly.
 */
#include "supervisor/languages/names.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "proto/limits.h"

#define NAME_MAX_CHARS 32
#define NAMES_MAX      (16 + LIMIT_RUNNERS) /* live languages, and at most one for each runner */
#define ALIASES_MAX    256

static void add_known_word(struct word_list *n, size_t max, const char *word)
{
    if (n->items == NULL) {
        n->items = alloc_array(max, sizeof(n->items[0]));
    }
    n->items[n->count++] = alloc_strdup(word);
}

static bool has(const struct word_list *n, const char *word, size_t *ret_at)
{
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->items[i], word) == 0) {
            *ret_at = i;
            return true;
        }
    }
    return false;
}

static void finish_words(struct word_list *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    free(n->items);
}

const char *language_name_shown(const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~') {
            return "?";
        }
    }
    return text;
}

static int check_known_name(const char *name, struct err *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+#._-";
    size_t len = strlen(name);
    if (len == 0 || len > NAME_MAX_CHARS || strspn(name, letters) != len ||
        strchr("+#._-", name[0])) {
        return err_set(err, ERR_CONFIG,
                       "\"%.64s\" is no name of a language: letters, digits and, behind the first "
                       "character, + # . _ -, at most %d",
                       language_name_shown(name), NAME_MAX_CHARS);
    }
    return 0;
}

int language_names_add(struct language_names *l, const char *name, struct err *err)
{
    size_t at = 0;
    int rc = check_known_name(name, err);
    if (rc == 0 && has(&l->aliases, name, &at)) {
        rc = err_set(err, ERR_CONFIG, "\"%s\" is another name of %s already", name,
                     l->targets.items[at]);
    }
    if (rc == 0 && !has(&l->names, name, &at)) {
        add_known_word(&l->names, NAMES_MAX, name);
    }
    return rc;
}

int language_names_add_alias(struct language_names *l, const char *alias, const char *name,
                             struct err *err)
{
    size_t at = 0;
    int rc = check_known_name(alias, err);
    if (rc < 0) {
        return rc;
    }
    if (has(&l->aliases, alias, &at) && strcmp(l->targets.items[at], name) == 0) {
        return 0;
    }
    if (has(&l->aliases, alias, &at) || has(&l->names, alias, &at)) {
        return err_set(err, ERR_CONFIG, "%s cannot have the alias \"%s\": it is taken", name,
                       alias);
    }
    if (l->aliases.count == ALIASES_MAX) {
        return err_set(err, ERR_CONFIG, "more than %d aliases", ALIASES_MAX);
    }
    add_known_word(&l->aliases, ALIASES_MAX, alias);
    add_known_word(&l->targets, ALIASES_MAX, name);
    return 0;
}

void language_names_seal(struct language_names *l)
{
    l->words.items = alloc_array(l->names.count + l->aliases.count, sizeof(l->words.items[0]));
    for (size_t i = 0; i < l->names.count; i++) {
        l->words.items[l->words.count++] = l->names.items[i];
    }
    for (size_t i = 0; i < l->aliases.count; i++) {
        l->words.items[l->words.count++] = l->aliases.items[i];
    }
}

void language_names_finish(struct language_names *l)
{
    finish_words(&l->names);
    finish_words(&l->aliases);
    finish_words(&l->targets);
    free(l->words.items);
}

bool language_names_has(const struct language_names *l, const char *name, size_t *ret_at)
{
    return has(&l->names, name, ret_at);
}

const char *language_names_find(const struct language_names *l, const char *word)
{
    size_t at = 0;
    if (has(&l->names, word, &at)) {
        return l->names.items[at];
    }
    return has(&l->aliases, word, &at) ? l->targets.items[at] : NULL;
}

const char *const *language_names_list(const struct language_names *l, size_t *ret_count)
{
    *ret_count = l->names.count;
    return (const char *const *)l->names.items;
}

const char *const *language_names_words(const struct language_names *l, size_t *ret_count)
{
    *ret_count = l->words.count;
    return (const char *const *)l->words.items;
}
