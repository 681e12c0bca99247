/*
 * The discovery of a Docker engine: an endpoint as text, Docker's configuration, a context's file,
 * and DOCKER_HOST with the variables for TLS. The first byte chooses. The files are real ones below
 * a temporary directory, which is the home directory of the discovery.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"
#include "worker/backend/docker/discovery.h"

enum { TEXT, CONFIG, CONTEXT, HOST, KINDS };

#define CONFIG_FILE  "/config.json"
#define CONTEXT_FILE "/contexts/meta/0/meta.json"

struct input {
    size_t kind;
    const char *text;
};

static const char *get(void *arg, const char *name)
{
    const struct input *in = arg;
    if (strcmp(name, "DOCKER_CONFIG") == 0 || strcmp(name, "XDG_RUNTIME_DIR") == 0) {
        return scratch_dir();
    }
    if (in->kind == CONTEXT && strcmp(name, "DOCKER_CONTEXT") == 0) {
        return "fuzz";
    }
    if (in->kind == HOST && (strcmp(name, "DOCKER_HOST") == 0 || strcmp(name, "DOCKER_TLS") == 0)) {
        return in->text;
    }
    return NULL;
}

/* An accepted endpoint has every part, contains no line breaks, and is parsed again to the same. */
static void check(const struct docker_endpoint *e)
{
    struct docker_endpoint again;
    FUZZ_REQUIRE(e->base_url != NULL && (e->cert_file == NULL) == (e->key_file == NULL));
    for (const char *p = e->text; *p != '\0'; p++) {
        FUZZ_REQUIRE((unsigned char)*p >= 0x20 && *p != 0x7f);
    }
    FUZZ_REQUIRE(strpbrk(e->base_url, " ?#\"\\") == NULL);
    FUZZ_REQUIRE(docker_endpoint_parse(e->text, &again, NULL) == 0);
    FUZZ_REQUIRE(strcmp(again.text, e->text) == 0);
    FUZZ_REQUIRE(strcmp(again.base_url, e->base_url) == 0);
    FUZZ_REQUIRE(again.verify == e->verify);
    docker_endpoint_finish(&again);
    const struct place place = docker_endpoint_place(e);
    FUZZ_REQUIRE(place_check(&place, NULL) == 0);
    FUZZ_REQUIRE(docker_endpoint_of(&place, &again, NULL) == 0);
    FUZZ_REQUIRE(strcmp(again.text, e->text) == 0);
    docker_endpoint_finish(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    char *text = malloc(size);
    FUZZ_REQUIRE(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct input in = {data[0] % KINDS, text};
    struct err err = ERR_INIT;
    if (in.kind == TEXT) {
        struct docker_endpoint e;
        if (docker_endpoint_parse(text, &e, &err) == 0) {
            check(&e);
            docker_endpoint_finish(&e);
        } else {
            FUZZ_REQUIRE(err.code == ERR_CONFIG && err.text[0] != '\0');
        }
        free(text);
        return 0;
    }
    scratch_put(CONFIG_FILE, data + 1, in.kind == CONFIG ? size - 1 : 0);
    scratch_put(CONTEXT_FILE, data + 1, in.kind == CONTEXT ? size - 1 : 0);
    struct docker_discovery places;
    docker_discovery_find(&(struct place){.kind = PLACE_NONE}, get, &in, &places);
    FUZZ_REQUIRE(places.count <= DOCKER_ENDPOINTS_MAX);
    for (size_t i = 0; i < places.count; i++) {
        const struct docker_place *p = &places.items[i];
        FUZZ_REQUIRE(p->endpoint.origin != NULL);
        if (p->problem.code == 0) {
            check(&p->endpoint);
        } else {
            FUZZ_REQUIRE(p->problem.text[0] != '\0' && p->endpoint.text == NULL);
        }
    }
    docker_discovery_finish(&places);
    free(text);
    return 0;
}
