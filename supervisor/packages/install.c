/*
 * One installation: a sandbox is opened that is let out to the sources of packages (sources.h) and
 * may write to another sandbox's packages; our program runs in it; then it is closed. Waiting
 * callers get the outcome as soon as the program has ended; closing takes its time after that.
 *
 * Every error leads to install_fail(), which may come at any time: the server stops, a client
 * cancels, the sandbox is closed. Later callbacks of the fleet find the outcome settled, and only
 * make sure that the installer is closed.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/backends.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "supervisor/base/config.h"
#include "supervisor/base/sources.h"
#include "supervisor/packages/installers.h"
#include "supervisor/packages/internal.h"
#include "supervisor/packages/reply.h"

/* for package managers and builds, independent of the sandbox's limit */
#define MEMORY_MB   1024
#define KEEP_BYTES  (256u << 10) /* of the program's output */
#define OUTPUT_MS   520
#define TTL_MS      60000                /* beyond its deadline, in case the server forgets it */
#define WHEELS_PATH "/wheels"            /* path of --package-dir in an installer */
#define CA_PATH     "/package-ca/ca.pem" /* in its own directory, as some backends need it */
#define MOUNTS_MAX  4
#define ENV_MAX     16

/* ---- the outcome ---- */

static bool is_settled(const struct installation *i)
{
    return i->state != PACKAGE_INSTALLING;
}

static void on_installer_closed(void *arg, int rc, const struct err *err, const char *hint)
{
    struct installation *i = arg;
    (void)hint;
    if (rc < 0 && rc != -ERR_SANDBOX_NOT_FOUND && rc != -ERR_SHUTTING_DOWN) {
        log_warn("installer did not close: %s sandbox=%s", err->text, i->installer);
    }
    if (--i->pending == 0) {
        packages_over(i);
    }
}

static void close_installer(struct installation *i)
{
    if (i->phase == INSTALL_RUNNING) {
        i->phase = INSTALL_CLOSING;
        i->pending++;
        fleet_close(i->p->fleet, i->installer, on_installer_closed, i);
    }
}

static void settle_installation(struct installation *i, enum package_state state)
{
    i->state = state;
    i->ended_wall_ms = clock_wall_ms();
    for (size_t k = 0; k < i->count; k++) {
        i->packages[k].state = state;
    }
    log_info("installation %s: %s after_ms=%llu sandbox=%s",
             state == PACKAGE_INSTALLED ? "done" : "failed",
             i->message != NULL ? i->message : i->requirements[0],
             (unsigned long long)(i->ended_wall_ms - i->begun_wall_ms), i->sandbox);
    packages_settled(i);
}

void install_fail(struct installation *i, int rc, const char *message, const char *hint)
{
    if (!is_settled(i)) {
        i->rc = rc;
        i->message = alloc_strdup(message);
        i->hint = alloc_strdup(hint);
        settle_installation(i, PACKAGE_FAILED);
    }
    if (i->phase == INSTALL_WAITING) {
        packages_over(i);
    } else {
        close_installer(i); /* an installer that is being opened is closed afterwards */
    }
}

static void fail_lost(struct installation *i, int rc, const struct err *err, const char *hint)
{
    CLEANUP_FREE char *message = NULL;
    const char *advice = "";
    rc = install_explain_loss(i, rc, err->text, hint, &message, &advice);
    install_fail(i, rc, message, advice);
}

static void take_versions(struct installation *i, struct view text)
{
    for (size_t k = 0; k < i->count; k++) {
        struct package *package = &i->packages[k];
        struct view version;
        if (package_reply_find(i->manager, text, view_of(package->name), &version)) {
            free((char *)(uintptr_t)package->version);
            package->version = alloc_viewdup(version);
        }
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Appends output; `said` is the number of bytes so far, including these. */
static void add_tail(struct installation *i, struct view text, uint64_t said)
{
    bool missed = said != i->said + text.len;
    i->said = said;
    i->tail_whole = missed ? 0 : i->tail_whole;
    if (text.len == 0) {
        return;
    }
    size_t n = text.len < INSTALL_TAIL_BYTES ? text.len : INSTALL_TAIL_BYTES;
    if (i->tail.len + n > INSTALL_TAIL_BYTES) {
        buf_consume(&i->tail, i->tail.len + n - INSTALL_TAIL_BYTES);
    }
    if (buf_add(&i->tail, text.data + text.len - n, n, NULL) < 0) {
        i->tail_whole = 0; /* the tail has less than all of it */
        return;
    }
    i->tail_whole += n;
    i->tail_whole = i->tail_whole < i->tail.len ? i->tail_whole : i->tail.len;
}

/* Replaces the tail by the program's kept output. */
static void set_tail(struct installation *i, const struct fleet_outcome *o)
{
    uint64_t said = i->before_said + o->err_bytes;
    buf_reset(&i->tail, INSTALL_TAIL_BYTES);
    i->tail_whole = 0;
    i->said = i->before_said;
    add_tail(i, o->err, i->before_said + o->err.len);
    add_tail(i, o->err_tail, said);
}

static bool on_installer_output(void *arg, const struct fleet_output *output)
{
    struct installation *i = arg;
    add_tail(i, output->err, i->said + output->err_new);
    if (!is_settled(i) && output->err.len > 0) {
        packages_progressed(i);
    }
    return true;
}

static void on_installer_progress(void *arg, const struct fleet_progress *progress)
{
    struct installation *i = arg;
    if (!is_settled(i)) {
        CLEANUP_FREE char *line = alloc_printf("%s\n", progress->text);
        struct view text = view_of(line);
        add_tail(i, text, i->said + text.len);
        i->before_said = i->said;
        packages_progressed(i);
    }
}

static void on_installer_outcome(void *arg, int rc, const struct fleet_outcome *o,
                                 const struct err *err, const char *hint)
{
    struct installation *i = arg;
    i->await = NULL;
    i->pending--;
    if (rc == 0 && !is_settled(i)) {
        set_tail(i, o);
    }
    if (is_settled(i)) {
        /* the outcome was reported already */
    } else if (rc < 0) {
        fail_lost(i, rc, err, hint);
    } else if (o->state == OP_DONE && o->sandbox_ended) {
        struct err ended = ERR_INIT;
        err_set(&ended, ERR_GONE, "%.*s", VIEW_ARG(o->end->error_message));
        fail_lost(i, -ERR_GONE, &ended, "");
    } else if (o->state != OP_DONE) {
        install_fail(i, -ERR_SHUTTING_DOWN, "the server is shutting down", "");
    } else if (o->end->status == OP_STATUS_OK) {
        take_versions(i, o->out);
        settle_installation(i, PACKAGE_INSTALLED);
    } else {
        CLEANUP_FREE char *message = NULL;
        const char *advice = "";
        rc = install_explain(i, o, &message, &advice);
        install_fail(i, rc, message, advice);
    }
    close_installer(i);
    if (i->pending == 0 && i->phase == INSTALL_CLOSING) {
        packages_over(i);
    }
}

/* ---- the installer ---- */

static void add_env(struct view *items, size_t *count, char **owned, const char *name,
                    const char *value)
{
    if (value[0] != '\0') {
        owned[*count] = alloc_printf("%s=%s", name, value);
        items[*count] = view_of(owned[*count]);
        (*count)++;
    }
}

static size_t build_env(const struct installation *i, struct view *items, char **owned)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"};
    static const char *const directly[] = {"no_proxy", "NO_PROXY"};
    static const char *const stores[] = {"PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
                                         "NODE_EXTRA_CA_CERTS"};
    char door[48];
    size_t count = 0;
    snprintf(door, sizeof(door), "http://127.0.0.1:%d", BACKEND_DOOR_PORT);
    for (size_t k = 0; k < sizeof(proxies) / sizeof(proxies[0]); k++) {
        add_env(items, &count, owned, proxies[k], door);
    }
    for (size_t k = 0; k < sizeof(directly) / sizeof(directly[0]); k++) {
        owned[count] = alloc_printf("%s=", directly[k]); /* whatever an image has there */
        items[count] = view_of(owned[count]);
        count++;
    }
    for (size_t k = 0; k < sizeof(stores) / sizeof(stores[0]); k++) {
        add_env(items, &count, owned, stores[k], i->p->package_ca[0] != '\0' ? CA_PATH : "");
    }
    return count;
}

/* The program's task, as one argument. */
static char *task_text(const struct installation *i)
{
    const struct config *c = i->p->config;
    bool pip = i->manager == PACKAGE_PIP;
    cJSON *task = cJSON_CreateObject();
    cJSON *words = cJSON_CreateArray();
    cJSON_AddStringToObject(task, "root", pip ? PACKAGES_ROOT "python" : PACKAGES_ROOT "node");
    cJSON_AddStringToObject(task, "id", i->id);
    for (size_t k = 0; k < i->count; k++) {
        cJSON_AddItemToArray(words, cJSON_CreateString(i->requirements[k]));
    }
    cJSON_AddItemToObject(task, "requirements", words);
    cJSON_AddStringToObject(task, "index", c->package_index);
    cJSON_AddStringToObject(task, "registry", c->npm_registry);
    cJSON_AddStringToObject(task, "wheels", i->p->package_dir[0] != '\0' ? WHEELS_PATH : "");
    cJSON_AddNumberToObject(task, "limit_mb", (double)c->packages_mb);
    cJSON_AddBoolToObject(task, "build", c->build_packages);
    char *text = alloc_check(cJSON_PrintUnformatted(task));
    cJSON_Delete(task);
    return text;
}

static void run_installer(struct installation *i)
{
    bool pip = i->manager == PACKAGE_PIP;
    CLEANUP_FREE char *task = task_text(i);
    const struct view python[] = {view_of("python3"), view_of("-I"), view_of("-"), view_of(task)};
    const struct view node[] = {view_of("node"), view_of("-"), view_of(task)};
    struct view env[ENV_MAX];
    char *owned[ENV_MAX];
    size_t env_count = build_env(i, env, owned);
    const struct fleet_op op = {
        .kind = OP_RUN,
        .has_stdin = true,
        .stdin_data = view_of(pip ? installer_pip : installer_npm),
        .args = pip ? (struct view_list){python, 4} : (struct view_list){node, 3},
        .env = {env, env_count},
        .timeout_ms = i->p->config->install_timeout_s * 1000,
        .keep_bytes = KEEP_BYTES,
    };
    char execution[FLEET_ID_SIZE];
    i->pending++;
    fleet_execute(i->p->fleet, INSTALLERS_OWNER, i->installer, &op, execution);
    i->await = fleet_await(i->p->fleet, INSTALLERS_OWNER, execution, FLEET_WAIT_FOR_EVER,
                           on_installer_outcome, i);
    fleet_await_output(i->await, OUTPUT_MS, on_installer_output);
    for (size_t k = 0; k < env_count; k++) {
        free(owned[k]);
    }
}

static void on_installer_open(void *arg, int rc, const struct fleet_info *info,
                              const struct err *err, const char *hint)
{
    struct installation *i = arg;
    i->pending--;
    if (rc < 0) {
        fail_lost(i, rc, err, hint);
        packages_over(i);
        return;
    }
    snprintf(i->installer, sizeof(i->installer), "%s", info->id);
    i->phase = INSTALL_RUNNING;
    if (is_settled(i)) {
        close_installer(i);
        return;
    }
    run_installer(i);
    packages_progressed(i);
}

struct target {
    const char *id;
    bool lives;
};

static void on_install_sandbox(void *arg, const struct fleet_info *info)
{
    struct target *target = arg;
    if (strcmp(info->id, target->id) == 0) {
        target->lives = strcmp(info->state, "ready") == 0 || strcmp(info->state, "recovering") == 0;
    }
}

bool install_has_target(const struct installation *i)
{
    struct target target = {.id = i->sandbox};
    fleet_list(i->p->fleet, i->owner, on_install_sandbox, &target);
    return target.lives;
}

void install_begin(struct installation *i)
{
    const struct config *c = i->p->config;
    struct view mounts[MOUNTS_MAX];
    size_t count = 0;
    if (i->manager == PACKAGE_PIP && i->p->package_dir[0] != '\0') {
        mounts[count++] = view_of(i->p->package_dir);
        mounts[count++] = view_of(WHEELS_PATH);
    }
    if (i->p->package_ca[0] != '\0') {
        mounts[count++] = view_of(i->p->package_ca);
        mounts[count++] = view_of(CA_PATH);
    }
    struct sources sources;
    sources_init(&sources, c, i->manager == PACKAGE_PIP);
    const struct fleet_spec spec = {
        .installs_for = i->sandbox,
        .door = sources.places,
        .door_proxy = sources.proxy,
        .door_proxy_auth = sources.proxy_auth,
        .memory_mb = c->memory_mb > MEMORY_MB ? c->memory_mb : MEMORY_MB,
        .ttl_ms = c->install_timeout_s * 1000 + TTL_MS,
        .mounts = {mounts, count},
        .progress = on_installer_progress,
    };
    i->phase = INSTALL_OPENING;
    i->pending++;
    fleet_open(i->p->fleet, INSTALLERS_OWNER, &spec, on_installer_open, i);
    sources_finish(&sources);
    packages_progressed(i);
}

void install_free(struct installation *i)
{
    for (size_t k = 0; k < i->count; k++) {
        free(i->requirements[k]);
        free((char *)(uintptr_t)i->packages[k].name);
        free((char *)(uintptr_t)i->packages[k].version);
    }
    free(i->requirements);
    free(i->packages);
    free(i->owner);
    free(i->message);
    free(i->hint);
    buf_finish(&i->tail);
    free(i);
}
