/*
 * A configured path is used as it is. Otherwise a build tree is searched before the installed
 * place, both relative to this program, so that a freshly built server never uses the worker of an
 * older installation.
 */
#include "supervisor/fleet/host/binaries.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int use_configured(const char *path, const char *option, char **ret, struct err *err)
{
    char *real = realpath(path, NULL);
    if (real == NULL) {
        return err_sys(err, ERR_ENGINE, errno, "--%s %s", option, path);
    }
    if (!is_program(real)) {
        free(real);
        return err_set(err, ERR_ENGINE, "--%s %s: not a program that we may run", option, path);
    }
    *ret = real;
    return 0;
}

static int find_binary(const char *configured, const char *option, const char *name,
                       const char *build_place, char **ret, struct err *err)
{
    if (configured != NULL && configured[0] != '\0') {
        return use_configured(configured, option, ret, err);
    }
    char self[PATH_MAX];
    size_t size = sizeof(self);
    if (uv_exepath(self, &size) < 0) {
        self[0] = '\0';
    }
    char *slash = strrchr(self, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    CLEANUP_FREE char *beside = alloc_printf("%s/%s", self, name);
    CLEANUP_FREE char *built = alloc_printf("%s/../%s/%s", self, build_place, name);
    CLEANUP_FREE char *moved = alloc_printf("%s/../libexec/cloister/%s", self, name);
    CLEANUP_FREE char *installed = alloc_printf("%s/%s", CLOISTER_LIBEXECDIR, name);
    const char *places[] = {beside, built, moved, installed};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (is_program(places[i])) {
            char *real = realpath(places[i], NULL);
            if (real != NULL) {
                *ret = real;
                return 0;
            }
        }
    }
    return err_set(err, ERR_ENGINE, "%s was not found in %s, %s/../libexec/cloister or %s", name,
                   self, self, CLOISTER_LIBEXECDIR);
}

int binaries_find_worker(const struct config *config, char **ret, struct err *err)
{
    return find_binary(config->worker_path, "worker-path", "cloister-worker", "worker", ret, err);
}

int binaries_find_agent(const struct config *config, char **ret, struct err *err)
{
    return find_binary(config->agent_path, "agent-path", "cloister-agent", "worker/agent", ret,
                       err);
}
