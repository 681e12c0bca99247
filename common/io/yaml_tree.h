/*
 * YAML as a tree that is asked for members, by libyaml.
 *
 * Thread: one at a time. Loading the library reads files, once.
 */
#ifndef CLOISTER_COMMON_IO_YAML_TREE_H
#define CLOISTER_COMMON_IO_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"

struct yaml_tree;

/* A node: 0 is none, and every question about none has none as its answer. */
typedef int yaml_at;

/* The first document of a text. -ERR_CONFIG with line and reason; -ERR_ENGINE if there is no
 * libyaml. */
int yaml_tree_parse(struct view text, struct yaml_tree **ret, struct err *err) WARN_UNUSED;
void yaml_tree_free(struct yaml_tree *t); /* NULL is fine */

yaml_at yaml_root(struct yaml_tree *t);
bool yaml_is_map(struct yaml_tree *t, yaml_at at);
/* The value of a key, the first if it is there twice. */
yaml_at yaml_member(struct yaml_tree *t, yaml_at map, const char *key);
bool yaml_is_list(struct yaml_tree *t, yaml_at at);
/* The index-th pair of a map, in the order of the text; false behind the last. */
bool yaml_pair(struct yaml_tree *t, yaml_at map, size_t index, yaml_at *ret_key,
               yaml_at *ret_value);
/* The line where a node begins, 1 for the first; 0 if it is none. */
size_t yaml_line(struct yaml_tree *t, yaml_at at);
/* Items of a list; 0 behind the last. */
yaml_at yaml_item(struct yaml_tree *t, yaml_at list, size_t index);
/* A scalar without a NUL in it, borrowed; NULL for everything else, and for `null` and `~`. */
const char *yaml_text(struct yaml_tree *t, yaml_at at);

#endif
