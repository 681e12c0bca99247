/*
 * Whoever starts a server often has tokens and keys in the environment, for other programs. A
 * worker is the process that user code is nearest to, so it gets a list of its own: what it, the
 * libraries that it loads and the runtimes and helpers that it starts look for. Anything else is
 * left out, because a list of what is secret would never be complete. The key of a cloud is for the
 * workers of its backend, which is how they reach their sandboxes.
 */
#include "supervisor/fleet/workers/environment.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/backends.h"

static const char *const passed[] = {
    /* programs, files and texts of the person */
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS", /* runtimes ask the person's service manager for a control group */
    /* where engines are (worker/backend/docker/discovery.c) */
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS",
    "DOCKER_TLS_VERIFY",
    "DOCKER_API_VERSION",
    "COLIMA_HOME",
    /* and where a cluster is (worker/backend/kubernetes/cluster.c) */
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    /* and where a service is (worker/backend/e2b/service.c) */
    "E2B_DOMAIN",
    "E2B_API_URL",
    "E2B_SANDBOX_URL",
    /* the way to an engine on another machine, as libcurl reads it */
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    /* libraries in unusual places: without them a worker would not start where we did */
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "DYLD_LIBRARY_PATH",
    /* sanitizers */
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
    "TSAN_OPTIONS",
};

static const char *const passed_groups[] = {
    "LC_",
#if CLOISTER_WITH_FAKE
    "WORKER_", /* what tests tell a worker of theirs */
#endif
};

/* A secret of a backend is for its own workers alone. */
static bool is_own_secret(const char *variable, size_t len, const char *backend)
{
    const struct backend_row *row = backend != NULL ? backend_row_find(backend) : NULL;
    for (size_t i = 0; row != NULL && i < BACKEND_SECRETS_MAX; i++) {
        const char *name = row->secret_variables[i];
        if (name != NULL && strlen(name) == len && strncmp(name, variable, len) == 0) {
            return true;
        }
    }
    return false;
}

bool worker_environment_has(const char *variable, const char *backend)
{
    size_t len = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        if (strlen(passed[i]) == len && strncmp(passed[i], variable, len) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(passed_groups) / sizeof(passed_groups[0]); i++) {
        if (strncmp(passed_groups[i], variable, strlen(passed_groups[i])) == 0) {
            return true;
        }
    }
    return is_own_secret(variable, len, backend);
}

char **worker_environment(const char *backend)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **env = alloc_array(count + 1, sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (worker_environment_has(environ[i], backend)) {
            env[n++] = environ[i];
        }
    }
    return env; /* alloc_array() has set the rest to NULL */
}
