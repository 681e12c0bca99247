/*
 * The built-in languages. Words of commands are separated by single blanks.
 */
#ifndef CLOISTER_SUPERVISOR_LANGUAGES_BUILTIN_H
#define CLOISTER_SUPERVISOR_LANGUAGES_BUILTIN_H

#include <stddef.h>

/* Languages for which the agent has drivers. */
struct languages_live {
    const char *name;
    const char *aliases; /* separated by blanks */
};
extern const struct languages_live languages_live[];
extern const size_t languages_live_count;

/* Rows of one language are adjacent; the sandbox uses the first whose programs it has. */
struct languages_program {
    const char *name;
    const char *aliases; /* in the language's first row */
    const char *file;
    const char *compile; /* NULL: no compiler */
    /* one more argument of `compile`, which $SCRIPT stands for there; or NULL */
    const char *script;
    const char *run;
    const char *needs; /* separated by blanks, or NULL */
};
extern const struct languages_program languages_programs[];
extern const size_t languages_program_count;

#endif
