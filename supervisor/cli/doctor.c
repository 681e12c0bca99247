/*
 * The doctor does what the first create_sandbox would do, but tries every candidate instead of
 * stopping at the first that works, and prints all results. It uses the same probes and the same
 * rule of choice, so it predicts what will happen. Then it opens a sandbox with the configured
 * image, which is the only way to see whether the image exists or can be pulled, is for this
 * machine, and has programs to run code. It leaves nothing behind but a pulled image.
 */
#include "supervisor/cli/doctor.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/err.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/place.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/fleet/engine/engine.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/binaries.h"
#include "supervisor/fleet/host/instance.h"

#define FINDINGS_MAX 8

/* The result of one candidate. Which one is used is known after all were tried. */
struct finding {
    char *who, *rest;
    bool usable;
};

struct doctor {
    struct fleet *fleet;
    uv_loop_t *loop;
    unsigned usable;
    struct finding findings[FINDINGS_MAX];
    size_t finding_count, used;
    const char *used_backend;
    size_t used_lacks;
    bool fetching; /* the user was told why it takes so long */
    bool sound;    /* a sandbox of the image was opened, and can run code */
};

static void print_program(const char *what, int rc, const char *path, const struct err *err)
{
    printf("  %-18s %s%s\n", what, rc == 0 ? path : "missing: ", rc == 0 ? "" : err->text);
}

/* Returns whether both programs exist. */
static bool examine_programs(const struct config *config)
{
    CLEANUP_FREE char *worker = NULL;
    CLEANUP_FREE char *agent = NULL;
    CLEANUP_FREE char *top = instance_top(config);
    struct err err = ERR_INIT;
    printf("cloister %s\n", CLOISTER_VERSION);
    int worker_rc = binaries_find_worker(config, &worker, &err);
    print_program("worker", worker_rc, worker, &err);
    int agent_rc = binaries_find_agent(config, &agent, &err);
    print_program("agent", agent_rc, agent, &err);
    printf("  %-18s %s\n\n", "runtime directory", top);
    return worker_rc == 0 && agent_rc == 0;
}

static void print_list(FILE *out, const char *what, const struct view_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        fprintf(out, "  %-18s %.*s\n", i == 0 ? what : "", VIEW_ARG(list->items[i]));
    }
}

static void print_tried(FILE *out, const struct view_list *tried)
{
    for (size_t i = 0; i < tried->count; i++) {
        struct msg m;
        if (msg_decode(MSG_LINK_W, tried->items[i].data, tried->items[i].len, &m, NULL) < 0) {
            continue; /* the codec has read it before */
        }
        CLEANUP_FREE char *at = place_list_text(m.engine_tried.place);
        fprintf(out, "  %-18s %.*s%s%s: %.*s\n", i == 0 ? "places tried" : "",
                VIEW_ARG(m.engine_tried.origin), at[0] != '\0' ? " " : "", at,
                VIEW_ARG(m.engine_tried.answer));
        msg_finish(&m);
    }
}

#define NETWORK_WORKS view_of("can be had, so packages can be installed")

static void print_who(FILE *out, const char *backend, const struct msg_probed *p)
{
    fprintf(out, "backend %s", backend);
    CLEANUP_FREE char *at = place_list_text(p->place);
    if (at[0] != '\0') {
        fprintf(out, ", engine %s", at);
    }
    if (p->runtime.len > 0) {
        fprintf(out, ", runtime %.*s", VIEW_ARG(p->runtime));
    }
}

static void print_rest(FILE *out, const struct msg_probed *p)
{
    print_tried(out, &p->tried);
    if (p->version.len > 0) {
        fprintf(out, "  %-18s %.*s\n", "version", VIEW_ARG(p->version));
    }
    if (p->flaws.len > 0) {
        fprintf(out, "  %-18s %.*s\n", "known flaws", VIEW_ARG(p->flaws));
    }
    if (!p->usable) {
        fprintf(out, "  %-18s %.*s\n", "why not", VIEW_ARG(p->reason));
    }
    if (p->usable) {
        fprintf(out, "  %-18s %.*s\n", "network",
                VIEW_ARG(p->network.len > 0 ? p->network : NETWORK_WORKS));
    }
    print_list(out, "not enforced here", &p->unapplied);
}

static FILE *text_stream(char **text)
{
    size_t size;
    FILE *out = open_memstream(text, &size);
    return alloc_check(out);
}

static void on_trial(void *arg, const char *backend, const struct msg_probed *p)
{
    struct doctor *d = arg;
    assert(d->finding_count < FINDINGS_MAX);
    struct finding *f = &d->findings[d->finding_count];
    if (p->usable &&
        (d->usable == 0 || engine_is_better(backend, p, d->used_backend, d->used_lacks))) {
        d->used = d->finding_count;
        d->used_backend = backend;
        d->used_lacks = p->unapplied.count;
    }
    d->finding_count++;
    d->usable += p->usable ? 1 : 0;
    f->usable = p->usable;
    FILE *who = text_stream(&f->who);
    print_who(who, backend, p);
    fclose(who);
    FILE *rest = text_stream(&f->rest);
    print_rest(rest, p);
    fclose(rest);
}

static void print_findings(struct doctor *d)
{
    for (size_t i = 0; i < d->finding_count; i++) {
        struct finding *f = &d->findings[i];
        printf("%s: %s\n%s", f->who,
               !f->usable     ? "not usable"
               : i == d->used ? "usable, and the one that is used"
                              : "usable",
               f->rest);
        free(f->who);
        free(f->rest);
    }
}

static void on_fleet_stopped(void *arg)
{
    struct doctor *d = arg;
    uv_stop(d->loop);
}

static void on_trial_progress(void *arg, const struct fleet_progress *progress)
{
    struct doctor *d = arg;
    if (!d->fetching) {
        d->fetching = true;
        fprintf(stderr, "cloister doctor: %s\n", progress->text);
    }
}

/* Reports what the sandbox with the configured image is like. */
static void on_trial_sandbox(void *arg, int rc, const struct fleet_info *info,
                             const struct err *err, const char *hint)
{
    struct doctor *d = arg;
    d->sound = rc == 0 && info->language_count > 0;
    printf("\nsandbox: %s\n", rc < 0 ? "cannot be made" : d->sound ? "works" : "runs no code");
    if (rc < 0) {
        printf("  %-18s %s\n", "why not", err->text);
        if (hint[0] != '\0') {
            printf("  %-18s %s\n", "what to do", hint);
        }
    } else {
        printf("  %-18s %s\n", "image", info->image);
        printf("  %-18s ", d->sound ? "languages" : "why not");
        for (size_t i = 0; i < info->language_count; i++) {
            printf("%s%s", i > 0 ? ", " : "", info->languages[i]);
        }
        printf("%s\n", d->sound ? "" : "the image has no interpreter of any language in its PATH");
        if (!d->sound) {
            printf("  %-18s %s\n", "what to do",
                   "name an image that has one with --image, e.g. " IMAGE_DOCKER_DEFAULT
                   " on an engine");
        }
    }
    fleet_shutdown(d->fleet, FLEET_END_CLOSE, on_fleet_stopped, d);
}

static void on_trials_done(void *arg)
{
    struct doctor *d = arg;
    print_findings(d);
    if (d->usable == 0) {
        fleet_shutdown(d->fleet, FLEET_END_CLOSE, on_fleet_stopped, d);
        return;
    }
    static const struct fleet_spec spec = {.progress = on_trial_progress};
    fleet_open(d->fleet, "doctor", &spec, on_trial_sandbox, d);
}

/* `row`: the configured backend; NULL: all automatic ones. */
static void prescribe(const struct doctor *d, const struct backend_row *row, bool programs)
{
    printf("\n");
    if (!programs) {
        printf("What to do: reinstall cloister (its programs belong together), or name them with\n"
               "--worker-path and --agent-path.\n");
    } else if (d->usable == 0) {
        printf("What to do:%s\n", row == NULL ? " one of these." : "");
        for (size_t i = 0; i < BACKEND_COUNT; i++) {
            if (row == NULL ? backend_rows[i].is_automatic : row == &backend_rows[i]) {
                printf("%s", backend_rows[i].advice);
            }
        }
    } else {
        printf("%s\n",
               d->sound ? "Sandboxes can be created on this host."
                        : "Sandboxes with this image are of no use yet; what to do is said above.");
    }
}

int doctor_run(struct config *config)
{
    uv_loop_t loop;
    /* Successes are on stdout already. */
    log_set_level(config->log_level == LOG_INFO ? LOG_WARN : config->log_level);
    if (uv_loop_init(&loop) < 0) {
        log_error("doctor: no event loop: out of descriptors?");
        return EXIT_FAILURE;
    }
    bool programs = examine_programs(config);
    /* Uses an instance of its own: the named one may have a server, or sandboxes that wait for
     * one. */
    config->instance[0] = '\0';
    config->pool[0] = '\0'; /* nobody comes */
    struct doctor d = {.fleet = fleet_create(&loop, config), .loop = &loop};
    fleet_doctor(d.fleet, on_trial, on_trials_done, &d);
    uv_run(&loop, UV_RUN_DEFAULT);
    prescribe(&d, config_backend(config), programs);
    fleet_destroy(d.fleet);
    (void)uv_loop_close(
        &loop); /* refuses if the fleet had to leave something behind; then we exit */
    return d.sound ? EXIT_SUCCESS : EXIT_FAILURE;
}
