/*
 * What runs in sandboxes, as the fleet sees it: a table of functions that the calls provide
 * (supervisor/calls/door.c). So the fleet, on which the calls are built, does not depend on them.
 * Through this table the fleet reports what happens to a sandbox, and the calls decide about each
 * call in flight.
 *
 * Loop thread only. No function of the table calls back into the fleet before it returns, except to
 * query and to post.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_RUNS_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_RUNS_H

struct err;
struct fleet_host;
struct msg_op_info;
struct sandbox;

struct fleet_runs {
    /* The sandbox has a worker (again): all its calls continue. */
    void (*resume)(struct sandbox *s);
    /* Called about once a second while the sandbox has a worker or waits for the next one. */
    void (*check)(struct sandbox *s);
    /* The sandbox has ended: answers all its calls with this error, before it returns. */
    void (*fail)(struct sandbox *s, const struct err *err, const char *hint);
    /* The sandbox is being closed: everything that runs in it must stop. */
    void (*cancel)(struct sandbox *s);
    /* The server leaves the sandbox to the next one. */
    void (*leave)(struct sandbox *s);

    /* An earlier server began this operation in s, and the agent still knows it. */
    void (*adopt)(struct sandbox *s, const struct msg_op_info *info);
    /* All operations that an earlier server left are known. */
    void (*adopted)(struct fleet_host *host);

    /* The last call by a fleet: nothing runs and nobody waits any more. `closed` is called
     * later. */
    void (*close)(struct fleet_host *host, void (*closed)(void *arg), void *arg);
};

#endif
