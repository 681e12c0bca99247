/*
 * Parses the stdout of the programs of installers.h: lines "+ NAME VERSION" and "! KIND TEXT". They
 * run beside untrusted code, so everything else is ignored.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_REPLY_H
#define CLOISTER_SUPERVISOR_PACKAGES_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/view.h"
#include "supervisor/packages/packages.h"

#define PACKAGE_REPLY_LINE_MAX 1024 /* longer lines are ignored */

/* One package. The views borrow from the text. */
struct package_line {
    struct view name, version;
};

/* Takes the next package from the front of *rest; false at the end. */
bool package_reply_next(enum package_manager manager, struct view *rest, struct package_line *ret);

/* Finds the version of a package; false if it is not listed. */
bool package_reply_find(enum package_manager manager, struct view text, struct view name,
                        struct view *ret_version);

/* Finds the reason of a failure: its kind and the text after it; false if there is none. */
bool package_reply_failure(struct view text, struct view *ret_kind, struct view *ret_words);

#endif
