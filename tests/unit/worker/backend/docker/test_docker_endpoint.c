/*
 * Discovery of the engine: text forms in both directions, Docker's own files and variables, and the
 * usual sockets. Files and sockets are real ones below a temporary directory; the environment is
 * the test's as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "worker/backend/docker/discovery.h"

#define VARS_MAX 12

/* A home directory and an environment. */
struct world {
    char root[64];
    const char *names[VARS_MAX];
    char *values[VARS_MAX];
    size_t count;
    struct docker_discovery places;
};

static const char *get(void *arg, const char *name)
{
    const struct world *w = arg;
    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->names[i], name) == 0) {
            return w->values[i];
        }
    }
    return NULL;
}

/* Sets a variable; "@" at the beginning of the value stands for the root directory of the test. */
static void set(struct world *w, const char *name, const char *value)
{
    assert_true(w->count < VARS_MAX);
    w->names[w->count] = name;
    w->values[w->count++] =
        value[0] == '@' ? alloc_printf("%s%s", w->root, value + 1) : alloc_strdup(value);
}

static int setup(void **state)
{
    struct world *w = alloc_one(struct world);
    snprintf(w->root, sizeof(w->root), "/tmp/cloister-places-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    set(w, "HOME", "@/home");
    set(w, "XDG_RUNTIME_DIR", "@/run");
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    docker_discovery_finish(&w->places);
    for (size_t i = 0; i < w->count; i++) {
        free(w->values[i]);
    }
    assert_int_equal(dir_remove(w->root, NULL), 0);
    free(w);
    return 0;
}

static char *path_of(const struct world *w, const char *name)
{
    char *path = alloc_printf("%s/%s", w->root, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(dir_make(path, 0700, NULL), 0);
    *slash = '/';
    return path;
}

static void put(const struct world *w, const char *name, const char *text)
{
    CLEANUP_FREE char *path = path_of(w, name);
    CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text), NULL), 0);
}

static void put_socket(const struct world *w, const char *name)
{
    CLEANUP_FREE char *path = path_of(w, name);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void put_link(const struct world *w, const char *name, const char *target)
{
    CLEANUP_FREE char *path = path_of(w, name);
    CLEANUP_FREE char *to = path_of(w, target);
    assert_int_equal(symlink(to, path), 0);
}

/* A record can always be read again, as the same endpoint. */
static void expect_place_of(const struct docker_endpoint *e)
{
    struct docker_endpoint again;
    struct err err = ERR_INIT;
    struct place place = docker_endpoint_place(e);
    assert_int_equal(place_check(&place, &err), 0);
    assert_int_equal(docker_endpoint_of(&place, &again, &err), 0);
    assert_string_equal(again.text, e->text);
    assert_string_equal(again.base_url, e->base_url);
    assert_int_equal(again.verify, e->verify);
    docker_endpoint_finish(&again);
}

static void find(struct world *w, const char *named)
{
    docker_discovery_finish(&w->places);
    const struct place place = {.kind = named[0] != '\0' ? PLACE_NAMED : PLACE_NONE,
                                .address = named};
    docker_discovery_find(&place, get, w, &w->places);
    assert_true(w->places.count > 0);
    for (size_t i = 0; i < w->places.count; i++) {
        const struct docker_place *p = &w->places.items[i];
        assert_non_null(p->endpoint.origin);
        if (p->problem.code != 0) {
            assert_true(p->problem.code == ERR_CONFIG || p->problem.code == ERR_ENGINE);
            assert_true(p->problem.text[0] != '\0');
            assert_null(p->endpoint.text);
            assert_null(p->endpoint.base_url);
            continue;
        }
        expect_place_of(&p->endpoint);
    }
}

/* Requires that the one configured place is valid and has this text ("@": root). */
static void expect(struct world *w, const char *text, const char *origin)
{
    const struct docker_place *p = &w->places.items[0];
    assert_true(w->places.configured);
    assert_int_equal(w->places.count, 1);
    if (p->problem.code != 0) {
        fail_msg("%s", p->problem.text);
    }
    const char *at = strchr(text, '@');
    CLEANUP_FREE char *whole =
        at == NULL ? alloc_strdup(text)
                   : alloc_printf("%.*s%s%s", (int)(at - text), text, w->root, at + 1);
    assert_string_equal(p->endpoint.text, whole);
    assert_non_null(strstr(p->endpoint.origin, origin));
}

/* Requires that the one configured place is invalid, with these words in its error. */
static void expect_problem(struct world *w, int code, const char *words, const char *more)
{
    const struct docker_place *p = &w->places.items[0];
    assert_true(w->places.configured);
    assert_int_equal(w->places.count, 1);
    assert_int_equal(p->problem.code, code);
    CLEANUP_FREE char *text = alloc_printf("%s: %s", p->endpoint.origin, p->problem.text);
    if (strstr(text, words) == NULL || strstr(text, more) == NULL) {
        fail_msg("no \"%s\" and \"%s\" in \"%s\"", words, more, text);
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void good_text_is_understood(void **state)
{
    static const struct {
        const char *in, *text, *base_url, *socket;
    } rows[] = {
        {"unix:///run/docker.sock", NULL, "http://localhost", "/run/docker.sock"},
        {"unix://", "unix:///var/run/docker.sock", "http://localhost", "/var/run/docker.sock"},
        {"unix:///a b/%20?x=1&ü", NULL, "http://localhost", "/a b/%20?x=1&ü"},
        {"tcp://host:2375", NULL, "http://host:2375", NULL},
        {"tcp://host", "tcp://host:2375", "http://host:2375", NULL},
        {"tcp://10.0.0.1:80/", "tcp://10.0.0.1:80", "http://10.0.0.1:80", NULL},
        {"host:1", "tcp://host:1", "http://host:1", NULL},
        {":2375", "tcp://127.0.0.1:2375", "http://127.0.0.1:2375", NULL},
        {"tcp://", "tcp://127.0.0.1:2375", "http://127.0.0.1:2375", NULL},
        {"[::1]:2375", "tcp://[::1]:2375", "http://[::1]:2375", NULL},
        {"tcp://[fe80::1%25eth0]", "tcp://[fe80::1%25eth0]:2375", "http://[fe80::1%25eth0]:2375",
         NULL},
        {"tcp://[::ffff:10.0.0.1]:5/a/b//", "tcp://[::ffff:10.0.0.1]:5/a/b",
         "http://[::ffff:10.0.0.1]:5/a/b", NULL},
        {"tcp://h:2376/base?tls=1", "tcp://h:2376/base?tls=1&verify=1", "https://h:2376/base",
         NULL},
        {"tcp://h:2376?verify=0&tls=1", "tcp://h:2376?tls=1&verify=0", "https://h:2376", NULL},
        {"tcp://h:2376?tls=0", "tcp://h:2376", "http://h:2376", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct docker_endpoint e, again;
        struct err err = ERR_INIT;
        if (docker_endpoint_parse(rows[i].in, &e, &err) < 0) {
            fail_msg("%s: %s", rows[i].in, err.text);
        }
        assert_string_equal(e.text, rows[i].text != NULL ? rows[i].text : rows[i].in);
        assert_string_equal(e.base_url, rows[i].base_url);
        if (rows[i].socket != NULL) {
            assert_string_equal(e.unix_socket, rows[i].socket);
        } else {
            assert_null(e.unix_socket);
        }
        assert_int_equal(docker_endpoint_parse(e.text, &again, &err), 0);
        assert_string_equal(again.text, e.text);
        assert_string_equal(again.base_url, e.base_url);
        assert_int_equal(again.verify, e.verify);
        expect_place_of(&e);
        docker_endpoint_finish(&again);
        docker_endpoint_finish(&e);
    }
}

static void tls_files_survive_the_text(void **state)
{
    struct docker_tls tls = {
        .on = true,
        .verify = true,
        .ca_file = alloc_strdup("/a b/50% & more?/ca=ü.pem"),
        .cert_file = alloc_strdup("/c/cert.pem"),
        .key_file = alloc_strdup("/c/key+#.pem"),
    };
    struct docker_endpoint e, again;
    struct http_endpoint http;
    struct err err = ERR_INIT;
    (void)state;
    assert_int_equal(docker_endpoint_make("tcp://[::1]:2376/base", &tls, &e, &err), 0);
    assert_string_equal(e.text, "tcp://[::1]:2376/base?tls=1&verify=1"
                                "&ca=/a%20b/50%25%20%26%20more%3F/ca%3D%C3%BC.pem"
                                "&cert=/c/cert.pem&key=/c/key%2B%23.pem");
    assert_int_equal(docker_endpoint_parse(e.text, &again, &err), 0);
    assert_string_equal(again.text, e.text);
    docker_endpoint_http(&again, &http);
    assert_string_equal(http.name, e.text);
    assert_string_equal(http.base_url, "https://[::1]:2376/base");
    assert_null(http.unix_socket);
    assert_string_equal(http.ca_file, tls.ca_file);
    assert_string_equal(http.cert_file, tls.cert_file);
    assert_string_equal(http.key_file, tls.key_file);
    assert_true(http.verify);
    expect_place_of(&e);
    docker_endpoint_finish(&again);
    docker_endpoint_finish(&e);

    /* TLS has no meaning for a socket. */
    assert_int_equal(docker_endpoint_make("unix:///s", &tls, &e, &err), 0);
    assert_string_equal(e.text, "unix:///s");
    assert_null(e.ca_file);
    docker_endpoint_finish(&e);

    /* The longest valid one can still be read again. */
    char *longest = alloc_array(4096, 1);
    memset(longest, '&', 4095);
    longest[0] = '/';
    free(tls.ca_file);
    tls.ca_file = longest;
    assert_int_equal(docker_endpoint_make("h:1", &tls, &e, &err), 0);
    assert_int_equal(docker_endpoint_parse(e.text, &again, &err), 0);
    assert_string_equal(again.ca_file, longest);
    expect_place_of(&e);
    docker_endpoint_finish(&again);
    docker_endpoint_finish(&e);

    longest[7] = '\n';
    assert_int_equal(docker_endpoint_make("h:1", &tls, &e, &err), -ERR_CONFIG);
    docker_tls_finish(&tls);
}

static void bad_text_is_refused_with_what_to_do(void **state)
{
    static const struct {
        const char *in, *words;
    } rows[] = {
        {"", "it is empty"},
        {"ssh://me@host", "ssh -nNT -L"},
        {"npipe:////./pipe/docker_engine", "WSL"},
        {"fd://", "socket"},
        {"http://host:1", "tcp://"},
        {"https://host:1", "tls=1"},
        {"ftp://host", "unix:///PATH"},
        {"/run/docker.sock", "unix://"},
        {"unix://run/docker.sock", "slash"},
        {"unix:///a\nb", "control character"},
        {"unix:///\xff", "UTF-8"},
        {"unix:///0123456789012345678901234567890123456789012345678901234567890123456789"
         "01234567890123456789012345678901234567",
         "at most 107"},
        {"tcp://me:secret@host:1", "user"},
        {"tcp://host:0", "port"},
        {"tcp://host:65536", "port"},
        {"tcp://host:", "port"},
        {"tcp://host:1x", "port"},
        {"tcp://::1:2375", "brackets"},
        {"tcp://[::1:2375", "HOST:PORT"},
        {"tcp://[::1]x:2375", "HOST:PORT"},
        {"tcp://[]:1", "HOST:PORT"},
        {"tcp://[", "HOST:PORT"},
        {"tcp://[1]:1", "HOST:PORT"},
        {"tcp://[fe80::1%eth0]:1", "HOST:PORT"},
        {"tcp://ho st:1", "HOST:PORT"},
        {"tcp://h\"st:1", "HOST:PORT"},
        {"tcp://host:1/a b", "percent-encode"},
        {"tcp://host:1/a#b", "percent-encode"},
        {"tcp://host:1?", "no option"},
        {"tcp://host:1?tls", "no option"},
        {"tcp://host:1?tls=1&", "no option"},
        {"tcp://host:1?tls=1&insecure=1", "no option"},
        {"tcp://host:1?tls=yes", "0 or 1"},
        {"tcp://host:1?verify=1", "need tls=1"},
        {"tcp://host:1?ca=/ca.pem", "need tls=1"},
        {"tcp://host:1?tls=1&ca=ca.pem", "absolute"},
        {"tcp://host:1?tls=1&ca=/%zz", "absolute"},
        {"tcp://host:1?tls=1&ca=/%0", "absolute"},
        {"tcp://host:1?tls=1&ca=/a%00b", "absolute"},
        {"tcp://host:1?tls=1&cert=/c", "the key is missing"},
        {"tcp://host:1?tls=1&key=/c", "the certificate is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct docker_endpoint e = {.text = NULL};
        struct err err = ERR_INIT;
        assert_int_equal(docker_endpoint_parse(rows[i].in, &e, &err), -ERR_CONFIG);
        if (strstr(err.text, rows[i].words) == NULL) {
            fail_msg("%s: no \"%s\" in \"%s\"", rows[i].in, rows[i].words, err.text);
        }
        assert_null(strstr(err.text, "secret")); /* the error may be logged */
        assert_null(e.text);
    }
    CLEANUP_FREE char *huge = alloc_array(100001, 1);
    memset(huge, 'a', 100000);
    struct docker_endpoint e;
    assert_int_equal(docker_endpoint_parse(huge, &e, NULL), -ERR_CONFIG);
}

/* ---- configured places ----------------------------------------------------------------------- */

static void what_is_named_is_taken_alone(void **state)
{
    struct world *w = *state;
    put_socket(w, "s");
    put_socket(w, "run/docker.sock");
    set(w, "DOCKER_HOST", "tcp://other:1");
    CLEANUP_FREE char *text = alloc_printf("unix://%s/s", w->root);
    find(w, text);
    expect(w, "unix://@/s", "named");
    CLEANUP_FREE char *nobody = alloc_printf("unix://%s/nobody", w->root);
    find(w, nobody);
    expect_problem(w, ERR_ENGINE, "/nobody does not exist", "the engine that was named");
    find(w, "ssh://h");
    expect_problem(w, ERR_CONFIG, "ssh -nNT -L", "");
}

static void a_record_means_the_same_in_any_environment(void **state)
{
    struct world *w = *state;
    set(w, "DOCKER_TLS_VERIFY", "1");
    find(w, "tcp://host:2375");
    expect(w, "tcp://host:2375", "named");
}

static void docker_host_goes_before_contexts(void **state)
{
    struct world *w = *state;
    put(w, "home/.docker/config.json", "{\"currentContext\":\"x\"}");
    set(w, "DOCKER_CONTEXT", "y");
    set(w, "DOCKER_HOST", "tcp://host:2375");
    find(w, "");
    expect(w, "tcp://host:2375", "DOCKER_HOST");
}

static void a_bad_docker_host_says_so(void **state)
{
    struct world *w = *state;
    set(w, "DOCKER_HOST", "tcp://host:x");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "DOCKER_HOST: \"host:x\"", "unset it");
}

static void variables_switch_tls_on(void **state)
{
    struct world *w = *state;
    set(w, "DOCKER_HOST", "tcp://host:2376");
    set(w, "DOCKER_CERT_PATH", "@/certs");
    set(w, "DOCKER_TLS", "0"); /* any value */
    find(w, "");
    expect(w, "tcp://host:2376?tls=1&verify=0", "DOCKER_HOST");

    set(w, "DOCKER_TLS_VERIFY", "1");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "/certs/ca.pem is needed for TLS", "DOCKER_CERT_PATH");

    put(w, "certs/ca.pem", "x");
    find(w, "");
    expect(w, "tcp://host:2376?tls=1&verify=1&ca=@/certs/ca.pem", "DOCKER_HOST");

    put(w, "certs/cert.pem", "x");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "the key is missing", "DOCKER_CERT_PATH");
    put(w, "certs/key.pem", "x");
    find(w, "");
    CLEANUP_FREE char *all =
        alloc_printf("tcp://host:2376?tls=1&verify=1&ca=%s/certs/ca.pem&cert=%s/certs/cert.pem"
                     "&key=%s/certs/key.pem",
                     w->root, w->root, w->root);
    expect(w, all, "DOCKER_HOST");
}

static void certificates_are_looked_for_beside_the_configuration(void **state)
{
    struct world *w = *state;
    put(w, "cfg/ca.pem", "x");
    set(w, "DOCKER_CONFIG", "@/cfg");
    set(w, "DOCKER_TLS_VERIFY", "1");
    find(w, "");
    expect(w, "tcp://localhost:2376?tls=1&verify=1&ca=@/cfg/ca.pem", "DOCKER_TLS_VERIFY");
}

static void a_socket_needs_no_tls(void **state)
{
    struct world *w = *state;
    put_socket(w, "s");
    CLEANUP_FREE char *text = alloc_printf("unix://%s/s", w->root);
    set(w, "DOCKER_HOST", text);
    set(w, "DOCKER_TLS_VERIFY", "1");
    find(w, "");
    expect(w, "unix://@/s", "DOCKER_HOST");
}

#define META(dir) "home/.docker/contexts/meta/" dir "/meta.json"

static void put_context(const struct world *w, const char *file, const char *name,
                        const char *endpoints)
{
    CLEANUP_FREE char *text =
        alloc_printf("{\"Name\":\"%s\",\"Metadata\":{},\"Endpoints\":%s}", name, endpoints);
    put(w, file, text);
}

static void the_current_context_counts(void **state)
{
    struct world *w = *state;
    put(w, "home/.docker/config.json", "{\"auths\":{},\"currentContext\":\"colima\"}");
    put_socket(w, "c/docker.sock");
    CLEANUP_FREE char *endpoints =
        alloc_printf("{\"docker\":{\"Host\":\"unix://%s/c/docker.sock\"}}", w->root);
    put_context(w, META("0aa"), "other", "{\"docker\":{\"Host\":\"tcp://other:1\"}}");
    put_context(w, META("1bb"), "colima", endpoints);
    put(w, META("2cc"), "{ broken");
    find(w, "");
    expect(w, "unix://@/c/docker.sock", "context \"colima\" of");
    assert_non_null(strstr(w->places.items[0].endpoint.origin, "config.json"));

    set(w, "DOCKER_CONTEXT", "other");
    find(w, "");
    expect(w, "tcp://other:1", "context \"other\" of DOCKER_CONTEXT");
}

static void a_context_brings_its_own_tls(void **state)
{
    struct world *w = *state;
    set(w, "DOCKER_CONTEXT", "far");
    set(w, "DOCKER_TLS", "1"); /* not for contexts */
    put_context(w, META("ff"), "far", "{\"docker\":{\"Host\":\"tcp://far:2376\"}}");
    find(w, "");
    expect(w, "tcp://far:2376", "far");

    put(w, "home/.docker/contexts/tls/ff/docker/ca.pem", "x");
    find(w, "");
    expect(w, "tcp://far:2376?tls=1&verify=1&ca=@/home/.docker/contexts/tls/ff/docker/ca.pem",
           "far");

    put_context(w, META("ff"), "far",
                "{\"docker\":{\"Host\":\"tcp://far:2376\",\"SkipTLSVerify\":true}}");
    find(w, "");
    expect(w, "tcp://far:2376?tls=1&verify=0&ca=@/home/.docker/contexts/tls/ff/docker/ca.pem",
           "far");
}

static void a_bad_context_is_an_error_that_names_it(void **state)
{
    static const struct {
        const char *endpoints, *words;
    } rows[] = {
        {"{\"docker\":{\"Host\":\"ssh://me@host\"}}", "ssh -nNT -L"},
        {"{\"docker\":{\"Host\":\"tcp://host:bad\"}}", "the port is no number"},
        {"{\"docker\":{\"Host\":7}}", "no endpoint for Docker"},
        {"{\"kubernetes\":{}}", "no endpoint for Docker"},
        {"[]", "no endpoint for Docker"},
        {"{\"docker\":{\"Host\":\"unix:///a\\u0000b\"}}", "u0000"},
    };
    struct world *w = *state;
    set(w, "DOCKER_CONTEXT", "far");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "context \"far\" of DOCKER_CONTEXT", "docker context ls");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_context(w, META("ff"), "far", rows[i].endpoints);
        find(w, "");
        expect_problem(w, ERR_CONFIG, rows[i].words, "context \"far\"");
    }
    put_context(w, META("ff"), "near", "{}");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "no file in", "that name");
    put(w, META("ee"), "{\"Name\":");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "one is broken", "/ee/meta.json");
}

static void a_context_without_a_host_is_the_usual_socket(void **state)
{
    struct world *w = *state;
    set(w, "DOCKER_CONTEXT", "far");
    put_context(w, META("ff"), "far", "{\"docker\":{}}");
    find(w, "");
    assert_true(w->places.configured);
    const struct docker_place *p = &w->places.items[0];
    assert_non_null(
        strstr(p->problem.code == 0 ? p->endpoint.text : p->problem.text, DOCKER_SOCKET_USUAL));
}

static void hostile_names_of_contexts_go_nowhere(void **state)
{
    static const char *const names[] = {"../../etc", "a b", "a\nb", "\x1b[31m"};
    struct world *w = *state;
    set(w, "DOCKER_CONTEXT", "");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        free(w->values[w->count - 1]);
        w->values[w->count - 1] = alloc_strdup(names[i]);
        find(w, "");
        expect_problem(w, ERR_CONFIG, "DOCKER_CONTEXT: that is no name", "");
    }
}

static void the_context_named_default_is_the_usual_socket(void **state)
{
    struct world *w = *state;
    put(w, "home/.docker/config.json", "{\"currentContext\":\"colima\"}");
    set(w, "DOCKER_CONTEXT", "default");
    find(w, "");
    assert_true(w->places.configured);
    assert_int_equal(w->places.count, 1);
    assert_non_null(strstr(w->places.items[0].endpoint.origin, "default"));
}

/* ---- usual places ---------------------------------------------------------------------------- */

/* The n-th usable place below the root; places of this machine itself are skipped. */
static const struct docker_endpoint *own(const struct world *w, size_t n)
{
    for (size_t i = 0; i < w->places.count; i++) {
        const struct docker_place *p = &w->places.items[i];
        if (p->problem.code == 0 && strstr(p->endpoint.text, w->root) != NULL && n-- == 0) {
            return &p->endpoint;
        }
    }
    return NULL;
}

static const struct err *own_problem(const struct world *w)
{
    for (size_t i = 0; i < w->places.count; i++) {
        const struct docker_place *p = &w->places.items[i];
        if (p->problem.code != 0 && strstr(p->problem.text, w->root) != NULL) {
            return &p->problem;
        }
    }
    return NULL;
}

static void expect_own(const struct world *w, size_t n, const char *path, const char *origin)
{
    const struct docker_endpoint *e = own(w, n);
    assert_non_null(e);
    assert_string_equal(e->unix_socket + strlen(w->root), path);
    assert_non_null(strstr(e->origin, origin));
}

static void usual_sockets_come_in_their_order(void **state)
{
    static const struct {
        const char *path, *origin;
    } rows[] = {
        {"/run/docker.sock", "rootless Docker"},
        {"/home/.docker/run/docker.sock", "Docker Desktop"},
        {"/home/.docker/desktop/docker.sock", "Docker Desktop"},
        {"/home/.orbstack/run/docker.sock", "OrbStack"},
        {"/colima/default/docker.sock", "Colima"},
        {"/colima/a/docker.sock", "Colima, profile a"},
        {"/colima/b/docker.sock", "Colima, profile b"},
        {"/home/.colima/default/docker.sock", "Colima"},
        {"/home/.config/colima/z/docker.sock", "Colima, profile z"},
        {"/home/.rd/docker.sock", "Rancher Desktop"},
        {"/run/podman/podman.sock", "rootless Podman"},
    };
    struct world *w = *state;
    size_t count = sizeof(rows) / sizeof(rows[0]);
    set(w, "COLIMA_HOME", "@/colima");
    for (size_t i = count; i-- > 0;) {
        put_socket(w, rows[i].path + 1);
    }
    put(w, "colima/_lima/other", "x");
    find(w, "");
    assert_false(w->places.configured);
    for (size_t i = 0; i < count; i++) {
        expect_own(w, i, rows[i].path, rows[i].origin);
    }
    assert_null(own(w, count));
    assert_null(own_problem(w));
}

static void many_profiles_leave_room_for_others(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 40; i++) {
        CLEANUP_FREE char *path = alloc_printf("home/.colima/p%02d/docker.sock", 39 - i);
        put_socket(w, path);
    }
    put_socket(w, "home/.rd/docker.sock");
    put_socket(w, "run/podman/podman.sock");
    find(w, "");
    for (size_t i = 0; i < 6; i++) {
        CLEANUP_FREE char *path = alloc_printf("/home/.colima/p%02zu/docker.sock", i);
        expect_own(w, i, path, "profile");
    }
    expect_own(w, 6, "/home/.rd/docker.sock", "Rancher");
    expect_own(w, 7, "/run/podman/podman.sock", "Podman");
}

static void one_socket_of_two_names_is_listed_once(void **state)
{
    struct world *w = *state;
    put_socket(w, "home/.colima/default/docker.sock");
    put_link(w, "run/docker.sock", "home/.colima/default/docker.sock");
    put_socket(w, "home/.rd/docker.sock");
    find(w, "");
    expect_own(w, 0, "/run/docker.sock", "rootless Docker");
    expect_own(w, 1, "/home/.rd/docker.sock", "Rancher");
    assert_null(own(w, 2));
}

static void what_is_no_socket_is_told(void **state)
{
    struct world *w = *state;
    put(w, "run/docker.sock/left", "by a bind mount of a missing file");
    put_link(w, "home/.rd/docker.sock", "gone"); /* left by an installation that was removed */
    put_socket(w, "home/.orbstack/run/docker.sock");
    find(w, "");
    expect_own(w, 0, "/home/.orbstack/run/docker.sock", "OrbStack");
    assert_non_null(own_problem(w));
    assert_non_null(strstr(own_problem(w)->text, "/run/docker.sock is no socket"));
}

static void nothing_found_says_what_to_do(void **state)
{
    struct world *w = *state;
    find(w, "");
    assert_false(w->places.configured);
    assert_null(own(w, 0));
    if (access(DOCKER_SOCKET_USUAL, F_OK) < 0 && access("/run/podman/podman.sock", F_OK) < 0) {
        assert_int_equal(w->places.count, 1);
        assert_int_equal(w->places.items[0].problem.code, ERR_ENGINE);
        assert_non_null(strstr(w->places.items[0].problem.text, DOCKER_SOCKET_USUAL));
        assert_non_null(strstr(w->places.items[0].problem.text, "DOCKER_HOST"));
    }
}

static void a_bad_configuration_is_told_and_passed(void **state)
{
    static const char *const bad[] = {"", "[]", "{", "\xff", "{\"a\":\"\\u0000\"}"};
    struct world *w = *state;
    put_socket(w, "run/docker.sock");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(w, "home/.docker/config.json", bad[i]);
        find(w, "");
        assert_false(w->places.configured);
        expect_own(w, 0, "/run/docker.sock", "rootless");
        assert_non_null(own_problem(w));
        assert_int_equal(own_problem(w)->code, ERR_CONFIG);
        assert_non_null(strstr(own_problem(w)->text, "/home/.docker/config.json"));
        assert_non_null(strstr(own_problem(w)->text, "repair the file"));
    }

    CLEANUP_FREE char *deep = alloc_array(200, 1);
    memset(deep, '[', 100);
    put(w, "home/.docker/config.json", deep);
    find(w, "");
    assert_non_null(strstr(own_problem(w)->text, "nested deeper"));

    CLEANUP_FREE char *huge = alloc_array((1u << 20) + 2, 1);
    memset(huge, ' ', (1u << 20) + 1);
    put(w, "home/.docker/config.json", huge);
    find(w, "");
    assert_non_null(own_problem(w));

    CLEANUP_FREE char *path = path_of(w, "home/.docker/config.json");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* a FIFO, to which nothing will be written */
    find(w, "");
    assert_non_null(strstr(own_problem(w)->text, "no regular file"));

    /* Values of another type name no context. */
    assert_int_equal(unlink(path), 0);
    put(w, "home/.docker/config.json", "{\"currentContext\":7}");
    find(w, "");
    assert_false(w->places.configured);
    assert_null(own_problem(w));
    put(w, "home/.docker/config.json", "{\"currentContext\":\"default\"}");
    find(w, "");
    assert_false(w->places.configured);
}

static void no_environment_at_all_is_fine(void **state)
{
    struct world *w = *state;
    while (w->count > 0) {
        free(w->values[--w->count]);
    }
    find(w, "");
    assert_false(w->places.configured);
    set(w, "DOCKER_CONTEXT", "x");
    find(w, "");
    expect_problem(w, ERR_CONFIG, "HOME", "DOCKER_CONFIG");
}

int main(void)
{
#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_text_is_understood),
        cmocka_unit_test(tls_files_survive_the_text),
        cmocka_unit_test(bad_text_is_refused_with_what_to_do),
        IN_WORLD(what_is_named_is_taken_alone),
        IN_WORLD(a_record_means_the_same_in_any_environment),
        IN_WORLD(docker_host_goes_before_contexts),
        IN_WORLD(a_bad_docker_host_says_so),
        IN_WORLD(variables_switch_tls_on),
        IN_WORLD(certificates_are_looked_for_beside_the_configuration),
        IN_WORLD(a_socket_needs_no_tls),
        IN_WORLD(the_current_context_counts),
        IN_WORLD(a_context_brings_its_own_tls),
        IN_WORLD(a_bad_context_is_an_error_that_names_it),
        IN_WORLD(a_context_without_a_host_is_the_usual_socket),
        IN_WORLD(hostile_names_of_contexts_go_nowhere),
        IN_WORLD(the_context_named_default_is_the_usual_socket),
        IN_WORLD(usual_sockets_come_in_their_order),
        IN_WORLD(many_profiles_leave_room_for_others),
        IN_WORLD(one_socket_of_two_names_is_listed_once),
        IN_WORLD(what_is_no_socket_is_told),
        IN_WORLD(nothing_found_says_what_to_do),
        IN_WORLD(a_bad_configuration_is_told_and_passed),
        IN_WORLD(no_environment_at_all_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
