/*
 * Where the sandbox has network, what the installer cannot do is left to the image's program.
 * Without network that would try for a while and fail, so one line says what is wrong instead.
 */
#include "worker/agent/installs/front.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/str.h"
#include "worker/agent/installs/place.h"
#include "worker/agent/installs/wish.h"
#include "worker/agent/installs/words.h"

#define NOT_FOUND    127
#define FRONT_TAIL   (16u << 10) /* of the text that --quiet shows after a failure */
#define ROUTES_BYTES (64u << 10)
#define OFF_TEXT                                                                                   \
    "this server installs no packages (--packages=no): use what is there; the server's operator "  \
    "can allow it with --packages=yes"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool front_is_named(const char *argv0)
{
    const char *name = base_name(argv0);
    return strcmp(name, "pip") == 0 || strcmp(name, "pip3") == 0 || strcmp(name, "npm") == 0;
}

/* ---- the image's own program ----------------------------------------------------------------- */

static bool is_this_program(const char *path)
{
    struct stat one, own;
    return stat(path, &one) == 0 && stat("/proc/self/exe", &own) == 0 && one.st_dev == own.st_dev &&
           one.st_ino == own.st_ino;
}

/* Becomes the next program of this name in PATH, if there is one. */
static void become_next(char **argv)
{
    const char *dirs = getenv("PATH");
    for (const char *p = dirs != NULL ? dirs : SPAWN_DEFAULT_PATH; *p != '\0';) {
        size_t len = strcspn(p, ":");
        CLEANUP_FREE char *path = alloc_printf("%.*s/%s", (int)len, p, base_name(argv[0]));
        if (len > 0 && access(path, X_OK) == 0 && !is_this_program(path)) {
            execv(path, argv);
        }
        p += len + (p[len] == ':');
    }
}

static int become_real(int argc, char **argv)
{
    become_next(argv);
    if (setenv(PLACE_VARIABLE, PLACE_REAL, 1) == 0 && strcmp(base_name(argv[0]), "npm") != 0) {
        char **more = alloc_array((size_t)argc + 3, sizeof(more[0]));
        char python[] = "python3", m[] = "-m", pip[] = "pip";
        more[0] = python;
        more[1] = m;
        more[2] = pip;
        memcpy(&more[3], &argv[1], (size_t)argc * sizeof(argv[0])); /* with the final NULL */
        execvp(more[0], more);
        free(more);
    }
    fprintf(stderr, "%s: the sandbox's image has no such program\n", base_name(argv[0]));
    return NOT_FOUND;
}

/* Whether there is a route to anywhere but the sandbox itself. */
static bool has_network(void)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, ROUTES_BYTES);
    if (file_read("/proc/net/route", &text, NULL) == 0) {
        const char *line = strchr(buf_cstr(&text), '\n'); /* behind the heading */
        if (line != NULL && line[1] != '\0') {
            return true;
        }
    }
    buf_reset(&text, ROUTES_BYTES);
    if (file_read("/proc/net/ipv6_route", &text, NULL) < 0) {
        return false;
    }
    for (const char *line = buf_cstr(&text); *line != '\0';) {
        size_t len = strcspn(line, "\n");
        if (len > 3 && memcmp(line + len - 3, " lo", 3) != 0) {
            return true;
        }
        line += len + (line[len] == '\n');
    }
    return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int front_connect(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd =
        strlen(path) < sizeof(at.sun_path) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) {
        return -1;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int send_wish(int fd, const struct words *w, struct err *err)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, 2 * (size_t)WISH_BYTES);
    int rc = buf_add(&text, w->npm ? "npm" : "pip", 4, err);
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        rc = buf_add(&text, w->items[i], strlen(w->items[i]) + 1, err);
    }
    rc = rc < 0 ? rc : buf_add(&text, "", 1, err);
    return rc < 0 ? rc : fd_write_all(fd, text.data, text.len, err);
}

/* Shows text as it comes, or with `tail` keeps its end. */
static void show(struct buf *tail, const char *text, size_t len)
{
    if (tail == NULL) {
        err_ignore(fd_write_all(STDOUT_FILENO, text, len, NULL)); /* nobody reads it */
        return;
    }
    if (tail->len + len > FRONT_TAIL) {
        size_t over = tail->len + len - FRONT_TAIL;
        buf_consume(tail, over < tail->len ? over : tail->len);
    }
    err_ignore(buf_add(tail, text, len, NULL)); /* a lack of memory shows less */
}

/* The exit code, or -1 if the answer has no end. */
static int read_told(int fd, struct buf *tail)
{
    char data[4096];
    char code[8] = "";
    size_t digits = 0;
    bool over = false;
    for (;;) {
        ssize_t n = read(fd, data, sizeof(data));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            uint64_t value = 0;
            return over && str_to_u64(code, 0, UINT8_MAX, &value, NULL) == 0 ? (int)value : -1;
        }
        const char *end = over ? data : memchr(data, '\0', (size_t)n);
        size_t text = over ? 0 : end != NULL ? (size_t)(end - data) : (size_t)n;
        show(tail, data, text);
        for (size_t i = text + (over ? 0 : 1); end != NULL && i < (size_t)n; i++) {
            if (digits + 1 < sizeof(code)) {
                code[digits++] = data[i];
            }
        }
        over = over || end != NULL;
    }
}

static int ask_for(int fd, const struct words *w, const char *name)
{
    struct err err = ERR_INIT;
    CLEANUP_BUF struct buf tail;
    buf_init(&tail, 2 * (size_t)FRONT_TAIL);
    if (send_wish(fd, w, &err) < 0) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return 1;
    }
    int code = read_told(fd, w->quiet ? &tail : NULL);
    if (code != 0 && tail.len > 0) {
        err_ignore(fd_write_all(STDERR_FILENO, tail.data, tail.len, NULL)); /* nobody reads it */
    }
    if (code < 0) {
        fprintf(stderr, "%s: the sandbox has ended the wait for the installation\n", name);
    }
    return code < 0 ? 1 : code;
}

int front_run(int argc, char **argv)
{
    struct words w;
    struct err err = ERR_INIT;
    const char *name = base_name(argv[0]);
    const char *socket = getenv(PLACE_VARIABLE);
    enum words_kind kind = words_read(argc, argv, &w, &err);
    bool off = socket == NULL || strcmp(socket, PLACE_OFF) == 0;
    bool real = socket != NULL && strcmp(socket, PLACE_REAL) == 0;
    if (real || kind == WORDS_OTHER || ((off || kind == WORDS_REFUSED) && has_network())) {
        words_finish(&w);
        return become_real(argc, argv);
    }
    int code = 1;
    if (off) {
        fprintf(stderr, "%s: %s\n", name, OFF_TEXT);
    } else if (kind == WORDS_REFUSED) {
        fprintf(stderr, "%s: %s\n", name, err.text);
    } else {
        CLEANUP_FD int fd = front_connect(socket);
        if (fd < 0) {
            fprintf(stderr, "%s: the sandbox's agent does not listen at %s\n", name, socket);
        } else {
            code = ask_for(fd, &w, name);
        }
    }
    words_finish(&w);
    return code;
}
