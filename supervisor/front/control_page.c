/*
 * Whoever may use tools may steer what he owns, by them. This API is about everybody's, so it takes
 * a word in the file of tokens. Without tokens there is one principal, who sees everything anyway.
 *
 * Pages of other origins were refused before (web_auth_admit()).
 */
#include "supervisor/front/control_page.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/base/principal.h"
#include "supervisor/control/control.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/web/auth/auth.h"
#include "supervisor/web/http/exchange.h"

#define PREFIX "/api"

/* One request whose token is being checked. */
struct knock {
    struct control *control;
    struct web_exchange *x;
};

bool control_page_has(const char *path)
{
    return strncmp(path, PREFIX "/", strlen(PREFIX "/")) == 0;
}

static const char refusal[] =
    "{\"error\":{\"code\":\"forbidden\",\"message\":\"this is about the sandboxes of all "
    "principals\",\"hint\":\"admin=yes in the line of this principal in the file of tokens allows "
    "it\"}}";

static void on_knock_checked(void *arg, struct principal *p)
{
    struct knock *knock = arg;
    if (p != NULL && p->admin) {
        control_handle(knock->control, knock->x, web_path(knock->x) + strlen(PREFIX), p->name);
    } else if (p != NULL) {
        metrics_count(METRIC_REJECTED, METRIC_REASON_FORBIDDEN);
        web_respond(knock->x, 403, "application/json", view_of(refusal));
    }
    free(knock);
}

void control_page_handle(struct web_auth *auth, struct control *control, struct web_exchange *x)
{
    struct knock *knock = alloc_one(struct knock);
    knock->control = control;
    knock->x = x;
    web_auth_check(auth, x, on_knock_checked, knock);
}
