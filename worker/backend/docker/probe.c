/*
 * Each place is asked for ping, which tells the version of the API, and info, which tells what the
 * engine can enforce. The first place that answers both is used. The timeout of a ping is one
 * second, because another place may do as well, and five for a configured engine. Info may take
 * longer.
 *
 * The answer of each place is kept for people, who otherwise cannot see why a running engine is not
 * used.
 *
 * An engine without the image that is wanted has to fetch it, and whether it can is known to its
 * registry only. The engine asks that without fetching anything, but waits for a registry that is
 * silent for longer than anybody would, so we give up first. Podman cannot be asked. None of that
 * makes an engine unusable: the doubt is reported, and counts where there is another backend.
 */
#include "worker/backend/docker/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/log.h"
#include "worker/backend/docker/discovery.h"
#include "worker/backend/docker/end.h"
#include "worker/backend/docker/spec.h"

_Static_assert(DOCKER_ENDPOINTS_MAX <= BACKEND_TRIED_MAX, "all places can be told");

#define LOOK_MS  1000
#define NAMED_MS 5000

#define REGISTRY_MS 3000

struct docker_probe {
    uv_loop_t *loop;
    uv_timer_t kick; /* the first step, a loop turn after the call */
    struct docker_discovery places;
    size_t next;
    char *runtime, *image;
    bool pull, sweep;
    struct backend_limits limits;
    char *io_device;
    uint64_t packages_bytes;
    char *answers[DOCKER_ENDPOINTS_MAX]; /* of the places, as far as they were tried */
    struct docker_api *api;              /* of the place that is being tried */
    struct docker_sweep *sweeping;
    struct docker_engine engine;
    char version[128];
    char reason[2048];
    char *doubt; /* NULL: none */
    char *unapplied[BACKEND_UNAPPLIED_MAX];
    size_t unapplied_count;
    size_t open; /* handles and clients that are still on the loop */
    docker_probe_fn fn;
    void *arg;
    void (*closed)(void *arg);
    void *closed_arg;
};

static void try_next(struct docker_probe *p);

static void free_docker_probe(struct docker_probe *p)
{
    for (size_t i = 0; i < DOCKER_ENDPOINTS_MAX; i++) {
        free(p->answers[i]);
    }
    for (size_t i = 0; i < p->unapplied_count; i++) {
        free(p->unapplied[i]);
    }
    docker_discovery_finish(&p->places);
    free(p->runtime);
    free(p->image);
    free(p->io_device);
    free(p->doubt);
    free(p);
}

static void report_docker_probe(struct docker_probe *p)
{
    struct docker_probe_result result = {
        .probe =
            {
                .usable = p->api != NULL,
                .runtime = p->runtime,
                .version = p->version,
                .reason = p->api != NULL ? "" : p->reason,
                .doubt = p->api != NULL ? p->doubt : NULL,
                .mode = p->api != NULL ? docker_engine_pack(&p->engine) : 0,
                .unapplied_count = p->unapplied_count,
            },
        .engine = p->engine,
        .api = p->api,
    };
    for (size_t i = 0; i < p->unapplied_count; i++) {
        result.probe.unapplied[i] = p->unapplied[i];
        result.probe.remedies[i] = docker_engine_remedy(&p->engine, p->unapplied[i]);
    }
    if (p->api != NULL) { /* the last one that was tried */
        result.probe.place = docker_endpoint_place(&p->places.items[p->next].endpoint);
    }
    for (size_t i = 0; i < p->places.count && p->answers[i] != NULL; i++) {
        const struct docker_place *place = &p->places.items[i];
        struct place at = {.kind = PLACE_NONE};
        if (place->endpoint.text != NULL) {
            at = docker_endpoint_place(&place->endpoint);
        }
        result.probe.tried[result.probe.tried_count++] =
            (struct backend_tried){place->endpoint.origin, at, p->answers[i]};
    }
    p->fn(p->arg, &result);
}

/* Frees the probe when all its handles are closed. */
static void let_go(struct docker_probe *p)
{
    if (--p->open > 0) {
        return;
    }
    void (*closed)(void *) = p->closed;
    void *arg = p->closed_arg;
    if (closed == NULL) {
        report_docker_probe(p);
    }
    free_docker_probe(p);
    if (closed != NULL) {
        closed(arg);
    }
}

static void on_api_closed(void *arg)
{
    let_go(arg);
}

/* Closes the connection to an unusable place. */
static void drop_api(struct docker_probe *p)
{
    if (p->api != NULL) {
        struct docker_api *api = p->api;
        p->api = NULL;
        p->open++;
        docker_api_close(api, on_api_closed, p);
    }
}

static void on_probe_kick_closed(uv_handle_t *handle)
{
    let_go(handle->data);
}

static void finish_docker_probe(struct docker_probe *p)
{
    uv_close((uv_handle_t *)&p->kick, on_probe_kick_closed);
}

/* ---- one place ------------------------------------------------------------------------------ */

static void note_answer(struct docker_probe *p, const char *answer)
{
    p->answers[p->next] = alloc_strdup(answer);
}

static void reject(struct docker_probe *p, const struct err *err)
{
    const struct docker_endpoint *e = &p->places.items[p->next].endpoint;
    size_t used = strlen(p->reason);
    note_answer(p, err->text);
    snprintf(p->reason + used, sizeof(p->reason) - used, "%s%s%s%s: %s", used > 0 ? "; " : "",
             e->origin, e->text != NULL ? " " : "", e->text != NULL ? e->text : "", err->text);
    drop_api(p);
    p->next++;
    try_next(p);
}

static void on_engine_swept(void *arg)
{
    struct docker_probe *p = arg;
    p->sweeping = NULL;
    finish_docker_probe(p);
}

/* ---- the engine that was found --------------------------------------------------------------- */

static void settle_docker_probe(struct docker_probe *p)
{
    if (p->sweep) {
        p->sweeping = docker_sweep_start(p->api, on_engine_swept, p);
    } else {
        finish_docker_probe(p);
    }
}

static void on_registry(void *arg, int rc, const struct docker_reply *reply,
                        const struct err *failure)
{
    struct docker_probe *p = arg;
    (void)reply;
    if (rc < 0) {
        p->doubt = alloc_printf("image %.200s is not on the engine, and cannot be fetched: %s",
                                p->image, failure->text);
    }
    settle_docker_probe(p);
}

static void ask_registry(struct docker_probe *p)
{
    CLEANUP_FREE char *path = alloc_printf("/distribution/%s/json", p->image);
    struct docker_request request = {.method = "GET", .path = path, .total_ms = REGISTRY_MS};
    docker_api_call(p->api, &request, on_registry, p);
}

static void on_wanted_image(void *arg, int rc, const struct docker_reply *reply,
                            const struct err *failure)
{
    struct docker_probe *p = arg;
    if (rc == 0) {
        settle_docker_probe(p);
    } else if (rc != -ERR_IMAGE && reply->status != 404) {
        p->doubt = alloc_printf("the engine does not tell whether it has image %.200s: %s",
                                p->image, failure->text);
        settle_docker_probe(p);
    } else if (p->pull && !p->engine.podman) {
        ask_registry(p);
    } else {
        p->doubt = alloc_printf("image %.200s is not on the engine, and %s", p->image,
                                p->pull ? "Podman does not tell beforehand whether it can fetch it"
                                        : "fetching is switched off");
        settle_docker_probe(p);
    }
}

static void look_for_image(struct docker_probe *p)
{
    CLEANUP_FREE char *path = alloc_printf("/images/%s/json", p->image);
    struct docker_request request = {.method = "GET", .path = path, .total_ms = NAMED_MS};
    docker_api_call(p->api, &request, on_wanted_image, p);
}

static void on_info(void *arg, int rc, const struct docker_reply *reply, const struct err *failure)
{
    struct docker_probe *p = arg;
    struct err err = ERR_INIT;
    if (rc < 0) {
        err = *failure;
    } else {
        rc = docker_engine_read(&p->engine, reply->json, &err);
    }
    if (rc == 0 && p->runtime[0] != '\0' && p->engine.podman) {
        rc = err_set(
            &err, ERR_ENGINE,
            "Podman's compatible interface ignores the choice of a runtime (%s): name it in "
            "Podman's own containers.conf instead",
            p->runtime);
    } else if (rc == 0 && p->runtime[0] != '\0' &&
               !docker_engine_has_runtime(reply->json, p->runtime)) {
        rc = err_set(&err, ERR_ENGINE,
                     "the engine has no runtime called %s; `docker info` lists what it has",
                     p->runtime);
    }
    if (rc < 0) {
        reject(p, &err);
        return;
    }
    const char *server = json_get_str(reply->json, "ServerVersion");
    snprintf(p->version, sizeof(p->version), "%s %.64s, API 1.%u%s",
             p->engine.podman ? "Podman" : "Docker Engine", server != NULL ? server : "?",
             p->engine.api_minor, p->engine.rootless ? ", rootless" : "");
    note_answer(p, p->version);
    p->unapplied_count = docker_spec_unapplied(&p->engine, NULL, 0, p->unapplied);
    const struct backend_spec asked = {
        .limits = p->limits, .io_device = p->io_device, .packages_bytes = p->packages_bytes};
    p->unapplied_count =
        docker_spec_unapplied_asked(&p->engine, &asked, p->unapplied_count, p->unapplied);
    if (p->image[0] != '\0') {
        look_for_image(p);
    } else {
        settle_docker_probe(p);
    }
}

static void on_ping(void *arg, int rc, const struct docker_reply *reply, const struct err *failure)
{
    struct docker_probe *p = arg;
    struct err err = ERR_INIT;
    if (rc < 0) {
        err = *failure;
    } else {
        p->engine = (struct docker_engine){
            .podman = http_response_header(reply->http, "Libpod-API-Version").len > 0,
        };
        rc = docker_engine_negotiate(&p->engine, http_response_header(reply->http, "Api-Version"),
                                     http_response_header(reply->http, "Ostype"),
                                     getenv("DOCKER_API_VERSION"), &err);
    }
    if (rc < 0) {
        reject(p, &err);
        return;
    }
    docker_api_set_version(p->api, p->engine.api_minor);
    struct docker_request request = {.method = "GET", .path = "/info"};
    docker_api_call(p->api, &request, on_info, p);
}

static void try_next(struct docker_probe *p)
{
    if (p->next == p->places.count) {
        finish_docker_probe(p);
        return;
    }
    struct docker_place *place = &p->places.items[p->next];
    struct err err = place->problem;
    if (err.code != 0 || docker_api_create(p->loop, &place->endpoint, &p->api, &err) < 0) {
        reject(p, &err);
        return;
    }
    struct docker_request request = {
        .method = "GET",
        .path = "/_ping",
        .unversioned = true,
        .total_ms = p->places.configured ? NAMED_MS : LOOK_MS,
    };
    docker_api_call(p->api, &request, on_ping, p);
}

static void on_probe_kick(uv_timer_t *timer)
{
    try_next(timer->data);
}

static const char *get_env(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

struct docker_probe *docker_probe_start(uv_loop_t *loop, const struct docker_probe_wish *wish,
                                        docker_probe_fn fn, void *arg)
{
    struct docker_probe *p = alloc_one(struct docker_probe);
    p->loop = loop;
    p->runtime = alloc_strdup(wish->runtime);
    p->image = alloc_strdup(wish->image);
    p->pull = wish->pull;
    p->limits = wish->limits;
    p->io_device = alloc_strdup(wish->io_device != NULL ? wish->io_device : "");
    p->packages_bytes = wish->packages_bytes;
    p->sweep = wish->sweep;
    p->fn = fn;
    p->arg = arg;
    docker_discovery_find(wish->place, get_env, NULL, &p->places);
    uv_timer_init(loop, &p->kick);
    p->kick.data = p;
    p->open = 1;
    uv_timer_start(&p->kick, on_probe_kick, 0, 0);
    return p;
}

void docker_probe_cancel(struct docker_probe *p, void (*closed)(void *arg), void *arg)
{
    p->closed = closed;
    p->closed_arg = arg;
    drop_api(p); /* and with it the calls of a sweep */
    docker_sweep_free(p->sweeping);
    if (!uv_is_closing((uv_handle_t *)&p->kick)) {
        finish_docker_probe(p);
    }
}
