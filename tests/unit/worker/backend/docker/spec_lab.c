/* What the tests of a create request's body share. */
#include "tests/unit/worker/backend/docker/spec_lab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/io/json.h"
#include "tests/lib/json_at.h"

struct fixture make(void)
{
    return (struct fixture){
        .engine = {.memory_limit = true,
                   .swap_limit = true,
                   .pids_limit = true,
                   .cpu_quota = true,
                   .seccomp = true,
                   .cpu_milli_max = 4000},
        .spec = {.id = "abc",
                 .limits = {.memory_bytes = 512u << 20,
                            .cpu_milli = 1500,
                            .pids = 256,
                            .disk_bytes = 128u << 20,
                            .files = 1024},
                 .grace_ms = 7000,
                 .agent_path = "/lib/cloister-agent"},
        .runtime = "",
    };
}

int try_build(struct fixture *f, struct err *err)
{
    cJSON *labels = cJSON_CreateObject();
    cJSON_AddStringToObject(labels, "io.cloister.id", "abc");
    cJSON_AddStringToObject(labels, "io.cloister.odd", "\"\n");
    struct docker_spec_input in = {
        .spec = &f->spec,
        .engine = &f->engine,
        .image = "sha256:123",
        .volume = "cloister-agent-1",
        .runtime = f->runtime,
        .labels = labels,
        .copies = f->copies,
        .copy_count = f->copy_count,
        .user = f->user,
    };
    CLEANUP_FREE char *text = NULL;
    int rc = docker_spec_build(&in, &text, err);
    cJSON_Delete(labels);
    if (rc == 0) {
        /* Parsed by the strict reader, so the text must be valid JSON for any parser. */
        assert_int_equal(json_parse(text, strlen(text), 1u << 20, 32, &f->body, NULL, err), 0);
    }
    return rc;
}

void build(struct fixture *f)
{
    struct err err = ERR_INIT;
    cJSON_Delete(f->body);
    f->body = NULL;
    if (try_build(f, &err) < 0) {
        fail_msg("%s", err.text);
    }
}

const cJSON *spec_at(const struct fixture *f, const char *path)
{
    return at(f->body, path);
}

void expect_text(const struct fixture *f, const char *path, const char *text)
{
    const cJSON *item = spec_at(f, path);
    assert_true(cJSON_IsString(item));
    assert_string_equal(item->valuestring, text);
}

void expect_number(const struct fixture *f, const char *path, double number)
{
    const cJSON *item = spec_at(f, path);
    assert_true(cJSON_IsNumber(item));
    assert_true(item->valuedouble >= number && item->valuedouble <= number);
}

void expect_bool(const struct fixture *f, const char *path, bool value)
{
    assert_true(value ? cJSON_IsTrue(spec_at(f, path)) : cJSON_IsFalse(spec_at(f, path)));
}

void expect_list(const struct fixture *f, const char *path, const char *words)
{
    const cJSON *item;
    assert_true(cJSON_IsArray(spec_at(f, path)));
    cJSON_ArrayForEach(item, spec_at(f, path))
    {
        assert_true(cJSON_IsString(item));
        size_t len = strlen(item->valuestring);
        if (strncmp(words, item->valuestring, len) != 0) {
            fail_msg("%s: \"%s\" instead of \"%s\"", path, item->valuestring, words);
        }
        words += len;
        words += *words == ' ' ? 1 : 0;
    }
    assert_string_equal(words, "");
}

bool lists(const cJSON *array, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        if (cJSON_IsString(item) && strcmp(item->valuestring, text) == 0) {
            return true;
        }
    }
    return false;
}
