/*
 * What was asked for and means nothing: said, rather than left without effect in silence.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_ASKED_H
#define CLOISTER_SUPERVISOR_BASE_ASKED_H

#include "common/err.h"
#include "supervisor/base/config.h"

struct option;

/* Whether somebody wants what the default of the option does not give. A flag that is off asks for
 * nothing. */
bool asked_for_option(const struct config *c, const struct option *o);

/* Refuses what says who may use a server over HTTP, or how, if there is no --http. -ERR_CONFIG. */
int asked_check_http(const struct config *c, struct err *err) WARN_UNUSED;

/* Logs the variables CLOISTER_… of an environment that are no options; NULL ends the list. */
void asked_warn_variables(char *const *environment);

#endif
