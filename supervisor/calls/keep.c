/*
 * The outcome of an ended execution is copied into one allocation of its exact size, so that its
 * memory can be counted: a limit is useless if a kilobyte of output occupies a buffer of a
 * megabyte. Displays are counted after they were read.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/calls/displays.h"
#include "supervisor/calls/executions_internal.h"

static struct view keep(char **at, struct view v)
{
    char *to = *at;
    if (v.len > 0) {
        memcpy(to, v.data, v.len);
    }
    *at += v.len;
    return view_bytes(to, v.len);
}

void execution_keep_outcome(struct execution *e, const struct fleet_outcome *o)
{
    const struct msg_output *end = o->end;
    e->outcome = *o;
    e->end = *end;
    e->outcome.end = &e->end;
    e->end.op = e->end.out = e->end.err = view_bytes(NULL, 0);
    e->end.displays = e->end.files = (struct view_list){NULL, 0};
    const struct {
        struct view from;
        struct view *to;
    } parts[] = {
        {o->out, &e->outcome.out},
        {o->out_tail, &e->outcome.out_tail},
        {o->err, &e->outcome.err},
        {o->err_tail, &e->outcome.err_tail},
        {end->result, &e->end.result},
        {end->error_name, &e->end.error_name},
        {end->error_message, &e->end.error_message},
        {end->traceback, &e->end.traceback},
    };
    size_t count = sizeof(parts) / sizeof(parts[0]);
    for (size_t i = 0; i < count; i++) {
        e->size += parts[i].from.len;
    }
    e->bytes = alloc_array(e->size + 1, 1);
    char *at = e->bytes;
    for (size_t i = 0; i < count; i++) {
        *parts[i].to = keep(&at, parts[i].from);
    }
    if (end->displays.count + end->files.count > 0) {
        e->displays = displays_create(end);
    }
}

void execution_keep_displays(struct execution *e)
{
    if (e->displays != NULL) {
        displays_show(e->displays, &e->outcome);
        e->size += displays_size(e->displays);
    }
}

void execution_keep_finish(struct execution *e)
{
    displays_destroy(e->displays);
    free(e->bytes);
}
