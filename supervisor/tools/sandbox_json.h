/*
 * What a client may choose when it creates a sandbox, and how a sandbox is described.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SANDBOX_JSON_H
#define CLOISTER_SUPERVISOR_TOOLS_SANDBOX_JSON_H

#include <cjson/cJSON.h>

#include "common/buf.h"
#include "proto/limits.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/tools/args.h"

struct config;

/* A client's choice. The specification borrows from the arguments and from this object. */
struct sandbox_choice {
    struct fleet_spec spec;
    struct args_list env, shares;
    char image[LIMIT_PATH];
};

/* Reads the arguments of create_sandbox. An image is either a reference for an engine, if the
 * operator allows it (--allow-images), or the name of a directory, never its path: the operator
 * decides which directories of this host a sandbox may use (--image-dir), not the model.¶ After
 * success the caller finishes *ret once fleet_open() has returned. */
int sandbox_choice_read(struct sandbox_choice *ret, const cJSON *args, const struct config *config,
                        struct err *err) WARN_UNUSED;
/* Whether the limits among the arguments are within this server's ceilings, whatever else is in the
 * arguments. -ERR_INVALID. */
int sandbox_choice_check(const cJSON *args, const struct config *config,
                         struct err *err) WARN_UNUSED;
void sandbox_choice_finish(struct sandbox_choice *choice);

/* Adds what create_sandbox reports about a sandbox. */
void sandbox_json_put_info(cJSON *object, const struct fleet_info *info);
/* Adds what get_sandbox_status reports beyond that. */
void sandbox_json_put_status(cJSON *object, const struct fleet_info *info);

/* Makes one row of executions_recent. */
cJSON *sandbox_json_execution(const struct fleet_outcome *outcome);

/* Formats what sandbox_json_put_info() made, in a few lines for people. */
void sandbox_json_text(struct buf *text, const cJSON *object);

#endif
