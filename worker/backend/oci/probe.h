/*
 * Tries a runtime with a trial container that has the full configuration and in which the agent
 * checks itself, in weaker and weaker modes until one works.
 *
 * Thread: the loop's. Nothing blocks. Far below a second where the first mode works; a few
 * seconds at the very most.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_PROBE_H
#define CLOISTER_WORKER_BACKEND_OCI_PROBE_H

#include "worker/backend/backend.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/oci/host/host.h"
#include "worker/backend/task.h"

struct oci_probe;

/* Owned by the probe and valid during the callback. */
struct oci_probe_result {
    bool usable;
    bool left_behind; /* a trial container could not be removed; not usable then */
    bool lasts;       /* the strongest mode of the ladder passed, and nothing failed before */
    struct oci_mode mode;
    const char *runtime, *version, *flaws, *reason, *hint;
    const struct oci_notes *notes;
    const struct oci_host *host;
};

typedef void (*oci_probe_fn)(void *arg, const struct oci_probe_result *result);

/* spec->runtime "" tries the usual runtimes in turn; spec->image is ignored. Everything is made
 * below "<spec->dir>/probe" and gone when fn is called, unless left_behind, and except for the
 * shared skeleton. fn is called once; the object is gone then. */
struct oci_probe *oci_probe_start(struct tasks *tasks, const struct backend_spec *spec,
                                  oci_probe_fn fn, void *arg);

/* Aborts; fn follows with a result that is not usable. */
void oci_probe_cancel(struct oci_probe *p);

/* For an owner that closes before fn was called, after tasks_close(). NULL is fine. */
void oci_probe_free(struct oci_probe *p);

/* The files of the trial container, for cleaning up after a worker that died during a probe. The
 * caller finishes *ret_box. */
void oci_probe_box(struct oci_box *ret_box, const char *dir, const char *id);

/* The modes worth trying on a host, strongest first; returns their number. */
#define OCI_LADDER_MAX 36
size_t oci_ladder(const struct oci_host *host, struct oci_mode ret_modes[OCI_LADDER_MAX]);

#endif
