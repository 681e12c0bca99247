/*
 * Packages: what is being installed into sandboxes, and what is there.
 *
 * User code has no network. An installation runs in an installer, a sandbox of its own which has
 * network, sees the package directory of the sandbox that it works for and nothing else of it, and
 * ends with its work. One installs for a sandbox at a time, others wait for their turn; asking for
 * what is being installed already joins that.
 *
 * What is there is read from the package directory itself, so it is known after a restart, too. An
 * installation that runs when the server ends ends with it, and leaves nothing half done: packages
 * appear whole or not at all.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks never run inside the call that takes them.
 * What is passed in is copied; what callbacks get is borrowed.
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
    const char *name;    /* as it was asked for, without its version */
    const char *version; /* "" if it is not installed */
    enum package_state state;
};

/* How an installation stands, or ended. */
struct package_report {
    const char *id; /* of the installation; "" if there never was one */
    enum package_manager manager;
    enum package_state state; /* of all of it */
    const struct package *packages;
    size_t count;
    struct view output;  /* of the installer, its last lines, any bytes */
    size_t output_whole; /* the last bytes of that, with nothing missing between */
    uint64_t said;       /* bytes that the installer has said in all: output ends there */
    bool cancelled;      /* that is why it failed */
    const char *sandbox; /* id */
    int rc;              /* why it failed, -ERR_*, with a message and what to do; else 0 */
    const char *message, *hint;
    uint64_t begun_wall_ms, ended_wall_ms; /* 0: not yet */
};
typedef void (*package_report_fn)(void *arg, const struct package_report *report);

/* Nothing happens before the first call. All is borrowed for its life. */
struct packages *packages_create(uv_loop_t *loop, struct fleet *fleet, const struct config *config);

/* What is under way fails with -ERR_SHUTTING_DOWN, as does what is begun later. Before
 * fleet_shutdown(), which ends the installers. */
void packages_stop(struct packages *p);

/* When nothing of the fleet calls back any more. Its memory goes when the loop has run once more,
 * or at once if it was never used. NULL is fine. */
void packages_destroy(struct packages *p);

/* A requirement: for pip NAME[EXTRAS]SPECIFIERS, for npm [@SCOPE/]NAME[@VERSION or RANGE]. Anything
 * else, options, URLs, paths and what a shell would look at among it, is -ERR_INVALID. */
int packages_check(enum package_manager manager, const char *requirement,
                   struct err *err) WARN_UNUSED;

/* Begins to install (requirements that packages_check() takes) for one of the owner's sandboxes (id
 * from fleet_find()), or joins what is under way. */
void packages_install(struct packages *p, const char *owner, const char *sandbox,
                      enum package_manager manager, const char *const *requirements, size_t count,
                      char ret_id[PACKAGE_ID_SIZE]);

/* Calls `done` once: at its end, or with how it stands when wait_ms have passed. An unknown id is
 * reported as failed with -ERR_EXECUTION_NOT_FOUND. The handle is valid until then; ending the wait
 * calls back, too. */
struct packages_wait *packages_await(struct packages *p, const char *owner, const char *id,
                                     uint64_t wait_ms, package_report_fn done, void *arg);
void packages_await_end(struct packages_wait *wait);

/* Tells what the installation is busy with, with the arg of `done` and never after it: at most
 * twice a second, and every few seconds even if there is nothing new. Of packages_await() only. */
void packages_await_news(struct packages_wait *wait, fleet_progress_fn news);

/* Whether the owner has such an installation. */
bool packages_has(const struct packages *p, const char *owner, const char *id);

/* The installation is stopped, and told as failed. Harmless if it is over. */
void packages_cancel(struct packages *p, const char *owner, const char *id);

/* What is known of one package of a sandbox: the latest installation that had it, or what the
 * package directory says, or NOT_INSTALLED. Calls back later. The wait may be ended likewise. */
struct packages_wait *packages_status(struct packages *p, const char *owner, const char *sandbox,
                                      enum package_manager manager, const char *name,
                                      package_report_fn done, void *arg);

/* All packages of a sandbox that the directory shows. */
struct packages_wait *packages_list(struct packages *p, const char *owner, const char *sandbox,
                                    package_report_fn done, void *arg);

#endif
