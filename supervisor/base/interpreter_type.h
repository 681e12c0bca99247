/*
 * INTERPRETER_TYPE with --compat code-sandbox: in the server that the profile stands for it chooses
 * the backend, e2b or firecracker, and with it the form of results.
 *
 * Thread: the first one, before there is a second, since the environment may be changed. Reads a
 * small file.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_INTERPRETER_TYPE_H
#define CLOISTER_SUPERVISOR_BASE_INTERPRETER_TYPE_H

#include <stdbool.h>

#include "common/err.h"
#include "supervisor/base/config.h"

#define INTERPRETER_TYPE "INTERPRETER_TYPE"

/* What it is where nobody says it. */
const char *interpreter_type_default(void);

/* Whether it has a value of that server's, and the profile is on. */
bool interpreter_type_is_foreign(const struct config *c);

/* Settles what it means once all options are read: `chosen` if one of ours says the backend. The
 * backend e2b where there is a key, else what sandboxes are made on without it, which is logged.
 * INTERPRETER_TYPE and the key are taken from a file .env of the working directory, too, into the
 * environment. Does nothing without the profile. -ERR_CONFIG for a wrong value in that file. */
int interpreter_type_settle(struct config *c, bool chosen, struct err *err) WARN_UNUSED;

#endif
