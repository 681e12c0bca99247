/*
 * What the programs of installers.h say on stdout: lines "+ NAME VERSION" and "! KIND TEXT". They
 * run where foreign code runs, so whatever else comes is not there.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_REPLY_H
#define CLOISTER_SUPERVISOR_PACKAGES_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/view.h"
#include "supervisor/packages/packages.h"

#define PACKAGE_REPLY_LINE_MAX 1024 /* longer ones are not read */

/* One package. The views borrow from the text. */
struct package_line {
    struct view name, version;
};

/* Takes the next package off the front of *rest; false when there is none any more. */
bool package_reply_next(enum package_manager manager, struct view *rest, struct package_line *ret);

/* The version of a package; false if it is not among them. */
bool package_reply_find(enum package_manager manager, struct view text, struct view name,
                        struct view *ret_version);

/* Why it failed: the kind and the words behind it; false if it does not say so. */
bool package_reply_failure(struct view text, struct view *ret_kind, struct view *ret_words);

#endif
