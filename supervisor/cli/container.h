/*
 * Whether we run in a container, and what would let one have sandboxes.
 */
#ifndef CLOISTER_SUPERVISOR_CLI_CONTAINER_H
#define CLOISTER_SUPERVISOR_CLI_CONTAINER_H

#include <stdbool.h>
#include <stdio.h>

struct config;

/* What shows that we are in a container, for people ("/.dockerenv"); NULL if nothing does. `root`
 * is "" but in tests. Reads small files. */
const char *container_sign(const char *root);

/* Writes what works in a container, as far as the backends in question would be helped, and returns
 * true; false and nothing if this is no container or nothing here would help. */
bool container_advise(const char *root, const struct config *config, FILE *out);

#endif
