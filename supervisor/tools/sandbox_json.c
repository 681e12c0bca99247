/*
 * Parses and describes sandboxes. A limit that this host could not apply is reported both in the
 * fields and in the text: a client that relies on a limit must see that it is missing.
 */
#include "supervisor/tools/sandbox_json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/base/ceilings.h"
#include "supervisor/base/config.h"
#include "supervisor/base/image.h"
#include "supervisor/base/share.h"
#include "supervisor/results/result.h"

#define WORDS_MAX 64 /* items of a list */

/* Chooses an image by reference. Whether there is an engine for it is checked when the sandbox is
 * created. */
static int choose_reference(struct sandbox_choice *c, const char *reference,
                            const struct config *config, struct err *err)
{
    int rc = image_check_reference(reference, err);
    if (rc < 0) {
        return rc;
    }
    if (strcmp(reference, config->image) != 0 &&
        !image_is_allowed(config->allow_images, reference)) {
        return err_set(err, ERR_IMAGE,
                       "image %s is not one that this server allows (--allow-images): %.300s",
                       reference, config->allow_images);
    }
    c->spec.image = reference;
    c->spec.image_is_reference = true;
    return 0;
}

static int choose_directory(struct sandbox_choice *c, const char *name, const struct config *config,
                            struct err *err)
{
    int rc = args_check_name("image", name, err);
    if (rc < 0) {
        return rc;
    }
    if (config->image_dir[0] == '\0') {
        return err_set(err, ERR_IMAGE,
                       "this server offers no images to choose from (its operator can, with "
                       "--image-dir); leave image out");
    }
    int n = snprintf(c->image, sizeof(c->image), "%s/%s", config->image_dir, name);
    if (n < 0 || (size_t)n >= sizeof(c->image)) {
        return err_set(err, ERR_IMAGE, "the path of image %s is too long", name);
    }
    if (access(c->image, F_OK) < 0) {
        return err_set(err, ERR_IMAGE, "this server has no image named %s", name);
    }
    c->spec.image = c->image;
    return 0;
}

/* The directories that it asks for by name, of those that the operator offers. */
static int choose_shares(struct sandbox_choice *c, const cJSON *args, const struct config *config,
                         struct err *err)
{
    int rc = args_strings(args, "shares", &c->shares, err);
    struct shares shares = shares_of(config->share);
    for (size_t i = 0; rc == 0 && i < c->shares.count; i++) {
        if (share_find(&shares, c->shares.items[i]) == NULL) {
            rc = err_set(err, ERR_INVALID, "shares: this server has no directory named %.*s",
                         VIEW_ARG(c->shares.items[i]));
        }
    }
    c->spec.shares = args_list_view(&c->shares);
    return rc;
}

/* 0 if it is absent, or no number. */
static double number(const cJSON *object, const char *key)
{
    const cJSON *item = json_get(object, key);
    return item != NULL ? item->valuedouble : 0;
}

int sandbox_choice_check(const cJSON *args, const struct config *config, struct err *err)
{
    const struct ceilings_asked asked = {
        .memory_mb = number(args, "memory_mb"),
        .cpus = number(args, "cpus"),
        .pids = number(args, "pids"),
        .disk_mb = number(args, "disk_mb"),
    };
    return ceilings_check(config, &asked, err);
}

int sandbox_choice_read(struct sandbox_choice *ret, const cJSON *args, const struct config *config,
                        struct err *err)
{
    *ret = (struct sandbox_choice){.env = {NULL, 0}};
    const char *name = json_get_str(args, "name");
    const char *image = json_get_str(args, "image");
    const cJSON *cpus = json_get(args, "cpus");
    int rc = name != NULL ? args_check_name("name", name, err) : 0;
    if (rc == 0 && image != NULL) {
        rc = config_names_references(config) ? choose_reference(ret, image, config, err)
                                             : choose_directory(ret, image, config, err);
    }
    const char *network = json_get_str(args, "network");
    bool full = network != NULL && strcmp(network, "full") == 0;
    if (rc == 0 && full && !config->allow_network) {
        rc = err_set(err, ERR_NETWORK, "this server gives sandboxes no network");
    }
    if (rc == 0) {
        rc = args_env(args, &ret->env, err);
    }
    if (rc == 0) {
        rc = choose_shares(ret, args, config, err);
    }
    if (rc < 0) {
        sandbox_choice_finish(ret);
        return rc;
    }
    struct fleet_spec *spec = &ret->spec;
    spec->name = name;
    spec->network = full;
    spec->memory_mb = args_uint(args, "memory_mb");
    spec->cpus = cpus != NULL ? cpus->valuedouble : 0;
    spec->pids = args_uint(args, "pids");
    spec->disk_mb = args_uint(args, "disk_mb");
    spec->timeout_ms = args_ms(args, "timeout_seconds");
    spec->ttl_ms = args_ms(args, "ttl_seconds");
    spec->env = args_list_view(&ret->env);
    return 0;
}

void sandbox_choice_finish(struct sandbox_choice *choice)
{
    args_list_finish(&choice->env);
    args_list_finish(&choice->shares);
}

static void put_strings(cJSON *object, const char *key, const char *const *texts, size_t count)
{
    cJSON *array = result_put_array(object, key);
    for (size_t i = 0; i < count && i < WORDS_MAX; i++) {
        cJSON_AddItemToArray(array, result_words(texts[i]));
    }
}

/* "/shared/data (read-only)", … */
static void put_shares(cJSON *object, const struct view_list *shares)
{
    cJSON *array = shares->count > 0 ? result_put_array(object, "shares") : NULL;
    for (size_t i = 0; i + 2 < shares->count; i += 3) {
        CLEANUP_FREE char *text =
            alloc_printf("/shared/%.*s (%s)", VIEW_ARG(shares->items[i + 1]),
                         view_is(shares->items[i + 2], "rw") ? "writable" : "read-only");
        cJSON_AddItemToArray(array, result_words(text));
    }
}

void sandbox_json_put_info(cJSON *object, const struct fleet_info *info)
{
    result_put_text(object, "sandbox_id", info->id);
    result_put_words(object, "name", info->name);
    result_put_words(object, "backend", info->backend);
    result_put_words(object, "runtime", info->runtime);
    result_put_words(object, "image", info->image);
    result_put_words(object, "state", info->state);
    if (info->reason[0] != '\0') {
        result_put_words(object, "reason", info->reason);
    }
    put_strings(object, "languages", info->languages, info->language_count);
    cJSON *limits = result_put_object(object, "limits");
    result_put_uint(limits, "memory_mb", info->memory_mb);
    result_put_number(limits, "cpus", info->cpus);
    result_put_uint(limits, "pids", info->pids);
    result_put_uint(limits, "disk_mb", info->disk_mb);
    result_put_uint(limits, "files", info->files);
    result_put_number(limits, "timeout_seconds", (double)info->timeout_ms / 1000.0);
    result_put_number(limits, "ttl_seconds", (double)info->ttl_ms / 1000.0);
    result_put_number(limits, "lifetime_seconds", (double)info->lifetime_ms / 1000.0);
    put_strings(limits, "unapplied", info->unapplied, info->unapplied_count);
    result_put_text(object, "network", info->network);
    result_put_words(object, "workspace", info->workspace);
    put_shares(object, &info->shares);
    result_put_time(object, "created_at", info->created_wall_ms);
    result_put_time(object, "expires_at", info->expires_wall_ms);
    result_put_time(object, "ends_at", info->ends_wall_ms);
}

void sandbox_json_put_status(cJSON *object, const struct fleet_info *info)
{
    sandbox_json_put_info(object, info);
    result_put_uint(object, "executions", info->executions);
    cJSON *worker = result_put_object(object, "worker");
    result_put_int(worker, "pid", info->worker_pid);
    result_put_uint(worker, "restarts", info->worker_restarts);
    if (info->has_usage) {
        cJSON *usage = result_put_object(object, "usage");
        result_put_uint(usage, "memory_bytes", info->memory_bytes);
        result_put_number(usage, "cpu_ms", (double)info->cpu_us / 1000.0);
        result_put_uint(usage, "processes", info->processes);
        result_put_uint(usage, "disk_bytes", info->disk_bytes);
    }
}

cJSON *sandbox_json_execution(const struct fleet_outcome *o)
{
    cJSON *row = cJSON_CreateObject();
    const char *status = o->state == OP_DONE     ? op_status_name(o->end->status)
                         : o->state == OP_QUEUED ? "queued"
                                                 : "running";
    result_put_text(row, "execution_id", o->op);
    result_put_text(row, "status", status);
    result_put_words(row, "language", o->language);
    result_put_time(row, "started_at", o->started_wall_ms);
    result_put_number(row, "duration_ms", (double)o->duration_us / 1000.0);
    return row;
}

static void add_phrase_list(struct buf *text, const char *before, const char *between,
                            const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        text_printf(text, "%s%s", item == list->child ? before : between, item->valuestring);
    }
}

void sandbox_json_text(struct buf *text, const cJSON *object)
{
    const char *name = json_get_str(object, "name");
    const char *reason = json_get_str(object, "reason");
    const cJSON *limits = json_get(object, "limits");
    text_printf(text, "Sandbox %s", json_get_str(object, "sandbox_id"));
    if (name[0] != '\0') {
        text_printf(text, " (%s)", name);
    }
    const char *image = json_get_str(object, "image");
    text_printf(text, ": %s%s%s, backend %s%s%s\n", json_get_str(object, "state"),
                reason != NULL ? ", " : "", reason != NULL ? reason : "",
                json_get_str(object, "backend"), image[0] != '\0' ? ", image " : "", image);
    add_phrase_list(text, "Languages: ", ", ", json_get(object, "languages"));
    text_printf(text, "\nWorkspace: %s", json_get_str(object, "workspace"));
    add_phrase_list(text, "\nDirectories of the host: ", ", ", json_get(object, "shares"));
    text_printf(text, "\n");
    text_printf(text,
                "Limits: memory %.15g MiB, %.15g CPU, %.15g processes, disk %.15g MiB, "
                "executions %.15g s, %s network; closes after %.15g s without a call, after %.15g "
                "s in any case",
                number(limits, "memory_mb"), number(limits, "cpus"), number(limits, "pids"),
                number(limits, "disk_mb"), number(limits, "timeout_seconds"),
                strcmp(json_get_str(object, "network"), "full") == 0 ? "full" : "no",
                number(limits, "ttl_seconds"), number(limits, "lifetime_seconds"));
    add_phrase_list(text, "\nNot enforced on this host: ", "; ", json_get(limits, "unapplied"));
}
