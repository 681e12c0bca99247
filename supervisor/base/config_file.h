/*
 * The configuration file: options in YAML, named as on the command line without the dashes.
 *
 *   memory-mb: 1024
 *   http: 127.0.0.1:8080
 *   share: [/data, /models=weights:ro]
 *
 * /etc/cloister/cloister.conf is read first, then $XDG_CONFIG_HOME/cloister/cloister.conf (usually
 * ~/.config/...), whose options win; or one file that is named instead of both.
 *
 * Thread: any. Reading blocks for as long as a small file takes; the first file loads libyaml.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_CONFIG_FILE_H
#define CLOISTER_SUPERVISOR_BASE_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/view.h"

struct option;

#define CONFIG_FILE_NONE   "none" /* --config: read no file */
#define CONFIG_FILES_MAX   2
#define CONFIG_FILE_OPTION "config"

/* Takes a value; several of one list come one after the other, the first with `begins`. NULL: an
 * empty list. */
typedef int (*config_file_fn)(void *arg, const struct option *o, const char *value, bool begins,
                              struct err *err);

/* The files that are read if `named` is what --config says ("": nothing); those that are not there
 * are left out unless they are named. Returns their number; the caller frees the paths. */
size_t config_files(const char *named, char *ret[CONFIG_FILES_MAX]);

/* Reads one. -ERR_CONFIG for a key that is no option, a value of the wrong kind, or a file that
 * others may write: the text names file, line and key. -ERR_IO if it cannot be read. */
int config_file_read(const char *path, config_file_fn take, void *arg, struct err *err) WARN_UNUSED;

/* The same for a text, without a path in front of the error. */
int config_file_parse(struct view text, config_file_fn take, void *arg,
                      struct err *err) WARN_UNUSED;

#endif
