/*
 * The body of a create request, built from a spec and parsed again.
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
    struct docker_user user;
    cJSON *body;
};

/* An engine with all features, and an ordinary sandbox. */
struct fixture make(void);

/* Builds the body anew; the caller frees f->body in the end. try_build() returns an error, build()
 * fails the test. */
int try_build(struct fixture *f, struct err *err);
void build(struct fixture *f);

/* "a.b.c" below the body; NULL if absent. */
const cJSON *spec_at(const struct fixture *f, const char *path);

void expect_text(const struct fixture *f, const char *path, const char *text);
void expect_number(const struct fixture *f, const char *path, double number);
void expect_bool(const struct fixture *f, const char *path, bool value);

/* Requires that the array of strings is exactly these words, which are separated by spaces. */
void expect_list(const struct fixture *f, const char *path, const char *words);

bool lists(const cJSON *array, const char *text);

#endif
