/*
 * A sandbox as the service describes it.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_BOX_H
#define CLOISTER_WORKER_BACKEND_E2B_BOX_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "common/err.h"
#include "worker/backend/owner.h"

#define E2B_BOX_ID_SIZE 65
#define E2B_VERSION_MAX 32

/* In the metadata of our sandboxes, beside the labels of owner.h: whose host it is, in a form that
 * a query can have. */
#define E2B_META_SANDBOX OWNER_LABEL "sandbox"
#define E2B_META_HOST    OWNER_LABEL "at"

struct e2b_box {
    char id[E2B_BOX_ID_SIZE];      /* [a-z0-9]+ */
    char version[E2B_VERSION_MAX]; /* of its daemon; "" if it is not said */
    char *token;  /* of its daemon; NULL: it needs none, or this answer does not have it */
    char *domain; /* of its own; NULL: the service's */
    bool paused;
};

/* Reads one out of an answer. -ERR_PROTOCOL, whose text says what is wrong with it. */
int e2b_box_read(const cJSON *json, struct e2b_box *ret, struct err *err) WARN_UNUSED;
void e2b_box_finish(struct e2b_box *box);

/* Whether its metadata names this sandbox of ours. */
bool e2b_box_is_of(const cJSON *json, const char *sandbox);

/* Whether a daemon of version "0.6.10" is at least major.minor.patch. One that says none is not. */
bool e2b_box_is_at_least(const char *version, unsigned major, unsigned minor, unsigned patch);

#endif
