/*
 * Files for targets whose readers take paths.
 */
#ifndef CLOISTER_TESTS_FUZZ_SCRATCH_H
#define CLOISTER_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>

/* This process's own directory, which is removed at the end of the process. */
const char *scratch_dir(void);

/* Writes the file; its name begins with '/' and is relative to that directory. */
void scratch_put(const char *name, const void *data, size_t size);

#endif
