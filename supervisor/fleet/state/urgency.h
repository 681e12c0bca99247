/*
 * Raises the priority for a moment. Thread: acts on the calling thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_STATE_URGENCY_H
#define CLOISTER_SUPERVISOR_FLEET_STATE_URGENCY_H

struct urgency {
    int policy, priority, nice; /* of the kernel's scheduler */
};

/* Gives this thread precedence over all ordinary ones, as far as we are allowed to. Children do not
 * inherit it. */
void urgency_raise(struct urgency *ret_before);
void urgency_restore(const struct urgency *before);

#endif
