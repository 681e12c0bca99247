/*
 * The queue of installations. Owners take turns: the next one is the oldest of the owner who has
 * the fewest installers, and of several such owners of the one whose turn was longest ago. It waits
 * while another one runs for the same sandbox, or while all installers are in use. Where there are
 * several principals, one never has all installers, nor all of the queue. An installation belongs
 * to its sandbox rather than to the first caller: it goes on if nobody waits, and a caller that
 * asks for the same joins it.
 *
 * All callbacks come from one timer. It fires when a wait is due or something has happened, makes
 * the callbacks that are due (waits.c), and starts the next installations. So no callback runs
 * inside a caller's call.
 */
#include "supervisor/packages/packages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/str.h"
#include "supervisor/base/config.h"
#include "supervisor/base/fair.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/packages/internal.h"

#define LOOK_MS 1000 /* how often waiting installations check that their sandboxes exist */

static void on_packages_time(uv_timer_t *timer);

/* ---- life ---- */

/* A path of the configuration may be relative to our working directory; mounts need absolute
 * ones. */
static char *absolute(const char *path)
{
    char *real = path[0] != '\0' ? realpath(path, NULL) : NULL;
    return real != NULL ? real : alloc_strdup(path);
}

struct packages *packages_create(uv_loop_t *loop, struct fleet *fleet, const struct config *config)
{
    struct packages *p = alloc_one(struct packages);
    p->loop = loop;
    p->fleet = fleet;
    p->config = config;
    p->package_dir = absolute(config->package_dir);
    p->package_ca = absolute(config->package_ca);
    TAILQ_INIT(&p->installations);
    TAILQ_INIT(&p->waits);
    TAILQ_INIT(&p->wishes);
    return p;
}

void packages_stop(struct packages *p)
{
    struct installation *i;
    p->stopped = true;
    TAILQ_FOREACH(i, &p->installations, node)
    {
        install_fail(i, -ERR_SHUTTING_DOWN, "the server is shutting down",
                     "install it again when the server is back");
    }
    waits_all_due(p);
    packages_turn(p);
}

static void free_all(struct packages *p)
{
    struct installation *i;
    waits_free(p);
    wishes_free(p);
    while ((i = TAILQ_FIRST(&p->installations)) != NULL) {
        TAILQ_REMOVE(&p->installations, i, node);
        install_free(i);
    }
    free(p->package_dir);
    free(p->package_ca);
    free(p);
}

static void on_packages_timer_closed(uv_handle_t *handle)
{
    free_all(handle->data);
}

void packages_destroy(struct packages *p)
{
    if (p != NULL && p->has_timer) {
        uv_close((uv_handle_t *)&p->timer, on_packages_timer_closed);
    } else if (p != NULL) {
        free_all(p);
    }
}

/* ---- finding ---- */

struct installation *packages_find(const struct packages *p, const char *owner, const char *id)
{
    struct installation *i;
    TAILQ_FOREACH(i, &p->installations, node)
    {
        if (strcmp(i->id, id) == 0 && strcmp(i->owner, owner) == 0) {
            return i;
        }
    }
    return NULL;
}

static bool has_package(const struct installation *i, const char *normal)
{
    char other[PACKAGE_NAME_SIZE];
    for (size_t k = 0; k < i->count; k++) {
        if (package_name_normal(i->manager, view_of(i->packages[k].name), other) &&
            strcmp(other, normal) == 0) {
            return true;
        }
    }
    return false;
}

const struct installation *packages_latest(const struct packages *p, const char *owner,
                                           const char *sandbox, enum package_manager manager,
                                           const char *name)
{
    const struct installation *i;
    const struct installation *found = NULL;
    char normal[PACKAGE_NAME_SIZE];
    if (!package_name_normal(manager, view_of(name), normal)) {
        return NULL;
    }
    TAILQ_FOREACH(i, &p->installations, node)
    {
        bool fits = i->manager == manager && strcmp(i->sandbox, sandbox) == 0 &&
                    strcmp(i->owner, owner) == 0 && has_package(i, normal);
        if (fits && (found == NULL || found->state != PACKAGE_INSTALLING ||
                     i->state == PACKAGE_INSTALLING)) {
            found = i;
        }
    }
    return found;
}

bool packages_has(const struct packages *p, const char *owner, const char *id)
{
    return packages_find(p, owner, id) != NULL;
}

/* ---- the timer ------------------------------------------------------------------------------- */

static bool is_at_work(const struct installation *i)
{
    return i->phase > INSTALL_WAITING && i->phase < INSTALL_OVER;
}

static bool sandbox_is_busy(const struct packages *p, const char *sandbox)
{
    const struct installation *i;
    TAILQ_FOREACH(i, &p->installations, node)
    {
        if (is_at_work(i) && strcmp(i->sandbox, sandbox) == 0) {
            return true;
        }
    }
    return false;
}

/* What an owner has of the queue. */
struct standing {
    size_t open, at_work;
    uint64_t turn; /* the latest one; 0: none that is remembered */
};

static struct standing standing_of(const struct packages *p, const char *owner)
{
    const struct installation *i;
    struct standing s = {0, 0, 0};
    TAILQ_FOREACH(i, &p->installations, node)
    {
        if (strcmp(i->owner, owner) == 0) {
            s.open += i->phase < INSTALL_OVER ? 1 : 0;
            s.at_work += is_at_work(i) ? 1 : 0;
            s.turn = i->turn > s.turn ? i->turn : s.turn;
        }
    }
    return s;
}

/* Whether an owner with so many may have one more, of so many for all; the first one is not held
 * back for others. */
static bool may_take(const struct packages *p, size_t most, size_t used, size_t mine)
{
    return mine == 0 || !fleet_is_shared(p->fleet) || fair_may_take(most, used, mine, 1);
}

/* The installation whose turn it is; NULL: none may begin. */
static struct installation *next_turn(const struct packages *p)
{
    struct installation *i;
    struct installation *best = NULL;
    struct standing first = {0, 0, 0};
    TAILQ_FOREACH(i, &p->installations, node)
    {
        if (i->phase != INSTALL_WAITING || sandbox_is_busy(p, i->sandbox)) {
            continue;
        }
        struct standing s = standing_of(p, i->owner);
        bool sooner = best == NULL || s.at_work < first.at_work ||
                      (s.at_work == first.at_work && s.turn < first.turn);
        if (sooner && may_take(p, INSTALLERS_MAX, p->at_work, s.at_work)) {
            best = i;
            first = s;
        }
    }
    return best;
}

static void begin_next(struct packages *p)
{
    struct installation *i;
    while (p->at_work < INSTALLERS_MAX && (i = next_turn(p)) != NULL) {
        p->at_work++;
        i->turn = ++p->turns;
        install_begin(i);
    }
}

/* Fails waiting installations whose sandbox was closed. A running one ends with its installer. */
static void fail_orphans(struct packages *p)
{
    struct installation *i;
    TAILQ_FOREACH(i, &p->installations, node)
    {
        if (i->phase == INSTALL_WAITING && !install_has_target(i)) {
            install_fail(i, -ERR_GONE, "the sandbox was closed", "");
        }
    }
}

/* Sets the timer. */
static void plan_packages(struct packages *p)
{
    uint64_t now_ms = uv_now(p->loop);
    uint64_t due_ms = waits_due_ms(p);
    bool any_waits = p->open > p->at_work;
    if (any_waits && due_ms > now_ms + LOOK_MS) {
        due_ms = now_ms + LOOK_MS;
    }
    /* A later wait does not keep the loop alive: its request does. */
    if (due_ms > now_ms) {
        uv_unref((uv_handle_t *)&p->timer);
    }
    if (due_ms != UINT64_MAX) {
        uv_timer_start(&p->timer, on_packages_time, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

static void make_installation_room(struct packages *p)
{
    struct installation *i = TAILQ_FIRST(&p->installations);
    while (i != NULL && p->over > INSTALLATIONS_KEPT) {
        struct installation *next = TAILQ_NEXT(i, node);
        if (i->phase == INSTALL_OVER && TAILQ_EMPTY(&i->waits)) {
            TAILQ_REMOVE(&p->installations, i, node);
            p->over--;
            install_free(i);
        }
        i = next;
    }
}

static void on_packages_time(uv_timer_t *timer)
{
    struct packages *p = timer->data;
    fail_orphans(p);
    waits_tell(p);
    if (!p->stopped) {
        begin_next(p);
    }
    make_installation_room(p);
    plan_packages(p);
}

void packages_turn(struct packages *p)
{
    if (!p->has_timer) {
        uv_timer_init(p->loop, &p->timer);
        p->timer.data = p;
        p->has_timer = true;
    }
    if (uv_is_closing((uv_handle_t *)&p->timer) == 0) {
        uv_ref((uv_handle_t *)&p->timer);
        uv_timer_start(&p->timer, on_packages_time, 0, 0);
    }
}

void packages_over(struct installation *i)
{
    struct packages *p = i->p;
    p->at_work -= is_at_work(i) ? 1 : 0;
    p->open--;
    p->over++;
    i->phase = INSTALL_OVER;
    packages_turn(p);
}

/* ---- installing ---- */

static bool asks_for(const struct installation *i, const char *requirement)
{
    for (size_t k = 0; k < i->count; k++) {
        if (strcmp(i->requirements[k], requirement) == 0) {
            return true;
        }
    }
    return false;
}

/* An unfinished installation that includes all these requirements. */
static struct installation *find_same(struct packages *p, const char *owner, const char *sandbox,
                                      enum package_manager manager, const char *const *requirements,
                                      size_t count)
{
    struct installation *i;
    TAILQ_FOREACH(i, &p->installations, node)
    {
        bool same = i->state == PACKAGE_INSTALLING && i->manager == manager &&
                    strcmp(i->sandbox, sandbox) == 0 && strcmp(i->owner, owner) == 0;
        for (size_t k = 0; same && k < count; k++) {
            same = asks_for(i, requirements[k]);
        }
        if (same) {
            return i;
        }
    }
    return NULL;
}

static struct installation *add_installation(struct packages *p, const char *owner,
                                             const char *sandbox, enum package_manager manager,
                                             const char *const *requirements, size_t count)
{
    struct installation *i = alloc_one(struct installation);
    i->p = p;
    i->owner = alloc_strdup(owner);
    snprintf(i->sandbox, sizeof(i->sandbox), "%s", sandbox);
    i->manager = manager;
    i->state = PACKAGE_INSTALLING;
    i->begun_wall_ms = clock_wall_ms();
    i->requirements = alloc_array(count + 1, sizeof(i->requirements[0]));
    i->packages = alloc_array(count + 1, sizeof(i->packages[0]));
    for (size_t k = 0; k < count && k < PACKAGES_PER_CALL; k++) {
        i->requirements[k] = alloc_strdup(requirements[k]);
        i->packages[k].name = alloc_viewdup(package_requirement_name(manager, requirements[k]));
        i->packages[k].version = alloc_strdup("");
        i->packages[k].state = PACKAGE_INSTALLING;
        i->count++;
    }
    buf_init(&i->tail, 2 * (size_t)INSTALL_TAIL_BYTES);
    TAILQ_INIT(&i->waits);
    TAILQ_INSERT_TAIL(&p->installations, i, node);
    p->open++;
    return i;
}

/* Why it cannot be queued; 0 if it can. */
static int refuse_packages(const struct packages *p, const char *owner, struct err *err,
                           const char **ret_hint)
{
    struct standing mine = standing_of(p, owner); /* with the one that is asked for */
    *ret_hint = "";
    if (p->stopped) {
        return err_set(err, ERR_SHUTTING_DOWN, "the server is shutting down");
    }
    if (!p->config->packages) {
        *ret_hint =
            "use what the sandbox has; the server's operator can allow it with --packages=yes";
        return err_set(err, ERR_PACKAGE, "this server does not install packages (--packages=no)");
    }
    if (p->open > INSTALLATIONS_OPEN) {
        *ret_hint = "wait until some of them have ended";
        return err_set(err, ERR_BUSY, "%zu installations are under way or waiting", p->open);
    }
    if (!may_take(p, INSTALLATIONS_OPEN, p->open - 1, mine.open - 1)) {
        *ret_hint = "wait until some of yours have ended";
        return err_set(err, ERR_BUSY,
                       "%zu installations of yours are under way or waiting, and the queue has "
                       "room for others only",
                       mine.open - 1);
    }
    return 0;
}

void packages_install(struct packages *p, const char *owner, const char *sandbox,
                      enum package_manager manager, const char *const *requirements, size_t count,
                      char ret_id[PACKAGE_ID_SIZE])
{
    struct err err = ERR_INIT;
    const char *hint = "";
    struct installation *i = find_same(p, owner, sandbox, manager, requirements, count);
    if (i == NULL) {
        i = add_installation(p, owner, sandbox, manager, requirements, count);
        int rc = random_id(i->id, 16, &err);
        if (rc < 0) {
            snprintf(i->id, sizeof(i->id), "refused-%llu", (unsigned long long)++p->refused);
        }
        if (rc < 0 || (rc = refuse_packages(p, owner, &err, &hint)) < 0) {
            if (rc == -ERR_BUSY) {
                metrics_count(METRIC_REJECTED, METRIC_REASON_INSTALLATIONS);
            }
            install_fail(i, rc, err.text, hint);
        }
        packages_turn(p);
    }
    snprintf(ret_id, PACKAGE_ID_SIZE, "%s", i->id);
}

void packages_measure(const struct packages *p)
{
    metrics_set(METRIC_INSTALLATIONS, METRIC_TURN_RUNNING, 0, p->at_work);
    metrics_set(METRIC_INSTALLATIONS, METRIC_TURN_WAITING, 0,
                p->open > p->at_work ? p->open - p->at_work : 0);
}

void packages_cancel(struct packages *p, const char *owner, const char *id)
{
    struct installation *i = packages_find(p, owner, id);
    if (i != NULL) {
        i->cancelled = i->state == PACKAGE_INSTALLING;
        install_fail(i, -ERR_PACKAGE, "the installation was cancelled",
                     "install it again if it is wanted after all");
    }
}

int packages_check(enum package_manager manager, const char *requirement, struct err *err)
{
    return package_requirement_check(manager, requirement, err);
}
