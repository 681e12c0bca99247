/*
 * libyaml is loaded when the first file is read (common/dynlib.h), since most runs of a program
 * have none: a kubeconfig, a configuration. It builds a tree in which an alias is the number of a
 * node and no copy, so a text cannot grow by aliases, and it bounds the nesting. Nobody walks the
 * whole tree: readers ask for members by name, so a circle of aliases does no harm.
 */
#include "common/io/yaml_tree.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/alloc.h"
#include "common/dynlib.h"

/* Each is yaml_<name>. */
#define YAML_LIST(X)                                                                               \
    X(parser_initialize)                                                                           \
    X(parser_delete)                                                                               \
    X(parser_set_input_string)                                                                     \
    X(parser_load)                                                                                 \
    X(document_delete)                                                                             \
    X(document_get_root_node)                                                                      \
    X(document_get_node)

struct yaml_lib {
#define X(name) __typeof__(yaml_##name) *name;
    YAML_LIST(X)
#undef X
};

static const struct dynlib_symbol symbols[] = {
#define X(name) {"yaml_" #name, offsetof(struct yaml_lib, name)},
    YAML_LIST(X)
#undef X
};

static const char *const names[] = {
#ifdef __APPLE__
    "libyaml-0.2.dylib", "libyaml.dylib",
#else
    "libyaml-0.so.2",
#endif
    NULL};

struct yaml_tree {
    struct yaml_lib lib;
    void *handle;
    yaml_document_t document;
    bool has_document;
};

void yaml_tree_free(struct yaml_tree *t)
{
    if (t != NULL) {
        if (t->has_document) {
            t->lib.document_delete(&t->document);
        }
        dynlib_close(t->handle);
        free(t);
    }
}

int yaml_tree_parse(struct view text, struct yaml_tree **ret, struct err *err)
{
    struct yaml_tree *t = alloc_one(struct yaml_tree);
    yaml_parser_t parser;
    int rc = dynlib_open(names, symbols, sizeof(symbols) / sizeof(symbols[0]), &t->lib, "libyaml",
                         "libyaml-0-2", &t->handle, err);
    if (rc < 0) {
        free(t);
        return rc;
    }
    if (!t->lib.parser_initialize(&parser)) {
        yaml_tree_free(t);
        return err_set(err, ERR_NO_MEMORY, "no memory for a parser of YAML");
    }
    t->lib.parser_set_input_string(&parser, (const unsigned char *)(text.len > 0 ? text.data : ""),
                                   text.len);
    t->has_document = t->lib.parser_load(&parser, &t->document) != 0;
    if (!t->has_document) { /* its text names what was found, never the content */
        rc = err_set(err, ERR_CONFIG, "line %zu: it is no YAML: %s", parser.problem_mark.line + 1,
                     parser.problem != NULL ? parser.problem : "it is not readable");
    } else if (t->lib.document_get_root_node(&t->document) == NULL) {
        rc = err_set(err, ERR_CONFIG, "it is empty");
    }
    t->lib.parser_delete(&parser);
    if (rc < 0) {
        yaml_tree_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

static const yaml_node_t *node_at(struct yaml_tree *t, yaml_at at)
{
    return at > 0 ? t->lib.document_get_node(&t->document, at) : NULL;
}

yaml_at yaml_root(struct yaml_tree *t)
{
    (void)t;
    return 1;
}

bool yaml_is_map(struct yaml_tree *t, yaml_at at)
{
    const yaml_node_t *node = node_at(t, at);
    return node != NULL && node->type == YAML_MAPPING_NODE;
}

yaml_at yaml_member(struct yaml_tree *t, yaml_at map, const char *key)
{
    const yaml_node_t *node = node_at(t, map);
    if (node == NULL || node->type != YAML_MAPPING_NODE) {
        return 0;
    }
    const yaml_node_pair_t *end = node->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < end; pair++) {
        const char *name = yaml_text(t, pair->key);
        if (name != NULL && strcmp(name, key) == 0) {
            return pair->value;
        }
    }
    return 0;
}

bool yaml_is_list(struct yaml_tree *t, yaml_at at)
{
    const yaml_node_t *node = node_at(t, at);
    return node != NULL && node->type == YAML_SEQUENCE_NODE;
}

bool yaml_pair(struct yaml_tree *t, yaml_at map, size_t index, yaml_at *ret_key, yaml_at *ret_value)
{
    const yaml_node_t *node = node_at(t, map);
    if (node == NULL || node->type != YAML_MAPPING_NODE ||
        index >= (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start)) {
        return false;
    }
    *ret_key = node->data.mapping.pairs.start[index].key;
    *ret_value = node->data.mapping.pairs.start[index].value;
    return true;
}

size_t yaml_line(struct yaml_tree *t, yaml_at at)
{
    const yaml_node_t *node = node_at(t, at);
    return node != NULL ? node->start_mark.line + 1 : 0;
}

yaml_at yaml_item(struct yaml_tree *t, yaml_at list, size_t index)
{
    const yaml_node_t *node = node_at(t, list);
    if (node == NULL || node->type != YAML_SEQUENCE_NODE ||
        index >= (size_t)(node->data.sequence.items.top - node->data.sequence.items.start)) {
        return 0;
    }
    return node->data.sequence.items.start[index];
}

const char *yaml_text(struct yaml_tree *t, yaml_at at)
{
    const yaml_node_t *node = node_at(t, at);
    if (node == NULL || node->type != YAML_SCALAR_NODE) {
        return NULL;
    }
    const char *value = (const char *)node->data.scalar.value;
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (memchr(value, '\0', node->data.scalar.length) != NULL ||
        (plain && (strcmp(value, "null") == 0 || strcmp(value, "~") == 0 || value[0] == '\0'))) {
        return NULL;
    }
    return value;
}
