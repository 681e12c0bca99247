/*
 * This server's place on disk: the runtime directory, the instance inside it, its lock.
 *
 *     <top>/<instance>/lock            held for as long as we live
 *                      sandboxes/<id>/ one sandbox, private
 *                      shared/         what the root user of sandboxes has to be able to traverse
 *
 * Loop thread only. Makes a handful of directories and does not wait for anybody.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_INSTANCE_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct config;

struct instance {
    char *top;
    char *name;
    char *dir;       /* <top>/<name> */
    char *sandboxes; /* <dir>/sandboxes */
    char *shared;    /* <dir>/shared */
    int lock_fd;
    bool own; /* made for this process alone: goes with it */
};

/* Creates what is missing and takes the lock. Errors name the directory and what is wrong:
 * -ERR_CONFIG (not ours, open to others, in use by another server), -ERR_IO. */
int instance_open(const struct config *config, struct instance **ret, struct err *err) WARN_UNUSED;

/* Makes `sandbox`, a directory below i->sandboxes, and before that whatever else somebody has
 * removed meanwhile: cleaners of temporary directories do that to servers that live for long. The
 * lock is taken anew if it was removed. Errors as instance_open(). */
int instance_restore(struct instance *i, const char *sandbox, struct err *err) WARN_UNUSED;

/* Gives up the lock. An own instance is removed if no sandbox is left in it, else it stays for
 * the next server's sweep. NULL is fine. */
void instance_close(struct instance *i);

/* The directory that instance_open() would use as top, for people. Free with free(). */
char *instance_top(const struct config *config);

/* Is there a directory of the named instance of the configuration? Changes nothing. */
bool instance_exists(const struct config *config);

/* Whether `dir` is an instance (of this user), and whether it has a name with which a next server
 * may take it over. Does not touch its lock. */
bool instance_look(const char *dir, bool *ret_named) WARN_UNUSED;

/* Takes the lock of another instance if that instance is dead. Returns the descriptor that holds
 * it, or -1 if it lives, is not an instance, or is not ours. `dir` is its directory. */
int instance_claim(const char *dir);

/* Whether `fd` is the lock file that is in `dir` now. */
bool instance_holds(const char *dir, int fd);

/* Can an entry of `sandboxes` with this name be one of a sandbox? */
bool instance_is_sandbox_id(const char *name);

/* An installer's id begins with what no random id has, so that it is known without its record. */
#define INSTANCE_INSTALLER_MARK '0'
bool instance_is_installer_id(const char *name);

#endif
