/*
 * The list that a sweep needs is also the question whether the service is there and takes the key,
 * so there is one request. Nothing is made: a trial would cost money, and time.
 */
#include "worker/backend/e2b/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "worker/backend/e2b/agent.h"
#include "worker/backend/e2b/end.h"

#define VERSION "the key is accepted"

struct e2b_probe {
    struct e2b_host *api;
    const struct e2b_service *service;
    struct e2b_end *sweeping;
    char reason[700];
    e2b_probe_fn done;
    void *arg;
};

void e2b_probe_free(struct e2b_probe *p)
{
    if (p != NULL) {
        e2b_end_free(p->sweeping);
        free(p);
    }
}

static void report_e2b(void *arg)
{
    struct e2b_probe *p = arg;
    bool usable = p->reason[0] == '\0';
    struct backend_probe probe = {
        .usable = usable, .runtime = "", .version = "", .reason = p->reason};
    struct place place = {.kind = PLACE_NONE};
    if (p->api != NULL) {
        place = (struct place){.kind = PLACE_NAMED, .address = p->service->api_url};
    }
    probe.tried[probe.tried_count++] = (struct backend_tried){
        p->api != NULL ? p->service->origin : "E2B", place, usable ? VERSION : p->reason};
    if (usable) {
        probe.place = place;
        probe.unapplied_count = e2b_agent_unapplied(probe.unapplied);
    }
    p->done(p->arg, &probe);
    e2b_probe_free(p);
}

static void on_e2b_swept(void *arg, int rc, const struct err *err)
{
    struct e2b_probe *p = arg;
    p->sweeping = NULL;
    if (rc < 0) {
        bool refused = strstr(err->text, "HTTP status 401") != NULL;
        snprintf(p->reason, sizeof(p->reason), "%s%s", err->text,
                 refused ? "; is E2B_API_KEY a key of this service (e2b_...)?" : "");
    }
    report_e2b(p);
}

struct e2b_probe *e2b_probe_start(struct tasks *tasks, struct e2b_host *api,
                                  const struct e2b_service *service, const struct err *why,
                                  e2b_probe_fn done, void *arg)
{
    struct e2b_probe *p = alloc_one(struct e2b_probe);
    p->api = api;
    p->service = service;
    p->done = done;
    p->arg = arg;
    if (api != NULL) {
        p->sweeping = e2b_end_sweep(api, on_e2b_swept, p);
    } else {
        snprintf(p->reason, sizeof(p->reason), "%s", why->text);
        task_later(tasks, 0, report_e2b, p);
    }
    return p;
}
