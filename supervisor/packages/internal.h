/*
 * The inside of packages: installations and those who wait, shared by packages.c (the door and the
 * queue), waits.c (who waits), install.c (one installation in its installer),
 * failure.c (why it failed) and look.c (what a sandbox has). Loop thread only.
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

#define INSTALLERS_MAX     4            /* at work at a time */
#define INSTALLATIONS_KEPT 64           /* that are over */
#define INSTALLATIONS_OPEN 128          /* that are not; more are refused */
#define INSTALL_TAIL_BYTES (16u << 10)  /* of the installer's output are kept */
#define PACKAGES_ROOT      "/packages/" /* as sandboxes see it */

/* No client's name: nobody finds what belongs to it. */
#define INSTALLERS_OWNER "\x01installers"

/*
 *   WAITING ──▶ OPENING ──▶ RUNNING ──▶ CLOSING ──▶ OVER
 *      │           └──────────────────────────────────▲
 *      └──────────────────────────────────────────────┘
 *
 * Its outcome is known, and told, from CLOSING on; its installer is gone when it is OVER.
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
    struct package *packages; /* one for each; names and versions are owned */
    size_t count;
    enum install_phase phase;
    unsigned pending;              /* callbacks of the fleet that are to come */
    char installer[FLEET_ID_SIZE]; /* "" if there is none (yet) */
    struct fleet_await *await;     /* while it runs */
    enum package_state state;
    struct buf tail;      /* of what the installer says */
    size_t tail_whole;    /* the last bytes of that, with nothing missing between */
    uint64_t before_said; /* bytes that were said before the installer's program began */
    uint64_t said;        /* all bytes */
    bool cancelled;       /* that is why it failed */
    int rc;
    char *message;
    char *hint;
    uint64_t begun_wall_ms, ended_wall_ms;
    TAILQ_HEAD(, packages_wait) waits;
};

struct packages_wait {
    TAILQ_ENTRY(packages_wait) node;   /* of the installation */
    TAILQ_ENTRY(packages_wait) queued; /* of p */
    struct packages *p;
    struct installation *installation; /* NULL: there is none, or it is a look */
    uint64_t due_ms;                   /* of the loop; told then at the latest */
    bool is_due;
    package_report_fn done;
    void *arg;
    fleet_progress_fn news; /* may be NULL */
    uint64_t news_ms;       /* when it was told last */
    bool has_news;
    struct package_look *look; /* look.c; NULL: waits for an installation */
};

struct packages {
    uv_loop_t *loop;
    struct fleet *fleet;
    const struct config *config;
    uv_timer_t timer;
    bool has_timer; /* it was needed */
    bool stopped;
    TAILQ_HEAD(, installation) installations; /* oldest first */
    size_t over;
    size_t open;
    size_t at_work;
    uint64_t refused;                  /* names those that never began */
    TAILQ_HEAD(, packages_wait) waits; /* all of them */
    char *package_dir;                 /* absolute; "" if there is none */
    char *package_ca;
};

/* ---- packages.c ---- */

struct installation *packages_find(const struct packages *p, const char *owner, const char *id);

/* The latest that is not over, or failing that the latest, of those that have the package. */
const struct installation *packages_latest(const struct packages *p, const char *owner,
                                           const char *sandbox, enum package_manager manager,
                                           const char *name);

/* Something is to be told, or begun, by the loop. */
void packages_turn(struct packages *p);

/* Its installer is gone. */
void packages_over(struct installation *i);

/* ---- waits.c ---- */

/* A wait that is told at due_ms, or by packages_turn() once it is due. */
struct packages_wait *packages_wait_begin(struct packages *p, package_report_fn done, void *arg);

struct package_report install_report(const struct installation *i);

/* The installation has got a line: who follows it is told soon. */
void packages_news(struct installation *i);

/* Its outcome is known: it is told soon. */
void packages_settled(struct installation *i);

/* Tells all that is to be told now. */
void waits_tell(struct packages *p);

/* When there will be something to tell, by the loop's clock; UINT64_MAX: not by itself. */
uint64_t waits_due_ms(const struct packages *p);

/* Whatever is waited for, it is told soon how that stands. */
void waits_all_due(struct packages *p);

/* Nobody is told any more. */
void waits_free(struct packages *p);

/* ---- install.c ---- */

/* Its turn has come. */
void install_begin(struct installation *i);

/* Whether the sandbox that it is for lives. */
bool install_has_target(const struct installation *i);

/* Fails it, if it is not settled; its installer ends. */
void install_fail(struct installation *i, int rc, const char *message, const char *hint);
void install_free(struct installation *i);

/* ---- failure.c ---- */

/* Why an installer's run did not end well. `hint` is a fixed text. The message is the caller's. */
int install_explain(const struct installation *i, const struct fleet_outcome *outcome,
                    char **ret_message, const char **ret_hint);

/* The same where the installer is gone, or was never made, for which rc, said and hint stand. What
 * has ended is the installer: the client's sandbox only if that does not live any more. */
int install_explain_loss(const struct installation *i, int rc, const char *said, const char *hint,
                         char **ret_message, const char **ret_hint);

/* ---- look.c ---- */

/* The wait is told: reports what was found. */
void look_tell(struct packages_wait *wait);
void look_stop(struct packages_wait *wait);

#endif
