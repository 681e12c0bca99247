/*
 * The list of packages is made in the sandbox: a small program lists the package directory and the
 * image's packages. So it is also known after a restart of the server, and includes packages that
 * were not installed here. The live interpreter is not touched, and the look does not count as use.
 */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/packages/installers.h"
#include "supervisor/packages/internal.h"
#include "supervisor/packages/reply.h"

#define LOOK_MS    20000
#define KEEP_BYTES (256u << 10) /* a list of some thousand packages */
#define LIST_MAX   2000

struct package_look {
    struct packages_wait *wait; /* NULL: the wait has ended */
    struct fleet_call *call;    /* NULL: ended */
    char *owner;
    char sandbox[FLEET_ID_SIZE];
    enum package_manager manager;
    char *name; /* NULL: all packages */
    int rc;     /* result of the look itself */
    char *message, *hint;
    char *text; /* output of the program */
    bool over;
};

static void free_look(struct package_look *look)
{
    free(look->owner);
    free(look->name);
    free(look->message);
    free(look->hint);
    free(look->text);
    free(look);
}

static void fail_look(struct package_look *look, int rc, struct view message, const char *hint)
{
    look->rc = rc;
    look->message = alloc_viewdup(message);
    look->hint = alloc_strdup(hint);
}

static void on_look_answered(void *arg, int rc, const struct fleet_outcome *o,
                             const struct err *err, const char *hint)
{
    struct package_look *look = arg;
    look->call = NULL;
    if (look->wait == NULL) {
        free_look(look);
        return;
    }
    if (rc < 0) {
        fail_look(look, rc, view_of(err->text), hint);
    } else if (o->end->status == OP_STATUS_CANCELLED) {
        fail_look(look, -ERR_GONE, o->end->error_message, "");
    } else if (o->end->status == OP_STATUS_FAILED) {
        bool known = err_known(o->end->fail_code);
        fail_look(look, -(known ? (int)o->end->fail_code : ERR_INTERNAL), o->end->error_message,
                  "");
    } else if (o->end->status != OP_STATUS_OK) {
        fail_look(look, -ERR_PACKAGE, view_of("the sandbox could not tell which packages it has"),
                  "its memory or processes may be used up; end what runs in it");
    } else {
        look->text = alloc_viewdup(o->out);
    }
    look->over = true;
    packages_await_end(look->wait);
}

static struct packages_wait *begin_look(struct packages *p, const char *owner, const char *sandbox,
                                        enum package_manager manager, const char *name,
                                        package_report_fn done, void *arg)
{
    struct packages_wait *w = packages_wait_begin(p, done, arg);
    struct package_look *look = alloc_one(struct package_look);
    size_t len = strlen(sandbox);
    w->look = look;
    look->wait = w;
    look->manager = manager;
    look->owner = alloc_strdup(owner);
    look->name = name != NULL ? alloc_strdup(name) : NULL;
    memcpy(look->sandbox, sandbox, len < FLEET_ID_SIZE ? len + 1 : 0);
    const struct installation *i =
        name != NULL ? packages_latest(p, owner, sandbox, manager, name) : NULL;
    if (i != NULL && i->state == PACKAGE_INSTALLING) {
        packages_await_end(w);
        return w;
    }
    const struct view python[] = {view_of("python3"), view_of("-I"), view_of("-"),
                                  view_of(PACKAGES_ROOT "python"), view_of(name)};
    const struct view node[] = {view_of("node"), view_of("-"), view_of(PACKAGES_ROOT "node"),
                                view_of(name)};
    size_t named = name != NULL ? 1 : 0;
    bool pip = manager == PACKAGE_PIP;
    const struct fleet_op op = {
        .kind = OP_RUN,
        .has_stdin = true,
        .stdin_data = view_of(pip ? installer_look_python : installer_look_node),
        .args = pip ? (struct view_list){python, 4 + named} : (struct view_list){node, 3 + named},
        .timeout_ms = LOOK_MS,
        .keep_bytes = KEEP_BYTES,
        .is_look = true,
    };
    look->call = fleet_run(p->fleet, sandbox, &op, on_look_answered, look);
    return w;
}

struct packages_wait *packages_status(struct packages *p, const char *owner, const char *sandbox,
                                      enum package_manager manager, const char *name,
                                      package_report_fn done, void *arg)
{
    return begin_look(p, owner, sandbox, manager, name, done, arg);
}

struct packages_wait *packages_list(struct packages *p, const char *owner, const char *sandbox,
                                    package_report_fn done, void *arg)
{
    return begin_look(p, owner, sandbox, PACKAGE_PIP, NULL, done, arg);
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Reports one package of an installation. */
static void tell_installation(struct packages_wait *w, const struct installation *i,
                              const struct package_look *look)
{
    struct package_report report = install_report(i);
    char wanted[PACKAGE_NAME_SIZE];
    char other[PACKAGE_NAME_SIZE];
    bool fits = package_name_normal(look->manager, view_of(look->name), wanted);
    for (size_t k = 0; fits && k < i->count; k++) {
        if (package_name_normal(i->manager, view_of(i->packages[k].name), other) &&
            strcmp(wanted, other) == 0) {
            report.packages = &i->packages[k];
            report.requirements += k;
            report.count = 1;
            break;
        }
    }
    w->done(w->arg, &report);
}

static void tell_look(struct packages_wait *w, const struct package_look *look)
{
    const struct installation *i =
        packages_latest(w->p, look->owner, look->sandbox, look->manager, look->name);
    struct view version;
    CLEANUP_FREE char *text = NULL;
    struct package row = {look->name, "", PACKAGE_NOT_INSTALLED};
    struct package_report report = {
        .id = i != NULL ? i->id : "",
        .sandbox = look->sandbox,
        .manager = look->manager,
        .state = PACKAGE_NOT_INSTALLED,
        .packages = &row,
        .count = 1,
        .message = "",
        .hint = "",
    };
    if (i != NULL && i->state == PACKAGE_INSTALLING) {
        tell_installation(w, i, look);
        return;
    }
    if (look->text != NULL &&
        package_reply_find(look->manager, view_of(look->text), view_of(look->name), &version)) {
        text = alloc_viewdup(version);
        row.version = text;
        row.state = report.state = PACKAGE_INSTALLED;
        report.begun_wall_ms = i != NULL ? i->begun_wall_ms : 0;
        report.ended_wall_ms = i != NULL ? i->ended_wall_ms : 0;
    } else if (look->rc == 0 && i != NULL && i->state == PACKAGE_FAILED) {
        tell_installation(w, i, look);
        return;
    } else if (look->rc < 0) {
        report.rc = look->rc;
        report.message = look->message;
        report.hint = look->hint;
    }
    w->done(w->arg, &report);
}

static void tell_list(struct packages_wait *w, const struct package_look *look)
{
    struct package *rows = alloc_array(LIST_MAX, sizeof(rows[0]));
    size_t count = 0;
    struct view rest = view_of(look->text);
    struct package_line line;
    while (count < LIST_MAX && package_reply_next(look->manager, &rest, &line)) {
        rows[count].name = alloc_viewdup(line.name);
        rows[count].version = alloc_viewdup(line.version);
        rows[count].state = PACKAGE_INSTALLED;
        count++;
    }
    const struct package_report report = {
        .id = "",
        .sandbox = look->sandbox,
        .manager = look->manager,
        .state = look->rc == 0 ? PACKAGE_INSTALLED : PACKAGE_FAILED,
        .packages = rows,
        .count = count,
        .rc = look->rc,
        .message = look->message != NULL ? look->message : "",
        .hint = look->hint != NULL ? look->hint : "",
    };
    w->done(w->arg, &report);
    for (size_t k = 0; k < count; k++) {
        free((char *)(uintptr_t)rows[k].name);
        free((char *)(uintptr_t)rows[k].version);
    }
    free(rows);
}

void look_stop(struct packages_wait *wait)
{
    struct package_look *look = wait->look;
    wait->look = NULL;
    if (look != NULL && look->call != NULL) {
        look->wait = NULL;
        fleet_cancel(look->call); /* on_look_answered() frees it */
    } else if (look != NULL) {
        free_look(look);
    }
}

void look_tell(struct packages_wait *wait)
{
    struct package_look *look = wait->look;
    if (!look->over && look->call != NULL) { /* the wait was ended early */
        fail_look(look, wait->p->stopped ? -ERR_SHUTTING_DOWN : -ERR_GONE,
                  view_of("nobody waits for the answer any more"), "");
    }
    if (look->name != NULL) {
        tell_look(wait, look);
    } else {
        tell_list(wait, look);
    }
    look_stop(wait);
}
