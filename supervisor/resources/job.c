/*
 * One rule decides what a failure reveals: anything that depends on what exists, or on who may see
 * it, is "not found", with the same text. Only errors of the server itself (busy, shutting down,
 * timeout) are reported as such, since they reveal nothing about the sandbox.
 */
#include "supervisor/resources/job.h"

#include <stdio.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/principal.h"
#include "supervisor/mcp/wire/jsonrpc.h"

static void on_job_cancelled(struct mcp_request *r)
{
    const struct job *job = mcp_request_data(r);
    if (job->call != NULL) {
        fleet_cancel(job->call);
    }
}

void job_init(struct job *job, struct fleet *f, struct mcp_request *r)
{
    job->fleet = f;
    job->request = r;
    job->owner = mcp_request_principal(r)->name;
    mcp_request_set_data(r, job);
    mcp_on_cancel(r, on_job_cancelled);
}

bool job_find(struct job *job, const char *id_or_name)
{
    const char *id;
    if (fleet_find(job->fleet, job->owner, id_or_name, &id, NULL) < 0) {
        return false;
    }
    snprintf(job->sandbox, sizeof(job->sandbox), "%s", id);
    return true;
}

void job_run(struct job *job, const struct fleet_op *op, fleet_outcome_fn done, void *arg)
{
    job->call = fleet_run(job->fleet, job->sandbox, op, done, arg);
    if (mcp_is_cancelled(job->request)) {
        fleet_cancel(job->call);
    }
}

bool job_is_well(int rc, const struct fleet_outcome *outcome)
{
    return rc == 0 && outcome->end->status == OP_STATUS_OK;
}

/* Whether the caller must see nothing there: no such sandbox (any more), no such file, no
 * permission. Every other failure may be temporary. */
static bool is_nothing(int rc, const struct fleet_outcome *outcome)
{
    int code = -rc;
    if (rc == 0) {
        code = outcome->end->status == OP_STATUS_FAILED ? (int)outcome->end->fail_code : 0;
    }
    return code == ERR_SANDBOX_NOT_FOUND || code == ERR_GONE || code == ERR_EXECUTION_NOT_FOUND ||
           code == ERR_PATH || code == ERR_FILE_NOT_FOUND || code == ERR_DENIED ||
           code == ERR_INVALID;
}

/* Whether the operation was cancelled because the sandbox was closed. */
static bool is_closed(const struct job *job, int rc, const struct fleet_outcome *outcome)
{
    const char *id;
    return rc == 0 && outcome->end->status == OP_STATUS_CANCELLED &&
           fleet_find(job->fleet, job->owner, job->sandbox, &id, NULL) == -ERR_SANDBOX_NOT_FOUND;
}

void job_answer_failure(struct job *job, const char *uri, int rc,
                        const struct fleet_outcome *outcome, const struct err *err)
{
    if (is_nothing(rc, outcome) || is_closed(job, rc, outcome)) {
        mcp_answer_no_resource(job->request, uri);
        return;
    }
    CLEANUP_FREE char *text = rc < 0 ? alloc_printf("The sandbox did not answer: %s", err->text)
                                     : alloc_printf("The sandbox could not tell: %s; try again",
                                                    op_status_name(outcome->end->status));
    mcp_answer_error(job->request, JSONRPC_INTERNAL, text, NULL);
}
