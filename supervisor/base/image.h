/*
 * Names of sandbox images: what is a well-formed one, and which ones clients may choose.
 *
 * What an image is depends on the backend: for docker a reference that its engine knows or fetches
 * ("python:3.13-slim"), for oci a directory of this host.
 *
 * Thread: any. Nothing here blocks or allocates.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_IMAGE_H
#define CLOISTER_SUPERVISOR_BASE_IMAGE_H

#include <stdbool.h>

#include "common/err.h"

/* What sandboxes on docker are made of unless somebody says otherwise: the official image, in full,
 * so that Podman asks nobody which registry is meant; slim, since the agent needs nothing but a
 * shell and python3 from it. */
#define IMAGE_DOCKER_DEFAULT "docker.io/library/python:3.13-slim"

#define IMAGE_REFERENCE_MAX 512  /* bytes of a reference */
#define IMAGE_PATTERNS_MAX  4096 /* bytes of a list of patterns: clients get to see it */

/* [host[:port]/]repository[:tag][@digest], the repository in lower case. -ERR_INVALID says what is
 * wrong. */
int image_check_reference(const char *text, struct err *err) WARN_UNUSED;

/* "/..." or "./..." or "../...": a directory, never a reference. */
bool image_is_path(const char *text);

/* A list of patterns as image_is_allowed() takes it. -ERR_CONFIG. */
int image_check_patterns(const char *patterns, struct err *err) WARN_UNUSED;

/* `patterns` are separated by commas; "" allows everything. In a pattern "*" stands for any
 * characters but "/", and at the end behind a "/" for those as well. Short names are those of
 * Docker Hub, and a name without a tag has the tag "latest", in patterns as in references:
 * "python:*" is every tag of the official image however it is written, "ghcr.io/acme/" and a star
 * all of acme. */
bool image_is_allowed(const char *patterns, const char *reference);

#endif
