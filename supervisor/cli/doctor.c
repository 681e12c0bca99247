/*
 * The doctor does what the first create_sandbox would do, but tries every candidate instead of
 * stopping at the first that works, and prints all results. It uses the same probes and the same
 * rule of choice, so it predicts what will happen. Then it opens a sandbox with the configured
 * image, which is the only way to see whether the image exists or can be pulled, is for this
 * machine, and has programs to run code. It leaves nothing behind but a pulled image.
 *
 * Its exit status answers the question of scripts: would the first call that runs code succeed with
 * these options? So it fails where --strict would refuse a sandbox, and where sandboxes of this
 * host's own programs have no Python, which runs code that names no language.
 */
#include "supervisor/cli/doctor.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/err.h"
#include "common/kernel/apparmor.h"
#include "common/log.h"
#include "proto/codec.h"
#include "proto/place.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/cli/container.h"
#include "supervisor/cli/row.h"
#include "supervisor/fleet/engine/engine.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/fleet/host/binaries.h"
#include "supervisor/fleet/host/instance.h"

#define FINDINGS_MAX 8
#define LINE_INDENT  23 /* as rows have it */

/* The result of one candidate. Which one is used is known after all were tried. */
struct finding {
    char *who, *rest, *hint;
    size_t who_size, rest_size; /* their streams write these until they are closed */
    struct view_list unapplied; /* owned */
    bool usable, doubted;
};

struct doctor {
    struct fleet *fleet;
    const struct config *config;
    uv_loop_t *loop;
    unsigned usable;
    struct finding findings[FINDINGS_MAX];
    size_t finding_count, used;
    struct engine_rank rank; /* of the one that is used */
    bool fetching;           /* the user was told why it takes so long */
    bool sound;              /* a sandbox of the image was opened, and can run code */
    bool pythonless;         /* it can, but not the code that names no language */
};

static void print_row(FILE *out, const char *what, struct view text)
{
    row_print(out, row_width(), what, text);
}

static void print_program(const char *what, int rc, const char *path, const struct err *err)
{
    CLEANUP_FREE char *text =
        alloc_printf("%s%s", rc == 0 ? path : "missing: ", rc == 0 ? "" : err->text);
    print_row(stdout, what, view_of(text));
}

/* Where the kernel has none there is nothing to do. */
static void print_apparmor(void)
{
    static const char *const texts[] = {
        [APPARMOR_NONE] = NULL,
        [APPARMOR_HIDDEN] = "its profiles are shown to root only, so sandboxes of oci have none",
        [APPARMOR_UNLOADED] = "profile " APPARMOR_PROFILE " is not loaded: sudo apparmor_parser -r "
                              "/etc/apparmor.d/" APPARMOR_PROFILE " (from contrib/apparmor)",
        [APPARMOR_LOADED] = "sandboxes of oci are under the profile " APPARMOR_PROFILE,
    };
    const char *text = texts[apparmor_look("")];
    if (text != NULL) {
        print_row(stdout, "AppArmor", view_of(text));
    }
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
    print_row(stdout, "runtime directory", view_of(top));
    print_apparmor();
    printf("\n");
    return worker_rc == 0 && agent_rc == 0;
}

/* Each limit, and behind those that it helps the remedy. */
static void print_unapplied(FILE *out, const struct msg_probed *p)
{
    for (size_t i = 0; i < p->unapplied.count; i++) {
        struct view remedy = i < p->remedies.count ? p->remedies.items[i] : view_of("");
        struct view next = i + 1 < p->remedies.count ? p->remedies.items[i + 1] : view_of("");
        print_row(out, i == 0 ? "not enforced here" : "", p->unapplied.items[i]);
        if (remedy.len > 0 && !view_same(remedy, next)) {
            print_row(out, "  what to do", remedy);
        }
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
        CLEANUP_FREE char *text =
            alloc_printf("%.*s%s%s: %.*s", VIEW_ARG(m.engine_tried.origin),
                         at[0] != '\0' ? " " : "", at, VIEW_ARG(m.engine_tried.answer));
        print_row(out, i == 0 ? "places tried" : "", view_of(text));
        msg_finish(&m);
    }
}

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

/* Whether the answers of the places that were tried, which are shown, say all of the reason. */
static bool is_told_by_places(const struct msg_probed *p)
{
    bool told = false;
    struct msg m;
    if (p->tried.count > 0 &&
        msg_decode(MSG_LINK_W, p->tried.items[0].data, p->tried.items[0].len, &m, NULL) == 0) {
        struct view answer = m.engine_tried.answer;
        told = answer.len > 0 && p->reason.len > 0 &&
               memmem(p->reason.data, p->reason.len, answer.data, answer.len) != NULL;
        msg_finish(&m);
    }
    return told;
}

static void print_rest(FILE *out, const struct msg_probed *p)
{
    print_tried(out, &p->tried);
    if (p->version.len > 0) {
        print_row(out, "version", p->version);
    }
    if (p->flaws.len > 0) {
        print_row(out, "known flaws", p->flaws);
    }
    if (!p->usable && !is_told_by_places(p)) {
        print_row(out, "why not", p->reason);
    }
    if (p->doubt.len > 0) {
        print_row(out, "doubt", p->doubt);
    }
    if (p->usable) {
        print_row(out, "network", p->network.len > 0 ? p->network : view_of("can be had"));
    }
    print_unapplied(out, p);
}

static FILE *text_stream(char **text, size_t *size)
{
    FILE *out = open_memstream(text, size);
    return alloc_check(out);
}

static void on_trial(void *arg, const char *backend, const struct msg_probed *p)
{
    struct doctor *d = arg;
    assert(d->finding_count < FINDINGS_MAX);
    struct finding *f = &d->findings[d->finding_count];
    struct engine_rank rank = engine_rank(backend, p);
    if (p->usable && (d->usable == 0 || engine_is_better(&rank, &d->rank))) {
        d->used = d->finding_count;
        d->rank = rank;
    }
    d->finding_count++;
    d->usable += p->usable ? 1 : 0;
    f->usable = p->usable;
    f->doubted = rank.doubted;
    f->hint = alloc_viewdup(p->hint);
    f->unapplied = alloc_listdup(p->unapplied);
    FILE *who = text_stream(&f->who, &f->who_size);
    print_who(who, backend, p);
    fclose(who);
    FILE *rest = text_stream(&f->rest, &f->rest_size);
    print_rest(rest, p);
    fclose(rest);
}

static const char *verdict_on(const struct doctor *d, size_t i)
{
    const struct finding *f = &d->findings[i];
    if (!f->usable) {
        return "not usable";
    }
    if (i == d->used) {
        return "usable, and the one that is used";
    }
    return f->doubted ? "answers, but its image is in doubt" : "usable";
}

static void print_findings(const struct doctor *d)
{
    for (size_t i = 0; i < d->finding_count; i++) {
        const struct finding *f = &d->findings[i];
        CLEANUP_FREE char *line = alloc_printf("%s: %s", f->who, verdict_on(d, i));
        row_print_line(stdout, row_width(), LINE_INDENT, view_of(line));
        printf("%s", f->rest);
        if (d->usable == 0 && f->hint[0] != '\0') {
            print_row(stdout, "what to do", view_of(f->hint));
        }
    }
}

static void free_findings(struct doctor *d)
{
    for (size_t i = 0; i < d->finding_count; i++) {
        struct finding *f = &d->findings[i];
        free(f->who);
        free(f->rest);
        free(f->hint);
        alloc_listfree(&f->unapplied);
    }
}

static void on_fleet_stopped(void *arg)
{
    struct doctor *d = arg;
    uv_stop(d->loop);
}

/* Whether a sandbox was refused for what is listed as not enforced. */
static bool is_refused_by_strict(const struct doctor *d)
{
    return d->config->strict && d->usable > 0 && d->rank.lacks > 0;
}

static void on_trial_progress(void *arg, const struct fleet_progress *progress)
{
    struct doctor *d = arg;
    if (!d->fetching) {
        d->fetching = true;
        fprintf(stderr, "cloister doctor: %s\n", progress->text);
    }
}

static bool has_language(const struct fleet_info *info, const char *name)
{
    for (size_t i = 0; i < info->language_count; i++) {
        if (strcmp(info->languages[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void print_languages(struct doctor *d, const struct fleet_info *info)
{
    if (!d->sound) {
        print_row(stdout, "why not",
                  view_of("the image has no interpreter of any language in its PATH"));
        print_row(stdout, "what to do",
                  view_of("name an image that has one with --image, e.g. " IMAGE_DOCKER_DEFAULT
                          " on an engine"));
        return;
    }
    printf("  %-18s ", "languages");
    for (size_t i = 0; i < info->language_count; i++) {
        printf("%s%s", i > 0 ? ", " : "", info->languages[i]);
    }
    printf("\n");
    if (has_language(info, "python")) {
        return;
    }
    bool chosen = d->config->image[0] != '\0' || d->config->image_dir[0] != '\0';
    print_row(stdout, "no python",
              view_of("which runs code that names no language, and the demonstration"));
    print_row(stdout, "what to do",
              view_of(chosen ? "name an image that has it, or the language in each call"
                             : "install it below /usr of this host, which sandboxes show: "
                               "apt install python3; one elsewhere (pyenv, conda) does not count"));
    d->pythonless = !chosen;
}

/* What this sandbox goes without, and the trial did not tell. */
static void print_more_unapplied(const struct doctor *d, const struct fleet_info *info)
{
    const struct view_list *known = &d->findings[d->used].unapplied;
    const char *what = "not enforced here";
    for (size_t i = 0; i < info->unapplied_count; i++) {
        bool told = false;
        for (size_t k = 0; k < known->count; k++) {
            told = told || view_is(known->items[k], info->unapplied[i]);
        }
        if (!told) {
            print_row(stdout, what, view_of(info->unapplied[i]));
            what = "";
        }
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
        print_row(stdout, "why not", view_of(err->text));
        if (hint[0] != '\0' && !is_refused_by_strict(d)) { /* it would send people here */
            print_row(stdout, "what to do", view_of(hint));
        }
    } else {
        print_row(stdout, "image", view_of(info->image));
        print_languages(d, info);
        print_more_unapplied(d, info);
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

static const char *verdict(const struct doctor *d)
{
    if (d->pythonless) {
        return "Sandboxes can be created on this host, but run no code that names no language; "
               "what "
               "to do is said above.";
    }
    if (d->sound) {
        return "Sandboxes can be created on this host.";
    }
    return is_refused_by_strict(d)
               ? "With --strict no sandbox is created on this host; what it does not enforce is "
                 "listed above, with what to do."
               : "Sandboxes with this image are of no use yet; what to do is said above.";
}

/* `row`: the configured backend; NULL: all automatic ones. */
static void prescribe(const struct doctor *d, const struct backend_row *row, bool programs)
{
    printf("\n");
    if (!programs) {
        printf("What to do: reinstall cloister (its programs belong together), or name them with\n"
               "--worker-path and --agent-path.\n");
    } else if (d->usable == 0) {
        if (container_advise("", d->config, stdout)) {
            printf("\n");
        }
        printf("What to do:%s\n", row == NULL ? " one of these." : "");
        for (size_t i = 0; i < BACKEND_COUNT; i++) {
            if (row == NULL ? backend_rows[i].is_automatic : row == &backend_rows[i]) {
                printf("%s", backend_rows[i].advice);
            }
        }
    } else {
        row_print_line(stdout, row_width(), 0, view_of(verdict(d)));
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
    struct doctor d = {.fleet = fleet_create(&loop, config), .config = config, .loop = &loop};
    fleet_doctor(d.fleet, on_trial, on_trials_done, &d);
    uv_run(&loop, UV_RUN_DEFAULT);
    prescribe(&d, config_backend(config), programs);
    free_findings(&d);
    fleet_destroy(d.fleet);
    (void)uv_loop_close(
        &loop); /* refuses if the fleet had to leave something behind; then we exit */
    return d.sound && !d.pythonless ? EXIT_SUCCESS : EXIT_FAILURE;
}
