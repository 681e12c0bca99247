/*
 * Declarations for all fuzz targets. A target is one file with LLVMFuzzerTestOneInput(): libFuzzer
 * calls it with -Dfuzz=true, replay.c calls it with the corpus in every plain test run.
 */
#ifndef CLOISTER_TESTS_FUZZ_FUZZ_H
#define CLOISTER_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Defined by replay.c: does not return while an allocation is made to fail, because a target may
 * expect that something succeeds which has succeeded before. Fuzzers do not define it. */
void fuzz_excuse(void) __attribute__((weak));

/* Asserts a promise of the code under test; never compiled out. */
#define FUZZ_REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            if (fuzz_excuse != NULL) {                                                             \
                fuzz_excuse();                                                                     \
            }                                                                                      \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
