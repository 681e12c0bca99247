/*
 * Requests to one Docker engine: versioned paths, JSON in both directions, and errors with a code
 * of ERR_LIST that quote the engine.
 *
 * Thread: the loop thread. Nothing blocks. Callbacks as in http_client.h.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_API_H
#define CLOISTER_WORKER_BACKEND_DOCKER_API_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/io/http_client.h"
#include "worker/backend/docker/endpoint.h"

/* Timeout of an ordinary request. Starting a container is the slowest; with swapping or a cold
 * image it takes seconds. */
#define DOCKER_CALL_MS 30000

struct docker_api;
struct docker_call;

/* The answer. Borrowed during the callback. */
struct docker_reply {
    int status;                       /* of HTTP; 0 if there was no answer */
    const cJSON *json;                /* the body, if it is JSON; else NULL */
    const struct http_response *http; /* NULL if there was no answer */
};

/* rc is 0 for a status of 2xx or 304, else -ERR_*: -ERR_GONE if the container is not there or not
 * running, -ERR_IMAGE if the image is not there, -ERR_INVALID if the engine calls the request bad,
 * -ERR_ENGINE for the rest. reply->status tells more. */
typedef void (*docker_reply_fn)(void *arg, int rc, const struct docker_reply *reply,
                                const struct err *err);

struct docker_request {
    const char *method;
    const char *path;         /* path after the version, from the slash on; copied */
    const char *json;         /* body; copied; NULL: none */
    struct view body;         /* instead of json; must live until the callback */
    http_fill_fn fill;        /* instead of both; gets `arg` */
    const char *content_type; /* of body, or what fill gives */
    bool unversioned;
    uint64_t total_ms;    /* 0: DOCKER_CALL_MS */
    uint64_t silence_ms;  /* with it total_ms 0 means no total timeout */
    http_data_fn on_data; /* gets `arg` */
};

int docker_api_create(uv_loop_t *loop, const struct docker_endpoint *endpoint,
                      struct docker_api **ret, struct err *err) WARN_UNUSED;

/* Drops all calls. */
void docker_api_close(struct docker_api *api, void (*closed)(void *arg), void *arg);

/* Makes paths begin with /v1.MINOR; before that, the engine uses its newest version. */
void docker_api_set_version(struct docker_api *api, unsigned minor);

/* Valid until `done`. */
struct docker_call *docker_api_call(struct docker_api *api, const struct docker_request *request,
                                    docker_reply_fn done, void *arg);
void docker_api_cancel(struct docker_call *call);

/* Upgrades POST `path` (copied) with a JSON body (copied, or NULL) to a stream. tunnel is NULL when
 * rc < 0, owned by the receiver otherwise. */
typedef void (*docker_tunnel_fn)(void *arg, int rc, struct http_tunnel *tunnel,
                                 const struct err *err);
struct docker_call *docker_api_upgrade(struct docker_api *api, const char *path, const char *json,
                                       docker_tunnel_fn done, void *arg);

#endif
