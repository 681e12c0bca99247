/*
 * What would make this host apply a limit that it does not: for people who ask `cloister doctor`.
 *
 * Thread: any. Looks for programs in PATH; nothing else blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_OCI_REMEDIES_H
#define CLOISTER_WORKER_BACKEND_OCI_REMEDIES_H

#include "worker/backend/oci/host/host.h"

/* `note` is an entry of the list of limits that are not applied, "name: reason". NULL if nothing is
 * known to help. */
const char *oci_remedy(const char *note, const struct oci_host *host);

#endif
