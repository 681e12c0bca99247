/*
 * In which form a client gets the results of tools: as the text that a person would read, or with
 * fields beside it, for programs.
 *
 * Hosts that find fields show their model those alone, or beside the text, and drop pictures; so
 * fields are for clients that are known to be better off with both, and for whoever asks.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_RESULT_FORM_H
#define CLOISTER_SUPERVISOR_BASE_RESULT_FORM_H

#include <stdbool.h>

/* Where a request says it: a member of its _meta. */
#define RESULT_FORM_META "cloister/results"

#define RESULT_FORM_WORDS "auto text structured"

enum result_form {
    RESULT_FORM_AUTO, /* as it is known to suit the client */
    RESULT_FORM_TEXT,
    RESULT_FORM_STRUCTURED,
};

/* False if the word is none of RESULT_FORM_WORDS. */
bool result_form_parse(const char *word, enum result_form *ret);

/* What suits the client of this clientInfo.name (NULL: unknown): never RESULT_FORM_AUTO. */
enum result_form result_form_of_client(const char *name);

#endif
