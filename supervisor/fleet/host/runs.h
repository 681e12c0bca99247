/*
 * What runs in sandboxes, as the fleet sees it: a table that the calls fill in
 * (supervisor/calls/door.c), so that the fleet, which they stand on, knows nothing of them. The
 * fleet tells through it what happens to a sandbox; what is done about each call in flight is
 * decided behind it.
 *
 * Loop thread only. No function of the table calls back into the fleet before it returns, but to
 * ask and to post.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_RUNS_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_RUNS_H

struct err;
struct fleet_host;
struct msg_op_info;
struct sandbox;

struct fleet_runs {
    /* The sandbox has a worker (again): all its calls go on. */
    void (*resume)(struct sandbox *s);
    /* About once a second, while it has a worker or waits for the next one. */
    void (*check)(struct sandbox *s);
    /* It has ended: all its calls are answered, inside, with this. */
    void (*fail)(struct sandbox *s, const struct err *err, const char *hint);
    /* It is being closed: all that runs in it is to stop. */
    void (*cancel)(struct sandbox *s);
    /* The server leaves it to the next one. */
    void (*leave)(struct sandbox *s);

    /* An earlier server began this in s, and the agent still knows it. */
    void (*adopt)(struct sandbox *s, const struct msg_op_info *info);
    /* All that an earlier server left is known. */
    void (*adopted)(struct fleet_host *host);

    /* The last thing of a fleet: nothing runs any more and nobody waits. `closed` comes later. */
    void (*close)(struct fleet_host *host, void (*closed)(void *arg), void *arg);
};

#endif
