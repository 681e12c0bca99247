/*
 * The bytes of a connection, given to the listener itself. Whatever they are, the arguments of a
 * handler are valid, every exchange ends, every connection is closed, and nothing is leaked.
 *
 * The beginning of the path decides whether a handler answers at once, later, by a stream, or not
 * at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/web/http/internal.h"
#include "tests/fuzz/fuzz.h"

enum { BODY_MAX_BYTES = 4096, HELD_MAX = 64, TURNS = 6, TURNS_TO_END = 10000 };

static struct {
    uv_loop_t loop;
    struct web_listener *listener;
    struct web_exchange *held[HELD_MAX];
    size_t held_count;
} world;

static void on_gone(void *arg)
{
    struct web_exchange **slot = arg;
    FUZZ_REQUIRE(*slot != NULL);
    *slot = NULL;
}

static void check(struct web_exchange *x)
{
    FUZZ_REQUIRE(web_path(x)[0] == '/' || strcmp(web_path(x), "*") == 0);
    FUZZ_REQUIRE(web_method(x)[0] != '\0');
    FUZZ_REQUIRE(web_header_count(x, "host") <= 1);
    FUZZ_REQUIRE(web_header(x, "Content-Length") == NULL ||
                 web_header(x, "Transfer-Encoding") == NULL);
    static const char *const names[] = {"Host", "A", "Content-Type", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = web_header(x, names[i]);
        FUZZ_REQUIRE((value != NULL) == (web_header_count(x, names[i]) > 0));
        FUZZ_REQUIRE(value == NULL || strpbrk(value, "\r\n") == NULL);
        FUZZ_REQUIRE(value == NULL || (*value != ' ' && *value != '\t'));
    }
    const char *query = web_query(x, "q");
    FUZZ_REQUIRE(query == NULL || strlen(query) < 65536);
}

static int admit(void *arg, struct web_exchange *x)
{
    (void)arg;
    check(x);
    FUZZ_REQUIRE(web_body(x).len == 0);
    const char *host = web_header(x, "Host");
    if (host != NULL && strcmp(host, "evil") == 0) {
        web_set_header(x, "X-Host", host);
        web_respond(x, 403, NULL, view_of(""));
        return -1;
    }
    return 0;
}

static void handle(void *arg, struct web_exchange *x)
{
    (void)arg;
    check(x);
    FUZZ_REQUIRE(web_body(x).len <= BODY_MAX_BYTES);
    const char *length = web_header(x, "Content-Length");
    FUZZ_REQUIRE(length != NULL || web_header(x, "Transfer-Encoding") != NULL ||
                 web_body(x).len == 0);
    char kind = web_path(x)[1 - (web_path(x)[0] == '*')];
    if ((kind == 'l' || kind == 's' || kind == 'n') && world.held_count < HELD_MAX) {
        struct web_exchange **slot = &world.held[world.held_count++];
        *slot = x;
        if (kind == 's') {
            web_stream_begin(x, 200, "text/event-stream");
        }
        web_on_gone(x, on_gone, slot);
    } else {
        web_respond(x, 200, "text/plain", web_body(x));
    }
}

static void open_world(void)
{
    const struct web_listener_config config = {
        .address = "127.0.0.1",
        .max_connections = 100,
        .max_body_bytes = BODY_MAX_BYTES,
        .admit = admit,
        .handle = handle,
    };
    struct err err = ERR_INIT;
    log_set_level(LOG_ERROR);
    FUZZ_REQUIRE(uv_loop_init(&world.loop) == 0);
    if (web_listener_open(&world.loop, &config, &world.listener, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

/* Answers the pending exchanges, except those whose client is to close first. */
static void answer(void)
{
    for (size_t i = 0; i < world.held_count; i++) {
        struct web_exchange *x = world.held[i];
        char kind = x != NULL ? web_path(x)[1] : 'n';
        if (kind == 'l') {
            world.held[i] = NULL;
            web_set_header(x, "X-Query", web_query(x, "q") != NULL ? web_query(x, "q") : "");
            web_respond(x, 200, "text/plain", web_body(x));
        } else if (kind == 's') {
            world.held[i] = NULL;
            web_stream_write(x, alloc_strdup("data: piece\n\n"), 13);
            web_stream_end(x);
        }
    }
}

static void turn(int fd)
{
    char waste[4096];
    uv_run(&world.loop, UV_RUN_NOWAIT);
    while (recv(fd, waste, sizeof(waste), MSG_DONTWAIT) > 0) {
    }
    answer();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (world.listener == NULL) {
        open_world();
    }
    struct web_listener *l = world.listener;
    const struct sockaddr_un address = {.sun_family = AF_UNIX};
    int pair[2];
    FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    web_connection_add(l, pair[1], (const struct sockaddr *)&address, sizeof(sa_family_t));
    web_listener_kick(l);
    for (size_t at = 0; at < size;) {
        ssize_t n = send(pair[0], data + at, size - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            break;
        }
        at += n > 0 ? (size_t)n : 0;
        turn(pair[0]);
    }
    for (int i = 0; i < TURNS; i++) {
        turn(pair[0]);
    }
    close(pair[0]);
    for (int i = 0; i < TURNS_TO_END && l->connection_count + l->linger_count > 0; i++) {
        uv_run(&world.loop, UV_RUN_NOWAIT);
        answer();
    }
    FUZZ_REQUIRE(l->connection_count == 0);
    FUZZ_REQUIRE(l->linger_count == 0);
    FUZZ_REQUIRE(l->body_bytes == 0);
    for (size_t i = 0; i < world.held_count; i++) {
        FUZZ_REQUIRE(world.held[i] == NULL);
    }
    world.held_count = 0;
    uv_run(&world.loop, UV_RUN_NOWAIT); /* runs close callbacks */
    FUZZ_REQUIRE(l->refs == 1);
    return 0;
}
