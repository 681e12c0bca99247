/* What a test of C needs of the machine it runs on. */
#ifndef CLOISTER_TESTS_LIB_NEEDS_H
#define CLOISTER_TESTS_LIB_NEEDS_H

#include <stdbool.h>

/* Whether PATH leads to this program. */
bool needs_has_program(const char *name);

/* Ends the process as a skipped test unless PATH leads to this program. For the beginning of
 * main(), before cmocka prints anything. */
void needs_program(const char *name);

#endif
