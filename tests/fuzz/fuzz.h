/*
 * What every fuzz target shares. A target is one file with LLVMFuzzerTestOneInput(): libFuzzer
 * calls it with -Dfuzz=true, replay.c calls it with the corpus in every plain test run.
 */
#ifndef CLOISTER_TESTS_FUZZ_FUZZ_H
#define CLOISTER_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of replay.c: does not come back while memory is made to run out, for a target expects that what
 * has been possible once is possible again. A fuzzer has none. */
void fuzz_excuse(void) __attribute__((weak));

/* A broken promise of the code under test; never compiled out. */
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
