/*
 * A sandbox is a virtual machine of its own, whose size is its template's. In it the agent is root
 * and gives code a uid that nobody else there has: stock templates have a user who may become root
 * by a word.
 *
 * What is uploaded cannot be executed, directories are not there, and the workspace is to have a
 * size: so a few words of shell come first. They become the agent. The workspace is in memory, as
 * under the other backends.
 */
#include "worker/backend/e2b/agent.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "common/str.h"
#include "worker/backend/e2b/stream.h"
#include "worker/backend/json_build.h"
#include "worker/backend/sandbox_defaults.h"
#include "worker/backend/spec_copy.h"

#define AGENT_MAX    (32u << 20)
#define UIDS_END     65536
#define SOCKET_DIR   "/run/cloister"
#define FLAG_SANDBOX "--sandbox"

/* $0 agent, $1 uid, $2 home, $3 workspace, $4 what else code may write in, $5 options of the
 * workspace's mount, then the agent's words */
static const char script[] =
    "mkdir -p " SOCKET_DIR " \"$2\" \"$3\" \"$4\" && chmod 0700 " SOCKET_DIR " && "
    "mount -t tmpfs -o \"$5\" tmpfs \"$3\" && chown \"$1:$1\" \"$2\" \"$3\" \"$4\" && "
    "chmod 0755 \"$0\" && shift 5 && exec \"$0\" \"$@\"";

int e2b_agent_read(const char *agent_path, struct e2b_agent *ret, struct err *err)
{
    struct e2b_agent a = {.path = NULL};
    buf_init(&a.bytes, AGENT_MAX);
    if (file_read(agent_path, &a.bytes, err) < 0 || a.bytes.len == 0) {
        struct err why = *err;
        buf_finish(&a.bytes);
        return err_set(err, ERR_CONFIG,
                       "the agent for sandboxes: %.300s; is the installation whole?",
                       why.code != 0 ? why.text : "an empty file");
    }
    a.path = alloc_printf("/opt/cloister/agent-%016" PRIx64, hash_bytes(a.bytes.data, a.bytes.len));
    *ret = a;
    return 0;
}

void e2b_agent_finish(struct e2b_agent *a)
{
    buf_finish(&a->bytes);
    free(a->path);
    a->path = NULL;
}

static void append_two_words(cJSON *words, const char *flag, const char *value)
{
    json_build_append_string(words, flag);
    json_build_append_string(words, value);
}

static void append_amount(cJSON *words, const char *flag, uint64_t value)
{
    CLEANUP_FREE char *text = alloc_printf("%" PRIu64, value);
    append_two_words(words, flag, text);
}

int e2b_agent_command(const struct e2b_agent *a, const struct backend_spec *spec, cJSON **ret_words,
                      cJSON **ret_env, struct err *err)
{
    const struct backend_limits limits = spec_copy_limits(&spec->limits);
    const struct sandbox_env env = {.network = spec->network, .extra = &spec->env};
    CLEANUP_FREE char *uid = alloc_printf("%" PRIu32, sandbox_uid_apart(spec->id, UIDS_END));
    CLEANUP_FREE char *mount =
        alloc_printf("nosuid,nodev,mode=0755,size=%" PRIu64 ",nr_inodes=%" PRIu64,
                     limits.disk_bytes, sandbox_inodes(limits.disk_bytes));
    cJSON *holder = json_build_new();
    cJSON *list = json_build_array(holder, "env");
    int rc = sandbox_env_add(list, &env, err);
    if (rc < 0) {
        cJSON_Delete(holder);
        return rc;
    }
    cJSON *words = json_build_array(holder, "words");
    append_two_words(words, "/bin/sh", "-c");
    append_two_words(words, script, a->path);
    json_build_append_string(words, uid);
    append_two_words(words, SANDBOX_HOME, backend_workspace(spec));
    json_build_append_string(words, spec->app_dir ? BACKEND_APP : backend_workspace(spec));
    json_build_append_string(words, mount);
    json_build_append_string(words, "serve");
    append_two_words(words, "--listen", E2B_AGENT_SOCKET);
    append_two_words(words, FLAG_SANDBOX, spec->id);
    append_amount(words, "--grace-ms", spec->grace_ms);
    append_two_words(words, "--uid", uid);
    append_two_words(words, "--gid", uid);
    append_amount(words, "--nproc", limits.pids);
    append_amount(words, "--nofile", limits.files);
    append_amount(words, "--data-bytes", limits.memory_bytes); /* nothing else limits memory */
    append_amount(words, "--memory-bytes", limits.memory_bytes);
    append_two_words(words, "--workspace", backend_workspace(spec));
    append_two_words(words, "--home", SANDBOX_HOME);
    if (spec->door) {
        append_amount(words, "--door", BACKEND_DOOR_PORT);
    }
    json_build_append_string(words, "--filter");
    *ret_words = cJSON_DetachItemViaPointer(holder, words);
    *ret_env = cJSON_DetachItemViaPointer(holder, list);
    cJSON_Delete(holder);
    return 0;
}

bool e2b_agent_is_listed(const cJSON *list, const char *sandbox)
{
    const cJSON *process, *word;
    cJSON_ArrayForEach(process, json_get(list, "processes"))
    {
        bool names = false;
        cJSON_ArrayForEach(word, json_get(json_get(process, "config"), "args"))
        {
            if (names && cJSON_IsString(word) && strcmp(word->valuestring, sandbox) == 0) {
                return true;
            }
            names = cJSON_IsString(word) && strcmp(word->valuestring, FLAG_SANDBOX) == 0;
        }
    }
    return false;
}

size_t e2b_agent_unapplied(const char *ret[BACKEND_UNAPPLIED_MAX])
{
    size_t count = 0;
    ret[count++] = "memory: a sandbox has its template's; RLIMIT_DATA of each process stands in";
    ret[count++] = "cpus: a sandbox has its template's";
    ret[count++] = "pids: a sandbox has no limit of its own; RLIMIT_NPROC of a uid that is no "
                   "other's stands in";
    return count;
}
