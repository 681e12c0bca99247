/*
 * Packages of sandboxes: installing them, and listing them.
 *
 * User code has no network. An installation runs in an installer: a sandbox of its own that has
 * network, sees nothing of the other sandbox but its package directory, and is closed after its
 * work. One installation at a time runs for a sandbox, others wait. A request for what is being
 * installed already joins it.
 *
 * The list is read from the package directory itself, so it is known after a restart, too. An
 * installation that runs when the server ends is ended, and leaves nothing half done: packages
 * appear whole or not at all.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that registers them.
 * Arguments are copied; what callbacks get is borrowed.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_PACKAGES_H
#define CLOISTER_SUPERVISOR_PACKAGES_PACKAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/fleet/fleet.h"

struct config;
struct fleet;
struct packages;
struct packages_wait;

enum package_manager { PACKAGE_PIP, PACKAGE_NPM };

enum package_state {
    PACKAGE_NOT_INSTALLED,
    PACKAGE_INSTALLING,
    PACKAGE_INSTALLED,
    PACKAGE_FAILED,
};

#define PACKAGES_PER_CALL 32
#define PACKAGE_ID_SIZE   32

struct package {
    const char *name;    /* as requested, without its version */
    const char *version; /* "" if it is not installed */
    enum package_state state;
};

/* The state or outcome of an installation. */
struct package_report {
    const char *id; /* of the installation; "" if it never began */
    enum package_manager manager;
    enum package_state state; /* of the whole installation */
    const struct package *packages;
    const char *const *requirements; /* of these packages; NULL: they were not installed here */
    size_t count;
    struct view output;  /* the last lines of the installer's output, any bytes */
    size_t output_whole; /* its last bytes without a gap */
    uint64_t said;       /* bytes of output in all; `output` ends there */
    bool cancelled;      /* the reason of its failure */
    const char *sandbox; /* id */
    int rc;              /* why it failed, -ERR_*, with message and hint; else 0 */
    const char *message, *hint;
    uint64_t begun_wall_ms, ended_wall_ms; /* 0: not yet */
};
typedef void (*package_report_fn)(void *arg, const struct package_report *report);

/* Starts nothing before the first call. Everything is borrowed for its life. */
struct packages *packages_create(uv_loop_t *loop, struct fleet *fleet, const struct config *config);

/* Fails installations in progress, and later ones, with -ERR_SHUTTING_DOWN. Call it before
 * fleet_shutdown(), which ends the installers. */
void packages_stop(struct packages *p);

/* Call it after the fleet's last callback. The memory is freed after another turn of the loop, or
 * at once if it was never used. NULL is fine. */
void packages_destroy(struct packages *p);

/* Checks a requirement: for pip NAME[EXTRAS]SPECIFIERS, for npm [@SCOPE/]NAME[@VERSION or RANGE].
 * Everything else, including options, URLs, paths and characters of a shell, is -ERR_INVALID. */
int packages_check(enum package_manager manager, const char *requirement,
                   struct err *err) WARN_UNUSED;

/* Starts to install checked requirements into one of the owner's sandboxes (an id of fleet_find()),
 * or joins an installation in progress. */
void packages_install(struct packages *p, const char *owner, const char *sandbox,
                      enum package_manager manager, const char *const *requirements, size_t count,
                      char ret_id[PACKAGE_ID_SIZE]);

/* Calls `done` once: at the end, or with the current state after wait_ms. For an unknown id it
 * reports a failure, -ERR_EXECUTION_NOT_FOUND. The handle is valid until then; ending the wait
 * calls back, too. */
struct packages_wait *packages_await(struct packages *p, const char *owner, const char *id,
                                     uint64_t wait_ms, package_report_fn done, void *arg);
void packages_await_end(struct packages_wait *wait);

/* Also reports progress, with the arg of `done` and never after it: at most twice a second, and
 * every few seconds even if nothing is new. For waits of packages_await() only. */
void packages_await_progress(struct packages_wait *wait, fleet_progress_fn progress);

/* Sets the gauge of installations (metrics.def) to the present figures. */
void packages_measure(const struct packages *p);

/* Whether the owner has such an installation. */
bool packages_has(const struct packages *p, const char *owner, const char *id);

/* Stops the installation, which is reported as failed. Does nothing if it has ended. */
void packages_cancel(struct packages *p, const char *owner, const char *id);

/* Code in a sandbox wants packages: they are installed as by packages_install(), and what the
 * installer says, and at last an exit code, is told to the sandbox. False: this wish is known. */
bool packages_wish(struct packages *p, const char *owner, const char *sandbox,
                   const struct msg_install *wish);

/* Reports one package of a sandbox: the latest installation that had it, else what the package
 * directory shows, else NOT_INSTALLED. Calls back later. The wait can be ended like the others. */
struct packages_wait *packages_status(struct packages *p, const char *owner, const char *sandbox,
                                      enum package_manager manager, const char *name,
                                      package_report_fn done, void *arg);

/* Reports all packages that the sandbox's directory shows. */
struct packages_wait *packages_list(struct packages *p, const char *owner, const char *sandbox,
                                    package_report_fn done, void *arg);

#endif
