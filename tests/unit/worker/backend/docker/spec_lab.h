/*
 * A create request's body, built from a spec and read back.
 */
#ifndef CLOISTER_TESTS_UNIT_DOCKER_SPEC_LAB_H
#define CLOISTER_TESTS_UNIT_DOCKER_SPEC_LAB_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"
#include "worker/backend/docker/spec.h"

struct fixture {
    struct docker_engine engine;
    struct backend_spec spec;
    const char *runtime;
    char *const *copies;
    size_t copy_count;
    cJSON *body;
};

/* An engine that can do everything, and an ordinary sandbox. */
struct fixture make(void);

/* Builds the body anew; the caller frees f->body in the end. The former fails as the code does, the
 * latter fails the test. */
int try_build(struct fixture *f, struct err *err);
void build(struct fixture *f);

/* "a.b.c" below the body; NULL if absent. */
const cJSON *spec_at(const struct fixture *f, const char *path);

void expect_text(const struct fixture *f, const char *path, const char *text);
void expect_number(const struct fixture *f, const char *path, double number);
void expect_bool(const struct fixture *f, const char *path, bool value);

/* The array of strings must be exactly these words, separated by spaces. */
void expect_list(const struct fixture *f, const char *path, const char *words);

bool lists(const cJSON *array, const char *text);

#endif
