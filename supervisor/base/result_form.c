/*
 * Clients that work better with fields. A row matches names that begin with it, since programs of
 * one project append words of their own.
 */
#include "supervisor/base/result_form.h"

#include <stddef.h>
#include <string.h>

static const char *const with_fields[] = {
    "gemini-cli",    /* shows the text, but without fields mistakes a JSON text for them */
    "mcp-inspector", /* for people who inspect a server: shows both */
    "inspector-cli",
};

static const char *const words[] = {
    [RESULT_FORM_AUTO] = "auto",
    [RESULT_FORM_TEXT] = "text",
    [RESULT_FORM_STRUCTURED] = "structured",
};

bool result_form_parse(const char *word, enum result_form *ret)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i], word) == 0) {
            *ret = (enum result_form)i;
            return true;
        }
    }
    return false;
}

const char *result_form_word(enum result_form form)
{
    return words[form];
}

enum result_form result_form_of_client(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof(with_fields) / sizeof(with_fields[0]); i++) {
        if (strncmp(name, with_fields[i], strlen(with_fields[i])) == 0) {
            return RESULT_FORM_STRUCTURED;
        }
    }
    return RESULT_FORM_TEXT;
}
