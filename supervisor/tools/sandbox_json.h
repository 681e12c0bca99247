/*
 * Sandboxes in and out: what a client may choose at creation, and how one is described.
 */
#ifndef CLOISTER_SUPERVISOR_TOOLS_SANDBOX_JSON_H
#define CLOISTER_SUPERVISOR_TOOLS_SANDBOX_JSON_H

#include <cjson/cJSON.h>

#include "common/buf.h"
#include "supervisor/fleet.h"
#include "supervisor/tools/args.h"

/* Reads what create_sandbox takes. `ret->env` borrows from *env, which the caller finishes once
 * fleet_open() has returned; strings are borrowed from args. */
int sandbox_json_read_spec(const cJSON *args, struct fleet_spec *ret, struct args_list *env,
                           struct err *err) WARN_UNUSED;

/* What creation tells about a sandbox; */
void sandbox_json_put_info(cJSON *object, const struct fleet_info *info);
/* and what status tells in addition. */
void sandbox_json_put_status(cJSON *object, const struct fleet_info *info);

/* What sandbox_json_put_info() made, in a few lines for people. */
void sandbox_json_text(struct buf *text, const cJSON *object);

#endif
