/*
 * File types by name, and types of pictures that clients can show.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_LINKS_MIME_H
#define CLOISTER_SUPERVISOR_LINKS_MIME_H

#include "common/view.h"

/* The type for this file extension; NULL if unknown. A string literal. */
const char *mime_of_name(const char *path);

/* The type of a picture by its first bytes; NULL if clients cannot show it. A string literal. */
const char *mime_of_image(struct view v);

#endif
