/*
 * The daemon of one sandbox: files, and processes that it starts.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_ENVD_H
#define CLOISTER_WORKER_BACKEND_E2B_ENVD_H

#include "common/err.h"
#include "worker/backend/e2b/box.h"
#include "worker/backend/e2b/host.h"
#include "worker/backend/e2b/service.h"

/* A host for the daemon of `box`. Everything is done as root. */
int e2b_envd_create(struct tasks *tasks, const struct e2b_service *service,
                    const struct e2b_box *box, struct e2b_host **ret, struct err *err) WARN_UNUSED;

/* Another token from now on; NULL: none. */
void e2b_envd_token(struct e2b_host *envd, const char *token);

/* Whether there is a file of that name: 404 if not. */
struct e2b_call *e2b_envd_stat(struct e2b_host *envd, const char *path, e2b_reply_fn done,
                               void *arg);

/* Writes a file; `bytes` must live until the end. */
struct e2b_call *e2b_envd_upload(struct e2b_host *envd, const char *path, struct view bytes,
                                 e2b_reply_fn done, void *arg);

/* Sends bytes to the standard input of a process, once. They are copied. */
struct e2b_call *e2b_envd_input(struct e2b_host *envd, uint64_t pid, struct view bytes,
                                e2b_reply_fn done, void *arg);

/* Lists the processes that the daemon has started and that have not ended. */
struct e2b_call *e2b_envd_list(struct e2b_host *envd, e2b_reply_fn done, void *arg);

/* Kills a process. Nobody is told. */
void e2b_envd_kill(struct e2b_host *envd, uint64_t pid);

#endif
