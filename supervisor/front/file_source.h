/*
 * The files behind links: connects the HTTP side (web/files/endpoint.h) with sandboxes and links.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_FILE_SOURCE_H
#define CLOISTER_SUPERVISOR_FRONT_FILE_SOURCE_H

#include <stdbool.h>

#include "supervisor/web/files/endpoint.h"

struct config;
struct file_source;
struct fleet;
struct links;

/* Everything is borrowed. */
struct file_source *file_source_create(struct fleet *fleet, struct links *links,
                                       const struct config *config);
void file_source_destroy(struct file_source *s); /* NULL is fine */

/* The table for files_endpoint_create(). */
struct files_source file_source_table(struct file_source *s);

#endif
