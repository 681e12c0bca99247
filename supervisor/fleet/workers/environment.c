/*
 * Whoever starts a server often has tokens and keys in the environment, for other programs. A
 * worker is the process that user code is nearest to, so it gets a list of its own: what it, the
 * libraries that it loads and the runtimes and helpers that it starts look for. Anything else is
 * left out, because a list of what is secret would never be complete.
 */
#include "supervisor/fleet/workers/environment.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"

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

bool worker_environment_has(const char *variable)
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
    return false;
}

char **worker_environment(void)
{
    size_t count = 0;
    while (environ[count] != NULL) {
        count++;
    }
    char **env = alloc_array(count + 1, sizeof(*env));
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (worker_environment_has(environ[i])) {
            env[n++] = environ[i];
        }
    }
    return env; /* alloc_array() has set the rest to NULL */
}
