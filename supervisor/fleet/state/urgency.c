/*
 * When the server of a thousand sandboxes ends, a thousand workers wake up, and user code runs
 * until it is killed. A low nice value does not help: it is a share among all runnable processes,
 * and with groups by session not even that. A real-time class precedes all of them.
 */
#include "supervisor/fleet/state/urgency.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#define URGENT_NICE (-15) /* if real time is not allowed */

void urgency_raise(struct urgency *ret_before)
{
    struct sched_param param;
    memset(&param, 0, sizeof(param));
    ret_before->policy = sched_getscheduler(0);
    ret_before->priority = sched_getparam(0, &param) == 0 ? param.sched_priority : 0;
    ret_before->nice = getpriority(PRIO_PROCESS, 0);
    param.sched_priority = sched_get_priority_min(SCHED_FIFO);
    if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) < 0) {
        (void)setpriority(PRIO_PROCESS, 0, URGENT_NICE);
    }
}

void urgency_restore(const struct urgency *before)
{
    struct sched_param param = {.sched_priority = before->priority};
    (void)sched_setscheduler(0, before->policy, &param);
    (void)setpriority(PRIO_PROCESS, 0, before->nice);
}
