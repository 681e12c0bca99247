/*
 * Streams to the agent of a container whose runtime passes no descriptors on (gVisor's runsc): the
 * first is the container's stdin and stdout, later ones are those of a relay that the runtime
 * starts in it.
 *
 * Thread: the loop's. Nothing blocks. Callbacks never run inside the call that takes them, and
 * never after the tasks are closed.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_RELAY_H
#define CLOISTER_WORKER_BACKEND_OCI_RELAY_H

#include "common/err.h"
#include "worker/backend/mode.h"
#include "worker/backend/oci/box.h"
#include "worker/backend/task.h"

#define OCI_RELAY_SOCKET_DIR "/run/cloister" /* in the sandbox, tmpfs, 0700 */
#define OCI_RELAY_SOCKET     OCI_RELAY_SOCKET_DIR "/agent.sock"

/* Such a runtime takes over the interfaces that it finds when it starts, and cannot hold an end of
 * the helper's tether (net.h). */
#define OCI_RELAY_NO_NETWORK                                                                       \
    "this runtime gives a sandbox a kernel of its own, into which no interface can be put later"
#define OCI_RELAY_NETWORK_HINT                                                                     \
    "installers need none; for sandboxes with a network use runc or crun, or this runtime on a "   \
    "container engine (--backend docker)"

/* Makes the two ends of a stream, which the caller owns (both close-on-exec): ours is
 * non-blocking, theirs becomes stdin and stdout of a relay. */
int oci_relay_pair(int *ret_ours, int *ret_theirs, struct err *err) WARN_UNUSED;

/* fd is our end, non-blocking, close-on-exec and owned by the receiver; -1 when rc < 0. */
typedef void (*oci_relay_fn)(void *arg, int rc, int fd, const struct err *err);

/* Waits until the relay at the other end of `ours` says that it is joined to the agent. Takes the
 * descriptor over. */
void oci_relay_greet(struct tasks *tasks, int ours, oci_relay_fn fn, void *arg);

/* Starts a relay in a running container and waits for it; -ERR_ENGINE in the callback quotes the
 * runtime. If this fails (-ERR_IO), no callback follows. */
int oci_relay_exec(struct tasks *tasks, const struct oci_box *box, const char *runtime,
                   const struct oci_mode *mode, oci_relay_fn fn, void *arg,
                   struct err *err) WARN_UNUSED;

#endif
