/*
 * Files for targets whose readers take paths.
 */
#ifndef CLOISTER_TESTS_FUZZ_SCRATCH_H
#define CLOISTER_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>

/* This process's own directory, which goes when the process ends. */
const char *scratch_dir(void);

/* Writes the file, whose name begins with '/' and is looked at from that directory. */
void scratch_put(const char *name, const void *data, size_t size);

#endif
