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

/* A broken promise of the code under test; never compiled out. */
#define FUZZ_REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
