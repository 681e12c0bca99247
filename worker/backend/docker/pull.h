/*
 * Reads the progress of a pull: one JSON object per line, several for each layer.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_PULL_H
#define CLOISTER_WORKER_BACKEND_DOCKER_PULL_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/view.h"
#include "worker/backend/lines.h"

#define DOCKER_PULL_LAYERS 128

struct docker_pull {
    struct lines lines;
    struct {
        char id[16];
        uint64_t done, total;
    } layers[DOCKER_PULL_LAYERS];
    size_t layer_count;
    char status[128];     /* what the engine said last */
    uint64_t done, total; /* bytes, over all layers known so far */
    char error[400];      /* why it failed; "" so far */
};

void docker_pull_init(struct docker_pull *p);
void docker_pull_finish(struct docker_pull *p);

/* Takes the next bytes of the body. -ERR_TOO_BIG for a line over the limit, -ERR_NO_MEMORY. Lines
 * that are not JSON are ignored. */
int docker_pull_feed(struct docker_pull *p, struct view bytes, struct err *err) WARN_UNUSED;

#endif
