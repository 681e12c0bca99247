/*
 * Addresses of ports from clients, and redirects of web servers in sandboxes: the first line is the
 * target of a request, the rest the Location of its answer. An accepted address can be written
 * again, and a redirect never leads above it, however a browser reads dots and slashes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "supervisor/web/ports/address.h"
#include "tests/fuzz/fuzz.h"

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

/* The dots that the segment consists of; 0: something else. */
static int dots_of(const char *segment, size_t len)
{
    int dots = 0;
    for (size_t i = 0; i < len; dots++) {
        if (segment[i] == '.') {
            i++;
        } else if (len - i >= 3 && strncasecmp(segment + i, "%2e", 3) == 0) {
            i += 3;
        } else {
            return 0;
        }
    }
    return dots;
}

static void check_location(const char *rest, const char *to)
{
    long depth = -1; /* directories below the address: the first slash is its own */
    size_t end = strcspn(rest, "?");
    for (size_t i = 0; i < end; i++) {
        depth += is_slash(rest[i]);
    }
    FUZZ_REQUIRE(strncmp(to, "./", 2) == 0);
    size_t len = strcspn(to, "?#");
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && !is_slash(to[at + n])) {
            n++;
        }
        int dots = dots_of(to + at, n);
        bool more = at + n < len;
        depth += dots == 2 ? -1 : dots != 1 && more ? 1 : 0;
        FUZZ_REQUIRE(depth >= 0);
        at += n + 1;
    }
    for (const char *p = to; *p != '\0'; p++) {
        FUZZ_REQUIRE(*p > ' ' && *p < 0x7f && *p != '\\');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = view_bytes((const char *)data, size);
    char *target = alloc_viewdup(view_take_line(&input));
    struct port_address a;
    const char *rest = "/";
    if (port_address_parse(target, &a)) {
        char *again = alloc_printf("/ports/%s/%u/%s/%s%s", a.sandbox, (unsigned)a.port, a.expires,
                                   a.signature, a.rest);
        FUZZ_REQUIRE(a.port > 0 && (a.rest[0] == '\0' || a.rest[0] == '/'));
        FUZZ_REQUIRE(strncmp(again, target, strlen(again)) == 0);
        free(again);
        rest = a.rest[0] != '\0' ? a.rest : "/";
    }
    char *to = port_address_location(rest, 8000, input);
    if (to != NULL) {
        check_location(rest, to);
    }
    free(to);
    free(target);
    return 0;
}
