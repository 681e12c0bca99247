/*
 * What kind of file a name promises, and which pictures clients can show.
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_LINKS_MIME_H
#define CLOISTER_SUPERVISOR_LINKS_MIME_H

#include "common/view.h"

/* By the ending of the name; NULL if it says nothing. Fixed text. */
const char *mime_of_name(const char *path);

/* Of a picture by its first bytes; NULL if it is none that clients show. Fixed text. */
const char *mime_of_image(struct view v);

#endif
