/*
 * Whether a version that is installed is one that a requirement asks for.
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_SPECIFIERS_H
#define CLOISTER_SUPERVISOR_PACKAGES_SPECIFIERS_H

#include <stdbool.h>

#include "common/view.h"

/* Whether `version` fits all specifiers of a pip requirement that was checked, such as
 * six>=1.10,<2. Without specifiers every version fits. Text that is no version of PEP 440 is
 * compared as text, and is neither before nor behind another. */
bool package_version_fits(const char *requirement, struct view version);

#endif
