/*
 * Sandboxes in and out: what a client may choose at creation, and how one is described.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SANDBOX_JSON_H
#define CLOISTER_SUPERVISOR_TOOLS_SANDBOX_JSON_H

#include <cjson/cJSON.h>

#include "common/buf.h"
#include "proto/limits.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/tools/args.h"

struct config;

/* What a client chose. The specification borrows from the arguments and from this object. */
struct sandbox_choice {
    struct fleet_spec spec;
    struct args_list env;
    char image[LIMIT_PATH];
};

/* Reads what create_sandbox takes. An image is a reference for an engine, within what the operator
 * allows (--allow-images), or the name of a directory, never its path: which directories of this
 * host a sandbox may show is the operator's decision (--image-dir), not the model's.
 * After a success the caller finishes *ret once fleet_open() has returned. */
int sandbox_choice_read(struct sandbox_choice *ret, const cJSON *args, const struct config *config,
                        struct err *err) WARN_UNUSED;
void sandbox_choice_finish(struct sandbox_choice *choice);

/* What creation tells about a sandbox; */
void sandbox_json_put_info(cJSON *object, const struct fleet_info *info);
/* and what status tells in addition. */
void sandbox_json_put_status(cJSON *object, const struct fleet_info *info);

/* One row of executions_recent. */
cJSON *sandbox_json_execution(const struct fleet_outcome *outcome);

/* What sandbox_json_put_info() made, in a few lines for people. */
void sandbox_json_text(struct buf *text, const cJSON *object);

#endif
