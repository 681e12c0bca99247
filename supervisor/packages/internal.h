/*
 * Structs and functions that these files share: packages.c (the interface and the queue), waits.c
 * (waiting callers), wishes.c (of code in a sandbox), install.c (one installation in its
 * installer), failure.c (why it failed) and look.c (what a sandbox has). Loop thread only.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_INTERNAL_H
#define CLOISTER_SUPERVISOR_PACKAGES_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/buf.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/packages/names.h"
#include "supervisor/packages/packages.h"

#define INSTALLERS_MAX     4            /* that run at the same time */
#define INSTALLATIONS_KEPT 64           /* ended ones */
#define INSTALLATIONS_OPEN 128          /* not ended; more are refused */
#define INSTALL_TAIL_BYTES (16u << 10)  /* kept of the installer's output */
#define PACKAGES_ROOT      "/packages/" /* path in sandboxes */

/* No client has this name, so no client finds the installers. */
#define INSTALLERS_OWNER "\x01installers"

/*
 *   WAITING ──▶ OPENING ──▶ RUNNING ──▶ CLOSING ──▶ OVER
 *      │           └──────────────────────────────────▲
 *      └──────────────────────────────────────────────┘
 *
 * The outcome is known and reported from CLOSING on; the installer is gone when it is OVER.
 */
enum install_phase {
    INSTALL_WAITING,
    INSTALL_OPENING,
    INSTALL_RUNNING,
    INSTALL_CLOSING,
    INSTALL_OVER
};

struct installation {
    TAILQ_ENTRY(installation) node;
    struct packages *p;
    char id[PACKAGE_ID_SIZE];
    char *owner;
    char sandbox[FLEET_ID_SIZE];
    enum package_manager manager;
    char **requirements;
    struct package *packages; /* one for each requirement; names and versions are owned */
    size_t count;
    enum install_phase phase;
    uint64_t turn;                 /* which installer of all it has got; 0: none yet */
    unsigned pending;              /* outstanding callbacks of the fleet */
    char installer[FLEET_ID_SIZE]; /* "" if there is none (yet) */
    struct fleet_await *await;     /* while the program runs */
    enum package_state state;
    struct buf tail;      /* the last output of the installer */
    size_t tail_whole;    /* its last bytes without a gap */
    uint64_t before_said; /* bytes before the installer's program began */
    uint64_t said;        /* all bytes so far */
    bool cancelled;       /* the reason of its failure */
    int rc;
    char *message;
    char *hint;
    uint64_t begun_wall_ms, ended_wall_ms;
    TAILQ_HEAD(, packages_wait) waits;
};

struct packages_wait {
    TAILQ_ENTRY(packages_wait) node;   /* list of the installation */
    TAILQ_ENTRY(packages_wait) queued; /* list of p */
    struct packages *p;
    struct installation *installation; /* NULL: unknown id, or a look */
    uint64_t due_ms;                   /* loop time; reported then at the latest */
    bool is_due;
    package_report_fn done;
    void *arg;
    fleet_progress_fn progress; /* may be NULL */
    uint64_t progress_ms;       /* when progress was last reported */
    bool has_progress;
    struct package_look *look; /* look.c; NULL: waits for an installation */
};

struct package_wish;

struct packages {
    uv_loop_t *loop;
    struct fleet *fleet;
    const struct config *config;
    uv_timer_t timer;
    bool has_timer; /* the timer has been initialised */
    bool stopped;
    TAILQ_HEAD(, installation) installations; /* oldest first */
    size_t over;
    size_t open;
    size_t at_work;
    uint64_t turns;                    /* installers that were given so far */
    uint64_t refused;                  /* makes ids for refused installations */
    TAILQ_HEAD(, packages_wait) waits; /* all of them */
    TAILQ_HEAD(, package_wish) wishes; /* of code, latest last */
    size_t wishes_over;                /* that were answered */
    char *package_dir;                 /* absolute; "" if there is none */
    char *package_ca;
};

/* ---- packages.c ---- */

struct installation *packages_find(const struct packages *p, const char *owner, const char *id);

/* Returns the latest unfinished installation that has the package, else the latest one. */
const struct installation *packages_latest(const struct packages *p, const char *owner,
                                           const char *sandbox, enum package_manager manager,
                                           const char *name);

/* Makes the timer fire soon. */
void packages_turn(struct packages *p);

/* Notes that its installer is gone. */
void packages_over(struct installation *i);

/* ---- waits.c ---- */

/* A wait that is reported at due_ms, or in the next turn after it is due. */
struct packages_wait *packages_wait_begin(struct packages *p, package_report_fn done, void *arg);

struct package_report install_report(const struct installation *i);

/* The installation has new output: its followers are told soon. */
void packages_progressed(struct installation *i);

/* Its outcome is known: waiting callers are told soon. */
void packages_settled(struct installation *i);

/* Makes all callbacks that are due. */
void waits_tell(struct packages *p);

/* The loop time of the next callback; UINT64_MAX: only after a change. */
uint64_t waits_due_ms(const struct packages *p);

/* Makes all waits due, whatever their state. */
void waits_all_due(struct packages *p);

/* Frees all waits without a callback. */
void waits_free(struct packages *p);

/* ---- wishes.c ---- */

/* Frees all of them; the fleet calls back no more. */
void wishes_free(struct packages *p);

/* ---- install.c ---- */

/* Opens its installer. */
void install_begin(struct installation *i);

/* Whether the sandbox for which it installs lives. */
bool install_has_target(const struct installation *i);

/* Fails it unless it is settled, and closes its installer. */
void install_fail(struct installation *i, int rc, const char *message, const char *hint);
void install_free(struct installation *i);

/* ---- failure.c ---- */

/* Explains why an installer's run failed. `hint` is a string literal. The caller frees the
 * message. */
int install_explain(const struct installation *i, const struct fleet_outcome *outcome,
                    char **ret_message, const char **ret_hint);

/* The same if the installer is gone or was never opened; rc, said and hint come from the fleet. The
 * error is about the installer, unless the client's sandbox is gone, too. */
int install_explain_loss(const struct installation *i, int rc, const char *said, const char *hint,
                         char **ret_message, const char **ret_hint);

/* ---- look.c ---- */

/* Reports what was found to the wait. */
void look_tell(struct packages_wait *wait);
void look_stop(struct packages_wait *wait);

#endif
