/*
 * Each step of a lookup is repeated here and reported with its errno, since the lookup itself only
 * tells that nothing can be run. The root is described beside it: what a runtime mounts into an
 * empty directory is a root, too, in which a static program as the agent runs. Its names tell that
 * from a small image, and its type tells whether the image's file system is mounted there.
 *
 * The names are those of a stranger's image, and so is PATH.
 */
#include "worker/agent/process/places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"

#define NAMES_MAX  12   /* of the root that are listed */
#define NAME_BYTES 16   /* of each, with a blank and the end */
#define COUNTS_MAX 1000 /* of the root that are counted */
#define MODE       07777u

struct sentence {
    char *out;
    size_t size, len;
};

static void say(struct sentence *s, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct sentence *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(s->out + s->len, s->size - s->len, fmt, args);
    va_end(args);
    size_t room = s->size - s->len - 1;
    s->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

static void say_names(struct sentence *s)
{
    char names[NAMES_MAX * NAME_BYTES] = "";
    size_t len = 0;
    size_t count = 0;
    const struct dirent *entry;
    DIR *dir = opendir("/");
    if (dir == NULL) {
        say(s, " and names that cannot be read: %s", strerror(errno));
        return;
    }
    while (count < COUNTS_MAX && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (count++ < NAMES_MAX) {
            int n =
                snprintf(names + len, sizeof(names) - len, " %.*s", NAME_BYTES - 2, entry->d_name);
            len += n > 0 ? (size_t)n : 0;
        }
    }
    closedir(dir);
    say(s, " and %zu names:%s%s", count, names, count > NAMES_MAX ? " ..." : "");
}

static void say_root(struct sentence *s)
{
    struct statfs fs;
    struct stat st;
    if (statfs("/", &fs) < 0 || stat("/", &st) < 0) {
        say(s, "/: %s", strerror(errno));
        return;
    }
    say(s, "/ has type 0x%lx, mode %04o", (unsigned long)fs.f_type, (unsigned)st.st_mode & MODE);
    say_names(s);
}

static void say_program(struct sentence *s, const struct spawn_config *c, const char *dir,
                        const char *program)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", dir, program);
    CLEANUP_FD int fd = spawn_open_as_user(c, path, O_PATH);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        say(s, "%s: %s", program, strerror(errno));
    } else {
        say(s, "%s: mode %04o", program, (unsigned)st.st_mode & MODE);
    }
}

static void say_places(struct sentence *s, const struct spawn_config *c,
                       const char *const *programs, size_t count)
{
    const char *before = "";
    for (const char *p = spawn_search_path(); *p != '\0' && s->len + 1 < s->size;) {
        size_t len = strcspn(p, ":");
        CLEANUP_FREE char *dir = alloc_printf("%.*s", (int)len, p);
        CLEANUP_FD int fd = spawn_open_as_user(c, dir, O_PATH | O_DIRECTORY);
        say(s, "%s%s: %s", before, dir, fd >= 0 ? "there" : strerror(errno));
        for (size_t i = 0; fd >= 0 && i < count; i++) {
            say(s, "%s", i == 0 ? " (" : ", ");
            say_program(s, c, dir, programs[i]);
            say(s, "%s", i + 1 == count ? ")" : "");
        }
        before = ", ";
        p += len + (p[len] == ':');
    }
}

static void clean_sentence(struct sentence *s)
{
    for (size_t i = 0; i < s->len; i++) {
        s->out[i] = s->out[i] < ' ' || s->out[i] > '~' ? '?' : s->out[i];
    }
}

void places_list(const struct spawn_config *c, char *out, size_t size)
{
    struct sentence s = {.out = out, .size = size};
    say_places(&s, c, NULL, 0);
    clean_sentence(&s);
}

void places_explain(const struct spawn_config *c, const char *const *programs, size_t count,
                    char *out, size_t size)
{
    struct sentence s = {.out = out, .size = size};
    say(&s, "uid %lu; ", (unsigned long)(c->single_uid ? geteuid() : c->uid));
    say_root(&s);
    say(&s, "; ");
    say_places(&s, c, programs, count);
    clean_sentence(&s);
}
