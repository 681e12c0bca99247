/*
 * Rows of a report for people: a name, and what is said of it on as many lines as it takes.
 *
 * Thread: any. Nothing blocks but writing.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_ROW_H
#define CLOISTER_SUPERVISOR_CLI_ROW_H

#include <stdio.h>

#include "common/view.h"

/* How wide lines on stdout may be: as the terminal, 100 columns if it is none. */
size_t row_width(void);

/* "  what               text". Lines are broken at spaces only, so that a path stays whole; those
 * that go on are indented by 23 columns. */
void row_print(FILE *out, size_t width, const char *what, struct view text);

/* A line without a name, whose further lines are indented by so many columns. */
void row_print_line(FILE *out, size_t width, size_t indent, struct view text);

#endif
