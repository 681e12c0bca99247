/*
 * Chooses which displays and files of an execution its result shows, within a budget.
 *
 * Private to execution.c. Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESULTS_SHOWN_H
#define CLOISTER_SUPERVISOR_RESULTS_SHOWN_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "common/buf.h"

struct fleet_outcome;
struct links;
struct result;

struct result_shown {
    cJSON *displays; /* for the structured value: objects, type to text or location */
    cJSON *files;
    bool displays_cut, files_cut; /* some were left out */
    cJSON *images;                /* blocks, in order */
    cJSON *links;                 /* blocks */
    struct buf text;              /* text of the displays */
    struct buf notes;             /* our lines about what is left out */
    size_t cost;                  /* of everything on the wire */
};

/* `workspace` and `links` as in struct result_range. Everything together costs at most max_cost. */
void result_shown_init(struct result_shown *s, const struct fleet_outcome *o, const char *workspace,
                       struct links *links, size_t max_cost);

/* Moves the blocks to the end of r's content, and the lists into its structured value. */
void result_shown_put(struct result_shown *s, struct result *r);

void result_shown_finish(struct result_shown *s);

#endif
