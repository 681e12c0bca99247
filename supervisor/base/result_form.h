/*
 * The form in which a client gets results of tools: a text for people, or fields beside it for
 * programs.
 *
 * A host that finds fields shows its model only those, or both, and drops pictures. So fields are
 * for clients that are known to work better with both, and for those that ask.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_RESULT_FORM_H
#define CLOISTER_SUPERVISOR_BASE_RESULT_FORM_H

#include <stdbool.h>

/* The member of a request's _meta that chooses the form. */
#define RESULT_FORM_META "cloister/results"

#define RESULT_FORM_WORDS "auto text structured"

enum result_form {
    RESULT_FORM_AUTO, /* whatever is known to suit the client */
    RESULT_FORM_TEXT,
    RESULT_FORM_STRUCTURED,
};

/* False if the word is not in RESULT_FORM_WORDS. */
bool result_form_parse(const char *word, enum result_form *ret);

/* The word for a form: fixed text. */
const char *result_form_word(enum result_form form);

/* The form for a client with this clientInfo.name (NULL: unknown): never RESULT_FORM_AUTO. */
enum result_form result_form_of_client(const char *name);

#endif
