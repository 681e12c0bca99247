/*
 * Names of sandbox images: which are valid, and which ones clients may choose.
 *
 * What an image is depends on the backend: for docker a reference that its engine has or pulls
 * ("python:3.13-slim"), for oci a directory of this host.
 *
 * Thread: any. Nothing here blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_IMAGE_H
#define CLOISTER_SUPERVISOR_BASE_IMAGE_H

#include <stdbool.h>

#include "common/backends.h"
#include "common/err.h"

#define IMAGE_REFERENCE_MAX 512  /* bytes of a reference */
#define IMAGE_PATTERNS_MAX  4096 /* bytes of a list of patterns, which clients can see */

/* [host[:port]/]repository[:tag][@digest], the repository in lower case. The text of -ERR_INVALID
 * says what is wrong. */
int image_check_reference(const char *text, struct err *err) WARN_UNUSED;

/* "/..." or "./..." or "../...": a directory, never a reference. */
bool image_is_path(const char *text);

/* Checks a list of patterns for image_is_allowed(). -ERR_CONFIG. */
int image_check_patterns(const char *patterns, struct err *err) WARN_UNUSED;

/* `patterns` are separated by commas; "" allows everything. In a pattern "*" matches any characters
 * but "/"; at the end after a "/" it matches those, too. Short names are those of Docker Hub, and a
 * name without a tag has the tag "latest", in patterns as in references: "python:*" matches every
 * tag of the official image in any spelling, "ghcr.io/acme/" and a star all images of acme. */
bool image_is_allowed(const char *patterns, const char *reference);

#endif
