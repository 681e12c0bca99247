/*
 * This server's place on disk: the runtime directory, the instance inside it, and its lock.
 *
 *     <top>/.trial-<n>                 what trials have found (engine/kept.c)
 *     <top>/<instance>/lock            held for as long as we live
 *                      sandboxes/<id>/ one sandbox, private
 *                      shared/         what the root user of sandboxes has to be able to traverse
 *
 * Loop thread only. Blocks for a handful of directory operations, never for a lock.
 */
#ifndef CLOISTER_SUPERVISOR_FLEET_HOST_INSTANCE_H
#define CLOISTER_SUPERVISOR_FLEET_HOST_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "supervisor/base/config.h"

/* Directories of sandboxes in one instance: those that a server may have open, as many that failed
 * and are kept, and some that are being removed, or are of installers and trials. */
#define INSTANCE_SANDBOXES_MAX (2 * CONFIG_SANDBOXES_MOST + 1024)

struct instance {
    char *top;
    char *name;
    char *dir;       /* <top>/<name> */
    char *sandboxes; /* <dir>/sandboxes */
    char *shared;    /* <dir>/shared */
    int lock_fd;
    bool own; /* made for this process alone, and removed with it */
};

/* Creates missing directories and takes the lock. Errors name the directory and the reason:
 * -ERR_CONFIG (not ours, open to others, in use by another server), -ERR_IO. */
int instance_open(const struct config *config, struct instance **ret, struct err *err) WARN_UNUSED;

/* Makes `sandbox`, a directory below i->sandboxes, and first any parent that was removed meanwhile:
 * cleaners of temporary directories remove those of long-lived servers. Takes the lock again if its
 * file was removed. Errors as instance_open(). */
int instance_restore(struct instance *i, const char *sandbox, struct err *err) WARN_UNUSED;

/* Releases the lock. Our own instance is removed if it has no sandbox left; otherwise the next
 * server sweeps it. NULL is fine. */
void instance_close(struct instance *i);

/* The top directory that instance_open() would use, for messages. The caller frees it. */
char *instance_top(const struct config *config);

/* Whether the configured named instance has a directory. Changes nothing. */
bool instance_exists(const struct config *config);

/* Whether `dir` is an instance (of this user), and whether it has a name with which a next server
 * may take it over. Does not take its lock. */
bool instance_look(const char *dir, bool *ret_named) WARN_UNUSED;

/* Takes the lock of another instance if that instance is dead. Returns the locked descriptor, or -1
 * if the instance is alive, invalid, or not ours. `dir` is its directory. */
int instance_claim(const char *dir);

/* Whether `fd` is the lock file that `dir` has now. */
bool instance_holds(const char *dir, int fd);

/* Whether this name of an entry in `sandboxes` can be the id of a sandbox. */
bool instance_is_sandbox_id(const char *name);

/* An installer's id begins with this character, which no other id does, so it is recognised without
 * its record. */
#define INSTANCE_INSTALLER_MARK '0'
bool instance_is_installer_id(const char *name);

#endif
