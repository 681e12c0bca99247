/*
 * A directory of canned files that stands for a host's /proc, /sys and /etc.
 */
#ifndef CLOISTER_TESTS_UNIT_OCI_TREE_H
#define CLOISTER_TESTS_UNIT_OCI_TREE_H

#include <limits.h>

struct tree {
    char root[PATH_MAX];
    char agent[PATH_MAX + 16]; /* see tree_agent() */
};

void tree_init(struct tree *t);
void tree_finish(struct tree *t);

/* Creates parents. The path starts with a slash. */
void tree_file(const struct tree *t, const char *path, const char *text);
void tree_dir(const struct tree *t, const char *path);
void tree_link(const struct tree *t, const char *path, const char *target);

/* Absolute path of a file inside; valid until the eighth later call. */
const char *tree_path(const struct tree *t, const char *path);

/* Where tests put the file that is the agent for them; valid as long as the tree. */
const char *tree_agent(const struct tree *t);

/* Content of any file (free); NULL if it cannot be read. */
char *tree_read(const char *path);

#endif
