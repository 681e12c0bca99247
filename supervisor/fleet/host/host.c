/*
 * Prepares for the first worker: room for threads, the other two programs, the lifeline, a place on
 * disk, in the order that gives the best error if one is missing.
 */
#include "supervisor/fleet/host/host.h"

#include "common/io/threads.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/host/binaries.h"
#include "supervisor/fleet/host/instance.h"

#define PATIENCE_LEAST_MS 10000

uint64_t fleet_host_patience_ms(const struct fleet_host *host)
{
    uint64_t budget_ms = host->config->sync_budget_s * 1000;
    return budget_ms > PATIENCE_LEAST_MS ? budget_ms : PATIENCE_LEAST_MS;
}

int fleet_host_prepare(struct fleet_host *host, struct err *err, const char **ret_hint)
{
    *ret_hint = "raise the limit on this user's processes and threads (ulimit -u, or pids of the "
                "control group that this server runs in)";
    int rc = threads_check(threads_needed(), err);
    if (rc < 0) {
        return rc;
    }
    *ret_hint = "reinstall cloister, or say with --worker-path and --agent-path where they are";
    if (host->worker_path == NULL) {
        rc = binaries_find_worker(host->config, &host->worker_path, err);
    }
    if (rc == 0 && host->agent_path == NULL) {
        rc = binaries_find_agent(host->config, &host->agent_path, err);
    }
    if (rc < 0) {
        return rc;
    }
    *ret_hint = "";
    uv_file fds[2] = {host->lifeline_read, host->lifeline_write};
    if (host->lifeline_read < 0) {
        int uv_rc = uv_pipe(fds, 0, 0); /* both are close-on-exec */
        if (uv_rc < 0) {
            return err_sys(err, ERR_ENGINE, -uv_rc, "no pipe for the workers' lifeline");
        }
        host->lifeline_read = fds[0];
        host->lifeline_write = fds[1];
    }
    *ret_hint = "choose another directory with --runtime-dir";
    rc = instance_open(host->config, &host->instance, err);
    if (rc < 0) {
        return rc;
    }
    log_debug("instance opened dir=%s", host->instance->dir);
    return 0;
}
