/*
 * `cloister-agent share`: runs a command on the host, an OCI runtime, in a mount namespace of its
 * own in which directories of the host are mounted as a sandbox is to see them.
 *
 *   share --at DIR --uid N --gid N --notes FILE (--ro NAME=PATH | --rw NAME=PATH)… -- COMMAND…
 *
 * Each directory is mounted at DIR/NAME, without the mounts below it, nosuid and nodev. Its files
 * of the owner of PATH appear as files of `uid` and `gid`, and what these write there belongs to
 * the owner. FILE gets a line for each read-only directory whose ids could not be mapped; with --rw
 * that is an error. Root only.
 */
#ifndef CLOISTER_WORKER_AGENT_PROCESS_SHARE_H
#define CLOISTER_WORKER_AGENT_PROCESS_SHARE_H

#include "common/err.h"

/* `argv` begins behind the word "share". Becomes the command; returns only with an exit code, and
 * err says why. Blocks. */
int share_run(int argc, char **argv, struct err *err);

#endif
