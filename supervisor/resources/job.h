/*
 * A request that waits for an operation in a sandbox.
 *
 * Private to this directory. Loop thread only; nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_RESOURCES_JOB_H
#define CLOISTER_SUPERVISOR_RESOURCES_JOB_H

#include <stdbool.h>

#include "supervisor/fleet/fleet.h"
#include "supervisor/mcp/request.h"

struct job {
    struct fleet *fleet;
    struct mcp_request *request;
    const char *owner; /* of the request's principal */
    char sandbox[FLEET_ID_SIZE];
    struct fleet_call *call; /* cancelling the request stops it; NULL: no operation runs */
};

/* Starts the job: it becomes the request's data. */
void job_init(struct job *job, struct fleet *f, struct mcp_request *r);

/* Finds the caller's sandbox by id or name; stores its id in job->sandbox. */
bool job_find(struct job *job, const char *id_or_name);

/* Runs an operation in job->sandbox; `done` gets `arg` and sets job->call to NULL. */
void job_run(struct job *job, const struct fleet_op *op, fleet_outcome_fn done, void *arg);

/* Whether the operation succeeded. */
bool job_is_well(int rc, const struct fleet_outcome *outcome);

/* Ends the request with the failure. */
void job_answer_failure(struct job *job, const char *uri, int rc,
                        const struct fleet_outcome *outcome, const struct err *err);

#endif
