/*
 * The directories of --share: what an operator may write, and what it means on this host.
 *
 * Thread: any. shares_settle() and shares_warn() look at the directories, the rest at texts only.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_SHARE_H
#define CLOISTER_SUPERVISOR_BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"
#include "proto/limits.h"

struct share {
    struct view dir;  /* absolute; after shares_settle() without symbolic links and ".." */
    struct view name; /* it appears at /shared/name */
    bool writable;
    bool on_request; /* only sandboxes that ask for it have it */
};

struct shares {
    struct share of[LIMIT_SHARES]; /* borrowed from the text */
    size_t count;
};

/* Reads "DIR[=NAME][:ro|:rw][:ask]", several separated by commas. -ERR_CONFIG. */
int shares_read(const char *text, struct shares *ret, struct err *err) WARN_UNUSED;

/* Replaces *text, which the caller owns, by one with the paths that the directories really have.
 * -ERR_CONFIG: one is none, gone, "/" or a symbolic link, two have one name, or code could replace
 * one by way of another. */
int shares_settle(char **text, struct err *err) WARN_UNUSED;

/* Of a text that shares_settle() has accepted. */
struct shares shares_of(const char *text);

/* Warns in the log of directories that hold keys, as a home does. The text is a settled one. */
void shares_warn(const char *text);

/* NULL if there is none of that name. */
const struct share *share_find(const struct shares *shares, struct view name);

#endif
