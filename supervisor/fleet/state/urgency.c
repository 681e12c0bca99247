/*
 * With a thousand sandboxes as many workers wake up when their server ends, and user code goes on
 * until it has been killed. A low nice value is no help there: it is a share among all that want
 * to run, and with groups by session not even that. A real time class goes before all of them.
 */
#include "supervisor/fleet/state/urgency.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#define URGENT_NICE (-15) /* where real time is not allowed */

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
