/*
 * Text of --help on stdout, which no terminal of 80 columns breaks.
 *
 * Thread: any. Blocks for as long as stdout does.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_HELP_TEXT_H
#define CLOISTER_SUPERVISOR_BASE_HELP_TEXT_H

#include <stddef.h>

/* Prints a paragraph, broken at blanks. */
void help_paragraph(const char *text);

/* Prints "  LEFT  TEXT" with the text from `column` on, broken at blanks and aligned; it begins
 * below a left side that is too long. */
void help_row(const char *left, size_t column, const char *text);

#endif
