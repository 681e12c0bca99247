/*
 * Explains why an installation failed, in our words and with the decisive line of the package
 * manager. The program in the installer picks that line, since it sees all of pip's or npm's
 * output.
 */
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "supervisor/base/config.h"
#include "supervisor/packages/internal.h"
#include "supervisor/packages/reply.h"

static const struct {
    const char *kind;
    const char *message;
    const char *hint;
} kinds[] = {
    {"not_found", "there is no such package or version",
     "check the name and the version; try it without a version"},
    {"refused", "an installer reaches the sources of packages and nothing else",
     "the server's operator can name further hosts with --package-hosts, where an index keeps its "
     "files elsewhere"},
    {"network", "the package index could not be reached",
     "the server's host may have no network; its operator can name an index, a proxy or a "
     "directory of wheels with --package-index, --package-proxy or --package-dir"},
    {"certificate", "the certificate of the package index is not trusted",
     "the server's operator can name the authorities to trust with --package-ca"},
    {"conflict", "the versions that are asked for do not go together",
     "ask for fewer versions exactly, or install in another sandbox"},
    {"build", "it does not build here",
     "try another version, one that comes ready-made; output has the last lines of the build"},
    {"source", "it would have to be built, and packages that run code of their own are not taken",
     "try another version, one that comes ready-made (for pip as a wheel); the server's operator "
     "can allow building with --build-packages"},
    {"space", "there is no room for it",
     "install less, or in another sandbox; the server's operator sets the room with --packages-mb"},
    {"memory", "the installer ran out of memory", "try another version, one that comes ready-made"},
    {"manager", "the sandbox's image has no package manager for it",
     "use what the image has, or an image with pip or npm"},
    {"other", "it could not be installed", "output has the last lines of what the installer said"},
};

static size_t find_kind(struct view kind)
{
    size_t last = sizeof(kinds) / sizeof(kinds[0]) - 1;
    for (size_t k = 0; k < last; k++) {
        if (view_is(kind, kinds[k].kind)) {
            return k;
        }
    }
    return last;
}

static int explain_kind(const char *kind, struct view words, char **ret_message,
                        const char **ret_hint)
{
    size_t k = find_kind(view_of(kind));
    *ret_message = words.len > 0 ? alloc_printf("%s: %.*s", kinds[k].message, VIEW_ARG(words))
                                 : alloc_strdup(kinds[k].message);
    *ret_hint = kinds[k].hint;
    return -ERR_PACKAGE;
}

int install_explain_loss(const struct installation *i, int rc, const char *said, const char *hint,
                         char **ret_message, const char **ret_hint)
{
    bool opened = i->installer[0] != '\0';
    const char *room = strstr(said, BACKEND_ROOM);
    if (rc == -ERR_GONE && room != NULL && install_has_target(i)) {
        return explain_kind("space", view_of(room + strlen(BACKEND_ROOM)), ret_message, ret_hint);
    }
    if (rc == -ERR_GONE || rc == -ERR_SANDBOX_NOT_FOUND) {
        if (!opened || !install_has_target(i)) { /* an engine may report it before we know */
            *ret_message = alloc_strdup(install_has_target(i) ? said : "the sandbox was closed");
            *ret_hint = "";
            return -ERR_GONE;
        }
        rc = -ERR_PACKAGE;
        said = "the installer ended before its work was done";
        hint = "install it again; the sandbox itself goes on";
    } else if (!opened && (rc == -ERR_CONFIG || rc == -ERR_INVALID)) {
        rc = -ERR_PACKAGE;
        hint = "the server's operator has to correct --package-dir or --package-ca";
    }
    *ret_message =
        opened ? alloc_strdup(said) : alloc_printf("no installer could be started: %s", said);
    *ret_hint = hint;
    return rc;
}

int install_explain(const struct installation *i, const struct fleet_outcome *outcome,
                    char **ret_message, const char **ret_hint)
{
    const struct msg_output *end = outcome->end;
    struct view kind;
    struct view words;
    switch (end->status) {
    case OP_STATUS_TIMEOUT:
        *ret_message = alloc_printf("it took longer than %llu s and was stopped",
                                    (unsigned long long)i->p->config->install_timeout_s);
        *ret_hint = "install fewer packages at a time; the server's operator sets the time with "
                    "--install-timeout-seconds";
        return -ERR_PACKAGE;
    case OP_STATUS_MEMORY:
        return explain_kind("memory", view_of(NULL), ret_message, ret_hint);
    case OP_STATUS_CANCELLED:
        return install_explain_loss(i, -ERR_GONE, "", "", ret_message, ret_hint);
    default:
        break;
    }
    if (end->status == OP_STATUS_FAILED &&
        (end->fail_code == ERR_LANGUAGE || end->fail_code == ERR_FILE_NOT_FOUND)) {
        return explain_kind("manager", end->error_message, ret_message, ret_hint);
    }
    if (package_reply_failure(outcome->out, &kind, &words)) {
        CLEANUP_FREE char *name = alloc_viewdup(kind);
        return explain_kind(name, words, ret_message, ret_hint);
    }
    return explain_kind("other", end->error_message, ret_message, ret_hint);
}
