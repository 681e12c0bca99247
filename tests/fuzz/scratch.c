#include "tests/fuzz/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/fd.h"
#include "tests/fuzz/fuzz.h"

static char dir[] = "/tmp/cloister-fuzz-XXXXXX";

static void remove_dir(void)
{
    err_ignore(dir_remove(dir, NULL));
}

const char *scratch_dir(void)
{
    static bool made; /* the name does not show it, because its last letter may be an X */
    if (!made) {
        FUZZ_REQUIRE(mkdtemp(dir) != NULL);
        made = true;
        atexit(remove_dir);
    }
    return dir;
}

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

void scratch_put(const char *name, const void *data, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s%s", scratch_dir(), name);
    int fd = open_file(path);
    if (fd < 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        FUZZ_REQUIRE(dir_make(path, 0700, NULL) == 0);
        *slash = '/';
        fd = open_file(path);
    }
    FUZZ_REQUIRE(fd >= 0);
    FUZZ_REQUIRE(fd_write_all(fd, data, size, NULL) == 0);
    close(fd);
}
