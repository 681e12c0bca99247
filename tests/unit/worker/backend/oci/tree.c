/*
 * Anything that goes wrong here is an error of the test and ends it.
 */
#include "tests/unit/worker/backend/oci/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

void tree_init(struct tree *t)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(t->root, sizeof(t->root), "%s/cloister-tree-XXXXXX", tmp != NULL ? tmp : "/tmp");
    must(mkdtemp(t->root) != NULL, "mkdtemp");
    snprintf(t->agent, sizeof(t->agent), "%s/agent", t->root);
}

void tree_finish(struct tree *t)
{
    struct err err;
    must(dir_remove(t->root, &err) == 0, "dir_remove");
}

const char *tree_path(const struct tree *t, const char *path)
{
    static char slots[8][PATH_MAX + 256];
    static unsigned next;
    char *out = slots[next++ % 8];
    snprintf(out, sizeof(slots[0]), "%s%s", t->root, path);
    return out;
}

const char *tree_agent(const struct tree *t)
{
    return t->agent;
}

void tree_dir(const struct tree *t, const char *path)
{
    struct err err;
    must(dir_make(tree_path(t, path), 0755, &err) == 0, path);
}

static void make_parent(const struct tree *t, const char *path)
{
    CLEANUP_FREE char *parent = strdup(path);
    *strrchr(parent, '/') = '\0';
    if (parent[0] != '\0') {
        tree_dir(t, parent);
    }
}

void tree_file(const struct tree *t, const char *path, const char *text)
{
    make_parent(t, path);
    CLEANUP_FD int fd = open(tree_path(t, path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
}

void tree_link(const struct tree *t, const char *path, const char *target)
{
    make_parent(t, path);
    must(symlink(target, tree_path(t, path)) == 0, path);
}

char *tree_read(const char *path)
{
    CLEANUP_BUF struct buf b;
    struct err err;
    buf_init(&b, 1u << 20);
    return file_read(path, &b, &err) == 0 ? strdup(buf_cstr(&b)) : NULL;
}
