/*
 * A file .env, from which servers of this kind take their settings: lines NAME=VALUE, perhaps
 * behind "export", with the value in quotes or not, and comments behind #.
 *
 * Thread: any. Nothing blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_DOTENV_H
#define CLOISTER_SUPERVISOR_BASE_DOTENV_H

#include <stdbool.h>

#include "common/view.h"

#define DOTENV_MAX_BYTES  65536
#define DOTENV_VALUE_SIZE 128 /* with its NUL */

/* The last value of a name. False, and nothing written: it has none, or the last is too long. */
bool dotenv_find(struct view text, const char *name, char ret[DOTENV_VALUE_SIZE]);

#endif
