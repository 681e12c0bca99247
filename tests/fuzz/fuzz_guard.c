/*
 * Host and Origin, on two lines. Whatever the bytes are, only our own few names are accepted.
 */
#include <string.h>
#include <strings.h>

#include "supervisor/base/config.h"
#include "supervisor/web/http/guard.h"
#include "supervisor/web/http/url.h"
#include "tests/fuzz/fuzz.h"

static bool begins_with(const char *text, const char *beginning)
{
    return strncasecmp(text, beginning, strlen(beginning)) == 0;
}

/* True for the name alone or with a port. */
static bool is_name(const char *text, const char *name)
{
    const char *rest = text + strlen(name);
    return begins_with(text, name) &&
           (rest[0] == '\0' || (rest[0] == ':' && rest[1] != '\0' &&
                                strspn(rest + 1, "0123456789") == strlen(rest + 1)));
}

static bool is_local(const char *text)
{
    struct authority a;
    return is_name(text, "localhost") || is_name(text, "127.0.0.1") ||
           (text[0] == '[' && authority_parse(view_of(text), &a) && strcmp(a.host, "::1") == 0);
}

static void check(const struct guard *g, const char *host, const char *origin)
{
    if (guard_host_ok(g, host)) {
        FUZZ_REQUIRE(is_local(host) || is_name(host, "us.example"));
    }
    if (guard_origin_ok(g, origin)) {
        const char *name = begins_with(origin, "http://")    ? origin + 7
                           : begins_with(origin, "https://") ? origin + 8
                                                             : NULL;
        FUZZ_REQUIRE(name != NULL && is_local(name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char http[] = "--http", port[] = "8080", hosts[] = "--allow-hosts", name[] = "us.example";
    char *words[] = {http, port, hosts, name, NULL};
    struct config config;
    struct guard *g = NULL;
    struct err err = ERR_INIT;
    int used;
    FUZZ_REQUIRE(config_load(&config, 4, words, &used, &err) == 0);
    FUZZ_REQUIRE(guard_create(&config, &g, &err) == 0);
    char *text = malloc(size + 1);
    FUZZ_REQUIRE(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    char *origin = strchr(text, '\n');
    if (origin != NULL) {
        *origin++ = '\0';
    }
    check(g, text, origin != NULL ? origin : "");
    free(text);
    guard_destroy(g);
    config_finish(&config);
    return 0;
}
