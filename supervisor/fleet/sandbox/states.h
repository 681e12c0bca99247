/*
 * The states of a sandbox and of what goes on beside them: the drawings are in states.c.
 *
 * Private to the fleet. Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_SANDBOX_STATES_H
#define CLOISTER_SUPERVISOR_FLEET_SANDBOX_STATES_H

#include "common/sm.h"

/* What clients see. From FAILED on nothing is begun in it any more. */
enum sandbox_state {
    SANDBOX_CREATING,
    SANDBOX_READY,
    SANDBOX_RECOVERING,
    SANDBOX_FAILED,
    SANDBOX_CLOSING,
    SANDBOX_CLOSED,
    SANDBOX_LEFT,
    SANDBOX_STATE_COUNT,
};
extern const struct sm_state sandbox_states[SANDBOX_STATE_COUNT];

/* What the present worker has been asked, or the last one if there is none. */
enum sandbox_attempt {
    ATTEMPT_UNASKED, /* OPEN was not sent to it */
    ATTEMPT_ASKED,
    ATTEMPT_REACHED, /* it has reached the sandbox */
    ATTEMPT_REFUSED, /* it cannot reach the sandbox, which may be the host's fault */
    ATTEMPT_SILENT, /* the same, since the sandbox does not answer, which says nothing of its end */
    ATTEMPT_COUNT,
};
extern const struct sm_state sandbox_attempts[ATTEMPT_COUNT];

/* What there may be that has to be destroyed. */
enum sandbox_made {
    MADE_NOT,
    MADE_ONCE,    /* OPEN was sent: there may be something */
    MADE_MUTE,    /* it has no language, and its worker was told to remove it */
    MADE_UNMADE,  /* that has removed it, and ends */
    MADE_PENDING, /* it is to be made for the second time */
    MADE_AGAIN,
    MADE_DESTROYED, /* a worker has said that nothing is left */
    MADE_COUNT,
};
extern const struct sm_state sandbox_mades[MADE_COUNT];

/* The way to nothing left, for CLOSING and FAILED alike. */
enum sandbox_cleanup {
    CLEANUP_NONE,       /* not begun */
    CLEANUP_INSTALLERS, /* those that write its packages end first */
    CLEANUP_WORKER,     /* the worker is asked or made to end */
    CLEANUP_SWEEP,      /* another worker removes what that one left */
    CLEANUP_RECORD,     /* its record is still being written */
    CLEANUP_FILES,      /* the directory is being removed */
    CLEANUP_DONE,
    CLEANUP_COUNT,
};
extern const struct sm_state sandbox_cleanups[CLEANUP_COUNT];

/* How far it is taken over from an earlier server. */
enum sandbox_adoption {
    ADOPTION_NONE,     /* it is this server's own */
    ADOPTION_RUNNING,  /* its worker is there, or is replaced like any other */
    ADOPTION_QUEUED,   /* has to wait for a worker to be started */
    ADOPTION_STARTING, /* a worker is being started, for which there is not much room */
    ADOPTION_SETTLED,  /* it is known what became of it */
    ADOPTION_COUNT,
};
extern const struct sm_state sandbox_adoptions[ADOPTION_COUNT];

/* Whether it was made for nobody. */
enum sandbox_pooled {
    POOLED_NO,      /* it was made for its owner */
    POOLED_FILLING, /* it is being made, and has no owner */
    POOLED_KEPT,    /* it is made, and has none: whoever comes may claim it */
    POOLED_SOUGHT,  /* another server made it for nobody, and it is being claimed there */
    POOLED_CLAIMED, /* it has an owner, and is being asked whether it is good */
    POOLED_GIVEN,   /* it is: a sandbox like any other */
    POOLED_LOST,    /* it is not, and another is made for its owner */
    POOLED_COUNT,
};
extern const struct sm_state sandbox_pooleds[POOLED_COUNT];

struct sandbox;

/* All machines of a new sandbox, in their first states. */
void sandbox_init_states(struct sandbox *s, enum sandbox_state first);

/* OPEN is sent: there may be something from now on. */
void sandbox_made_begin(struct sandbox *s);

/* A worker has said that nothing is left. May be said twice. */
void sandbox_made_destroyed(struct sandbox *s);

/* There may be something that has to be destroyed. */
bool sandbox_may_exist(const struct sandbox *s);

#endif
