/*
 * What packages may take on this host, held from outside of the installers that write them.
 *
 * Thread: the loop's. Nothing blocks. `bytes` is always packages_bytes of a spec (backend.h).
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_PACKAGES_LIMIT_H
#define CLOISTER_WORKER_BACKEND_OCI_PACKAGES_LIMIT_H

#include <stdint.h>

#include "common/err.h"
#include "worker/backend/mode.h"
#include "worker/backend/task.h"

/* Most that may be there while an installer works: what both managers keep, and what one of them
 * fetches and makes of it before it is counted (supervisor/packages/installers). */
uint64_t oci_packages_peak(uint64_t bytes);

/* Appends how the limit is held, if there is one. */
void oci_packages_note(uint64_t bytes, struct oci_notes *notes);

/* Watches a tree while an installer works in it. */
struct oci_packages_watch;

/* Called once, when the installer has to be stopped; `why` is for its client. */
typedef void (*oci_packages_watch_fn)(void *arg, const struct err *why);

struct oci_packages_watch *oci_packages_watch_start(struct tasks *tasks, const char *tree,
                                                    uint64_t bytes, oci_packages_watch_fn fn,
                                                    void *arg);

/* fn is not called any more. NULL is fine. */
void oci_packages_watch_end(struct oci_packages_watch *w);

/* After tasks_close(). NULL is fine. */
void oci_packages_watch_free(struct oci_packages_watch *w);

/* When the installer has ended: removes what a manager has there, if that is more than it may keep
 * or cannot be counted. fn is called once, unless the tasks are closed before. */
struct oci_packages_trim;
typedef void (*oci_packages_trim_fn)(void *arg);
struct oci_packages_trim *oci_packages_trim_start(struct tasks *tasks, const char *tree,
                                                  uint64_t bytes, const char *agent_path,
                                                  oci_packages_trim_fn fn, void *arg);

/* For an owner that closes before fn was called, after tasks_close(). NULL is fine. */
void oci_packages_trim_free(struct oci_packages_trim *t);

#endif
