/*
 * What is done by this API, for the audit log: who did it, to what, and how it ended. Requests that
 * only look are no deeds; which are, the table of routes says.
 *
 * A deed lies with its exchange from the moment that its handler is found to the moment that the
 * handler is done. So a request that is refused has its line as well, and so has one whose client
 * has gone meanwhile. What handlers know, and the table does not, they add on the way: the sandbox
 * that a name means, the execution that was started, the code.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "supervisor/audit/audit.h"
#include "supervisor/control/internal.h"

#define DOOR "control" /* the kind of session */

struct deed {
    struct audit *audit;
    char *who;
    const char *action;
    char sandbox[FLEET_ID_SIZE], execution[FLEET_ID_SIZE];
    char *code;          /* owned; NULL: none */
    const char *outcome; /* NULL: it was not answered */
    const char *error;   /* code of a failure, or NULL */
    uint64_t begun_us;
};

static void on_deed_over(void *arg)
{
    struct deed *d = arg;
    const struct audit_call line = {
        .principal = d->who,
        .session = DOOR,
        .action = d->action,
        .sandbox = d->sandbox,
        .execution = d->execution,
        .code = view_of(d->code),
        .outcome = d->outcome != NULL ? d->outcome : "lost",
        .error = d->error,
        .duration_us = clock_us() - d->begun_us,
        .run_ms = -1,
        .cpu_ms = -1,
    };
    audit_call(d->audit, &line);
    free(d->who);
    free(d->code);
    free(d);
}

void control_deed_begin(struct control *c, struct web_exchange *x, const char *action,
                        const char *who)
{
    if (c->audit == NULL || action == NULL) {
        return;
    }
    struct deed *d = alloc_one(struct deed);
    d->audit = c->audit;
    d->who = alloc_strdup(who);
    d->action = action;
    d->begun_us = clock_us();
    web_set_note(x, d, on_deed_over);
}

void control_deed_on(struct web_exchange *x, const char *sandbox, const char *execution)
{
    struct deed *d = web_note(x);
    if (d != NULL && sandbox != NULL) {
        snprintf(d->sandbox, sizeof(d->sandbox), "%s", sandbox);
    }
    if (d != NULL && execution != NULL) {
        snprintf(d->execution, sizeof(d->execution), "%s", execution);
    }
}

void control_deed_runs(struct web_exchange *x, const char *code, struct view_list args)
{
    struct deed *d = web_note(x);
    if (d == NULL) {
        return;
    }
    d->code = alloc_strdup(code != NULL ? code : "");
    for (size_t i = 0; i < args.count && code == NULL; i++) {
        char *longer = alloc_printf("%s%s%.*s", d->code, i > 0 ? " " : "", VIEW_ARG(args.items[i]));
        free(d->code);
        d->code = longer;
    }
}

void control_deed_done(struct web_exchange *x, int code)
{
    struct deed *d = web_note(x);
    if (d != NULL) {
        d->outcome = code == 0 ? "ok" : "failed";
        d->error = code == 0 ? NULL : err_wire_name(code);
    }
}

const char *control_deed_who(const struct web_exchange *x)
{
    const struct deed *d = web_note(x);
    return d != NULL ? d->who : web_peer(x);
}
