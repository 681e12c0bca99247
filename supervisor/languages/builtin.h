/*
 * The languages that come with the program, as text. Words of commands stand between single blanks.
 */
#ifndef CLOISTER_SUPERVISOR_LANGUAGES_BUILTIN_H
#define CLOISTER_SUPERVISOR_LANGUAGES_BUILTIN_H

#include <stddef.h>

/* The agent has drivers for these. */
struct languages_live {
    const char *name;
    const char *aliases; /* between blanks */
};
extern const struct languages_live languages_live[];
extern const size_t languages_live_count;

/* Rows of one language stand together; the first whose programs are there counts. */
struct languages_program {
    const char *name;
    const char *aliases; /* of its first row */
    const char *file;
    const char *compile; /* NULL: none */
    const char *script;  /* a word more for `compile`, or NULL: it stands for $SCRIPT there */
    const char *run;
    const char *needs; /* between blanks, or NULL */
};
extern const struct languages_program languages_programs[];
extern const size_t languages_program_count;

#endif
