/*
 * Where packages come from, as the operator configured it, and where installers are let out to for
 * that.
 *
 * Thread: any. Nothing blocks; no name is looked up.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_SOURCES_H
#define CLOISTER_SUPERVISOR_BASE_SOURCES_H

#include "common/err.h"
#include "common/view.h"
#include "supervisor/base/config.h"

/* For a door of proto/messages.def: OPEN. All owned. */
struct sources {
    struct view_list places;  /* two texts each: "host:port", "own" or "public" */
    char *proxy, *proxy_auth; /* NULL if there is none */
};

/* -ERR_CONFIG, with the option and the reason, for what is no URL or no host. */
int sources_check(const struct config *c, struct err *err) WARN_UNUSED;

/* Of a configuration that has been checked: for pip, or else for npm. */
void sources_init(struct sources *s, const struct config *c, bool pip);
void sources_finish(struct sources *s);

#endif
