#include "tests/lib/script_server.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

FILE *script_server_start(struct script_server *s, const char *script)
{
    int in[2];
    int out[2];
    snprintf(s->top, sizeof(s->top), "/tmp/cloister-script-XXXXXX");
    assert_non_null(mkdtemp(s->top));
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    /* argv is not const for historical reasons only */
    char *const argv[] = {(char *)(uintptr_t) "python3", (char *)(uintptr_t)script, s->top, NULL};
    assert_int_equal(posix_spawnp(&s->pid, argv[0], &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    s->in = in[1];
    FILE *file = fdopen(out[0], "r");
    assert_non_null(file);
    return file;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void script_server_stop(struct script_server *s)
{
    int status = 0;
    close(s->in);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    assert_int_equal(status, 0);
    assert_int_equal(nftw(s->top, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}
