/*
 * A call repeats its START to each worker of its sandbox, so it keeps a copy of all its texts. They
 * are in one buffer, which is allocated completely before the first is copied, since the views
 * point into it.
 */
#include "supervisor/calls/start.h"

#include <stdlib.h>

#include "common/alloc.h"

static size_t list_bytes(const struct view_list *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        n += list->items[i].len;
    }
    return n;
}

/* There is room: it was reserved. */
static struct view copy_view(struct start_memory *mem, struct view v)
{
    if (v.len == 0) {
        return view_bytes(NULL, 0);
    }
    size_t at = mem->text.len;
    err_ignore(buf_add(&mem->text, v.data, v.len, NULL));
    return view_bytes(mem->text.data + at, v.len);
}

/* With a final NUL, since outcomes show it as a string. */
static struct view copy_language(struct start_memory *mem, struct view language)
{
    struct view copy = copy_view(mem, language);
    err_ignore(buf_add(&mem->text, "", 1, NULL));
    return copy;
}

static struct view_list copy_list(struct start_memory *mem, struct view **at,
                                  const struct view_list *from)
{
    struct view_list list = {*at, from->count};
    for (size_t i = 0; i < from->count; i++) {
        *(*at)++ = copy_view(mem, from->items[i]);
    }
    return list;
}

int call_start_copy(struct msg_start *start, struct start_memory *mem, const struct fleet_op *op,
                    struct err *err)
{
    struct view language = view_of(op->language);
    struct view path = view_of(op->path);
    size_t bytes = op->data.len + op->stdin_data.len + list_bytes(&op->env) +
                   list_bytes(&op->args) + language.len + 1 + path.len;
    int rc = buf_reserve(&mem->text, bytes, err);
    if (rc < 0) {
        return rc;
    }
    mem->items = alloc_array(op->env.count + op->args.count + 1, sizeof(mem->items[0]));
    struct view *at = mem->items;
    start->kind = op->kind;
    start->language = copy_language(mem, language);
    start->data = copy_view(mem, op->data);
    start->has_stdin = op->has_stdin;
    start->stdin_data = copy_view(mem, op->stdin_data);
    start->env = copy_list(mem, &at, &op->env);
    start->args = copy_list(mem, &at, &op->args);
    start->path = copy_view(mem, path);
    start->offset = op->offset;
    start->length = op->length;
    start->mode = op->mode;
    start->flags = op->flags;
    return 0;
}

void call_start_init(struct start_memory *mem)
{
    mem->items = NULL;
    buf_init(&mem->text, 2 * (size_t)LIMIT_FRAME);
}

void call_start_finish(struct start_memory *mem)
{
    buf_finish(&mem->text);
    free(mem->items);
}
