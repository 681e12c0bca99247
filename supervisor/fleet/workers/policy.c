/*
 * After the first death a worker is restarted at once, because somebody is waiting for an answer,
 * and most deaths are accidents. If a worker dies again and again without finishing an operation,
 * each restart waits twice as long (backoff), and the fifth death within half a minute parks the
 * sandbox as failed, with its reason. So a sandbox that always kills its worker costs a few
 * processes. Deaths that are too rare for that rule (a worker that hangs at each start) are limited
 * by the time for which the sandbox has had no worker.
 *
 * A shortage of the host (descriptors, processes, memory, disk space, or an engine that does not
 * answer) is different. A worker that could not be started, or could not reach the sandbox, says
 * nothing about the sandbox, and a shortage of a few seconds must not cost sandboxes. Only the time
 * limit applies there.
 */
#include "supervisor/fleet/workers/policy.h"

void worker_policy_success(struct worker_policy *p)
{
    p->deaths = 0;
}

void worker_policy_reached(struct worker_policy *p)
{
    p->refusals = 0;
}

bool worker_policy_died(struct worker_policy *p, uint64_t now_ms, uint64_t broken_ms,
                        uint64_t *ret_delay_ms)
{
    unsigned slot = p->deaths % WORKER_POLICY_DEATHS;
    p->died_ms[slot] = now_ms;
    p->deaths++;
    if (now_ms - broken_ms >= WORKER_POLICY_REPAIR_MS) {
        return false;
    }
    if (p->deaths >= WORKER_POLICY_DEATHS) {
        uint64_t oldest_ms = p->died_ms[p->deaths % WORKER_POLICY_DEATHS];
        if (now_ms - oldest_ms <= WORKER_POLICY_WINDOW_MS) {
            return false;
        }
    }
    unsigned step = p->deaths - 1 < WORKER_POLICY_DEATHS ? p->deaths - 1 : WORKER_POLICY_DEATHS;
    *ret_delay_ms = step == 0 ? 0 : (uint64_t)WORKER_POLICY_DELAY_MS << (step - 1);
    return true;
}

bool worker_policy_refused(struct worker_policy *p, uint64_t now_ms, uint64_t broken_ms,
                           uint64_t *ret_delay_ms)
{
    if (now_ms - broken_ms >= WORKER_POLICY_REPAIR_MS) {
        return false;
    }
    unsigned step = p->refusals < WORKER_POLICY_DEATHS ? p->refusals : WORKER_POLICY_DEATHS;
    p->refusals++;
    uint64_t delay_ms = (uint64_t)WORKER_POLICY_DELAY_MS << step;
    *ret_delay_ms = delay_ms < WORKER_POLICY_PAUSE_MS ? delay_ms : WORKER_POLICY_PAUSE_MS;
    return true;
}
