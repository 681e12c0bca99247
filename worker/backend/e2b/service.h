/*
 * Which service, and the key to it: what --engine or the variables of E2B's own SDKs say.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_BACKEND_E2B_SERVICE_H
#define CLOISTER_WORKER_BACKEND_E2B_SERVICE_H

#include "common/err.h"
#include "common/place.h"

#define E2B_ENVD_PORT "49983" /* of the daemon in every sandbox */

/* Strings are owned; NULL: none. The key is never put into an error or a log. */
struct e2b_service {
    char *origin;      /* who says where it is, for people: "--engine", "E2B_DOMAIN" */
    char *api_url;     /* "https://api.e2b.app", no slash at the end */
    char *domain;      /* below which sandboxes have their hosts, unless one has its own */
    char *sandbox_url; /* of all sandboxes instead, if somebody says so */
    char *key;
};

void e2b_service_finish(struct e2b_service *s);

/* Environment, so that tests have their own. NULL: not set. */
typedef const char *(*e2b_getenv_fn)(void *arg, const char *name);

/* Finds it. Named in the words of --engine: a domain, or the URL of a control plane. Else
 * E2B_API_URL, E2B_DOMAIN, and the hosted service. The key is E2B_API_KEY's. -ERR_CONFIG names the
 * variable. */
int e2b_service_find(const struct place *named, e2b_getenv_fn get, void *arg,
                     struct e2b_service *ret, struct err *err) WARN_UNUSED;

/* The address of the daemon of a sandbox. `domain` is the sandbox's own, NULL if it has none. To be
 * freed. */
char *e2b_service_envd_url(const struct e2b_service *s, const char *sandbox, const char *domain);

#endif
