/* Requirements of a C test on its machine. */
#ifndef CLOISTER_TESTS_LIB_NEEDS_H
#define CLOISTER_TESTS_LIB_NEEDS_H

#include <stdbool.h>

/* Whether the program is found in PATH. */
bool needs_has_program(const char *name);

/* Ends the process as a skipped test unless the program is found in PATH. To be called at the
 * beginning of main(), before cmocka prints anything. */
void needs_program(const char *name);

#endif
