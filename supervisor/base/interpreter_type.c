/*
 * Users of that server have INTERPRETER_TYPE and E2B_API_KEY in its configuration, often in a file
 * .env of its directory. Whoever has a key means the cloud that it is for. Many have the variable
 * from an example and no key: they get sandboxes of this host, as the form of results does not
 * depend on where code runs. Nobody should have to guess where that is, so it is logged.
 */
#include "supervisor/base/interpreter_type.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "supervisor/base/dotenv.h"
#include "supervisor/base/options.h"

#define PROFILE     "code-sandbox"
#define FIRECRACKER "firecracker"

/* The backend that has such a name there. Every build has one. */
static const struct backend_row *cloud(void)
{
    size_t i = 0;
    while (i + 1 < BACKEND_COUNT && backend_rows[i].interpreter_type == NULL) {
        i++;
    }
    return &backend_rows[i];
}

const char *interpreter_type_default(void)
{
    return cloud()->interpreter_type;
}

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

static bool is_foreign(const char *type)
{
    return strcmp(type, interpreter_type_default()) == 0 || strcmp(type, FIRECRACKER) == 0;
}

bool interpreter_type_is_foreign(const struct config *c)
{
    return is_foreign(value_of(INTERPRETER_TYPE)) && config_lists(c->compat, PROFILE);
}

static bool means_cloud(void)
{
    return strcmp(value_of(INTERPRETER_TYPE), interpreter_type_default()) == 0;
}

static int take_file(struct err *err)
{
    const char *key = cloud()->secret_variables[0];
    char value[DOTENV_VALUE_SIZE];
    CLEANUP_BUF struct buf text;
    struct err unread = ERR_INIT; /* most have none */
    buf_init(&text, DOTENV_MAX_BYTES);
    if (file_read(".env", &text, &unread) < 0) {
        return 0;
    }
    struct view settings = view_bytes(text.data, text.len);
    if (getenv(INTERPRETER_TYPE) == NULL && dotenv_find(settings, INTERPRETER_TYPE, value)) {
        if (!is_foreign(value)) {
            return err_set(err, ERR_CONFIG,
                           ".env: " INTERPRETER_TYPE ": expected e2b or firecracker, got \"%.64s\"",
                           value);
        }
        setenv(INTERPRETER_TYPE, value, 0);
    }
    if (means_cloud() && dotenv_find(settings, key, value)) {
        setenv(key, value, 0);
    }
    explicit_bzero(value, sizeof(value));
    if (text.len > 0) {
        explicit_bzero(text.data, text.len);
    }
    return 0;
}

static void choose_backend(struct config *c, const char *name)
{
    free(c->backend);
    c->backend = alloc_strdup(name);
}

int interpreter_type_settle(struct config *c, bool chosen, struct err *err)
{
    if (!config_lists(c->compat, PROFILE)) {
        return 0;
    }
    const char *key = cloud()->secret_variables[0];
    int rc = take_file(err);
    if (rc < 0 || chosen) {
        return rc;
    }
    if (strcmp(value_of(INTERPRETER_TYPE), FIRECRACKER) == 0) {
        choose_backend(c, BACKEND_AUTO);
        log_info(INTERPRETER_TYPE
                 "=firecracker: sandboxes are those of --backend auto. A kernel of "
                 "their own they have with --runtime kata on an engine, or with "
                 "--backend e2b; without one --runtime runsc comes nearest");
    } else if (means_cloud() && value_of(key)[0] != '\0') {
        choose_backend(c, cloud()->name);
    } else if (means_cloud()) {
        choose_backend(c, BACKEND_AUTO);
        log_info(INTERPRETER_TYPE
                 "=%s, but %s is not set: sandboxes are those of --backend auto, on "
                 "this host; with a key they are of that cloud",
                 interpreter_type_default(), key);
    }
    return 0;
}
