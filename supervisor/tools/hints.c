/*
 * Without a hint, a model that meets such an error (a missing module, no network, no stdin) retries
 * in other ways that cannot help either. Python and JavaScript errors are recognised by name or
 * message, those of other programs by the end of stderr.
 */
#include "supervisor/tools/hints.h"

#include <stddef.h>
#include <string.h>

#include "common/view.h"
#include "supervisor/base/config.h"
#include "supervisor/fleet/fleet.h"

#define STDERR_BYTES 2048 /* bytes at the end of stderr that are searched */

static bool has_words(struct view text, const char *words)
{
    return text.len > 0 && memmem(text.data, text.len, words, strlen(words)) != NULL;
}

static bool has_any(struct view text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (has_words(text, words[i])) {
            return true;
        }
    }
    return false;
}

/* Whether the uncaught error, or the end of stderr, contains one of these texts. */
static bool tells(const struct fleet_outcome *o, const char *const *words, size_t count)
{
    struct view err = o->err_tail.len > 0 ? o->err_tail : o->err;
    if (err.len > STDERR_BYTES) {
        err = view_bytes(err.data + err.len - STDERR_BYTES, STDERR_BYTES);
    }
    return has_any(o->end->error_message, words, count) || has_any(err, words, count);
}

#define TELLS(o, words) tells(o, words, sizeof(words) / sizeof((words)[0]))

static const char *hint_for_module(const struct config *config, bool closes)
{
    if (!config->packages) {
        return "this server installs no packages: use what is there";
    }
    return closes ? "create_run_close installs what packages names before it runs the code"
                  : "install_package installs packages of pip and npm into this sandbox, without a "
                    "network";
}

const char *hint_for(const struct config *config, const struct fleet_outcome *o, bool closes)
{
    static const char *const no_module[] = {
        "No module named ",
        "Cannot find module ",
        "Cannot find package ",
        "No matching distribution found for ", /* from a pip that the code ran itself */
        "externally-managed-environment",
    };
    static const char *const no_network[] = {
        "Temporary failure in name resolution",
        "Name or service not known",
        "Network is unreachable",
        "Could not resolve host",
        "getaddrinfo ENOTFOUND",
        "getaddrinfo EAI_AGAIN",
        "connect ENETUNREACH",
    };
    static const char *const no_input[] = {"EOF when reading a line"};
    if (o->state != OP_DONE || o->end->status != OP_STATUS_ERROR) {
        return NULL;
    }
    if (TELLS(o, no_module)) {
        return hint_for_module(config, closes);
    }
    if (TELLS(o, no_network)) {
        return config->allow_network
                   ? "only sandboxes that were created with network: full have network"
                   : "sandboxes here have no network; install_package installs packages without";
    }
    if (TELLS(o, no_input)) {
        return "the input of code is given as stdin of the call, or by write_stdin to code that "
               "was started with stdin_open";
    }
    return NULL;
}
