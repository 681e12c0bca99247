/*
 * Requests to one host of the service, the control plane or the daemon of a sandbox: JSON in both
 * directions, the host's headers with each, errors with a code of ERR_LIST in the host's own words,
 * and patience where it asks for it.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks as in http_client.h.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_HOST_H
#define CLOISTER_WORKER_BACKEND_E2B_HOST_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/io/http_client.h"
#include "worker/backend/e2b/words.h"
#include "worker/backend/task.h"

#define E2B_CALL_MS     15000
#define E2B_HEADERS_MAX 6
#define E2B_WORDS_MAX   300

struct e2b_host;
struct e2b_call;

/* The answer. Borrowed during the callback. */
struct e2b_reply {
    int status;           /* of HTTP; 0 if there was no answer */
    const cJSON *json;    /* the body, if it is JSON; else NULL */
    struct view next;     /* X-Next-Token: there are more pages; else empty */
    uint64_t patience_ms; /* Retry-After: how long to wait before it is tried again; 0: none */
};

/* rc is 0 for a status of 2xx, else -ERR_*: -ERR_GONE if the host itself says that there is no such
 * thing, -ERR_INVALID if it calls the request bad, -ERR_ENGINE for the rest. */
typedef void (*e2b_reply_fn)(void *arg, int rc, const struct e2b_reply *reply,
                             const struct err *err);

struct e2b_request {
    const char *method;
    const char *path;         /* from the slash on; copied */
    const char *json;         /* body; copied; NULL: `bytes` */
    struct view bytes;        /* body, which must live until the end */
    const char *content_type; /* of `bytes`; static */
    uint64_t total_ms;        /* 0: E2B_CALL_MS */
    bool once;                /* not to be done twice: repeated only if it was refused unseen */
    /* The same for services that do not know that path (404, 405); copied; NULL: there is none. */
    const char *old_path, *old_json;
};

/* `what` is for errors: "the service", "the sandbox's daemon" (static). `key` is taken out of
 * whatever is quoted (copied). `tasks` must be closed before the host. -ERR_CONFIG, -ERR_ENGINE. */
int e2b_host_create(struct tasks *tasks, const char *what, const char *url, const char *key,
                    struct e2b_host **ret, struct err *err) WARN_UNUSED;

/* Drops all calls. */
void e2b_host_close(struct e2b_host *h, void (*closed)(void *arg), void *arg);

/* Sets the n-th header of all requests from now on (copied); NULL: none. */
void e2b_host_header(struct e2b_host *h, size_t n, const char *line);

/* Another secret that is taken out (copied); NULL: none. */
void e2b_host_token(struct e2b_host *h, const char *token);
const struct e2b_secrets *e2b_host_secrets(const struct e2b_host *h);

struct tasks *e2b_host_tasks(const struct e2b_host *h);
const char *e2b_host_url(const struct e2b_host *h);

/* Valid until `done`. */
struct e2b_call *e2b_host_call(struct e2b_host *h, const struct e2b_request *request,
                               e2b_reply_fn done, void *arg);
void e2b_host_cancel(struct e2b_call *call);

/* A request whose answer is no JSON but a stream: http_send() with the host's headers and
 * `headers`, of which there are at most two. */
struct http_call *e2b_host_stream(struct e2b_host *h, struct http_request *request,
                                  const char *const *headers, http_done_fn done, void *arg);

/* What a refusal says, as an error. `json` may be NULL, then `body` is quoted. */
int e2b_host_refused(const struct e2b_host *h, int status, const cJSON *json, struct view body,
                     const char *what, struct err *err);

#endif
