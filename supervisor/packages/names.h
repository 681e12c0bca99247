/*
 * Checks what clients may pass to a package manager. A requirement becomes one argument of pip or
 * npm, and both accept many kinds of arguments: options, files, URLs. So we accept a name with a
 * version or range, of few characters, and nothing else.
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_PACKAGES_NAMES_H
#define CLOISTER_SUPERVISOR_PACKAGES_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"
#include "supervisor/packages/packages.h"

#define PACKAGE_REQUIREMENT_MAX 256 /* bytes */
#define PACKAGE_NAME_SIZE       216 /* with its NUL; npm allows 214 bytes */
#define PACKAGE_VERSION_SIZE    65

/* For pip NAME[EXTRAS]SPECIFIERS, for npm [@SCOPE/]NAME[@VERSION or RANGE]; no spaces.
 * -ERR_INVALID says what is wrong with anything else. */
int package_requirement_check(enum package_manager manager, const char *text,
                              struct err *err) WARN_UNUSED;

/* The name at the start of a requirement that was checked. */
struct view package_requirement_name(enum package_manager manager, const char *text);

/* Whether the text is a name, or a version, and nothing more. */
bool package_is_name(enum package_manager manager, struct view text);
bool package_is_version(struct view text);

/* Writes the normal form of a name: to pip, Foo_Bar and foo-bar are the same. False, and nothing
 * written, if it does not fit. */
bool package_name_normal(enum package_manager manager, struct view name,
                         char ret[PACKAGE_NAME_SIZE]);

#endif
