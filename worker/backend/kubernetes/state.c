/*
 * Kubernetes says why a pod does not run in four places: the reason of the pod (Evicted), a
 * condition (Unschedulable, DisruptionTarget), the reason for which its container waits
 * (ErrImagePull), and the end of the container (OOMKilled). A pod that waits for an image that
 * cannot be pulled stays pending for ever, so the reasons from which nothing comes are known here
 * by name; any other is waited for.
 *
 * A pod whose node does not answer may run: it counts as waiting, never as ended.
 */
#include "worker/backend/kubernetes/state.h"

#include <stdio.h>
#include <string.h>

#include "common/io/json.h"
#include "common/str.h"
#include "worker/backend/kubernetes/pod.h"

void kube_words(const char *text, char *ret, size_t size)
{
    size_t len = text != NULL ? strnlen(text, size - 1) : 0;
    len = text != NULL ? utf8_valid_prefix(text, len) : 0;
    for (size_t i = 0; i < len; i++) {
        ret[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    }
    ret[len] = '\0';
}

static bool is_one_of(const char *reason, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (reason != NULL && strcmp(reason, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void take_waiting(const cJSON *waiting, struct kube_state *s)
{
    static const char *const image[] = {
        "ErrImagePull",      "ImagePullBackOff",    "InvalidImageName",         "ErrImageNeverPull",
        "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"};
    static const char *const config[] = {"CreateContainerConfigError", "CreateContainerError",
                                         "RunContainerError",          "CrashLoopBackOff",
                                         "PreCreateHookError",         "PostStartHookError"};
    char reason[64], message[360];
    kube_words(json_get_str(waiting, "reason"), reason, sizeof(reason));
    kube_words(json_get_str(waiting, "message"), message, sizeof(message));
    bool is_image = is_one_of(reason, image, sizeof(image) / sizeof(image[0]));
    if (is_image || is_one_of(reason, config, sizeof(config) / sizeof(config[0]))) {
        s->kind = KUBE_STATE_HOPELESS;
        err_ignore(err_set(&s->err, is_image ? ERR_IMAGE : ERR_ENGINE, "the node says: %s%s%s",
                           reason, message[0] != '\0' ? ": " : "", message));
        return;
    }
    snprintf(s->words, sizeof(s->words), "%s%s%.100s", reason, message[0] != '\0' ? ": " : "",
             message);
}

static void take_end(const cJSON *terminated, struct kube_state *s)
{
    char reason[64], message[300];
    const cJSON *code = json_get(terminated, "exitCode");
    kube_words(json_get_str(terminated, "reason"), reason, sizeof(reason));
    kube_words(json_get_str(terminated, "message"), message, sizeof(message));
    s->kind = KUBE_STATE_ENDED;
    s->was_oom = strcmp(reason, "OOMKilled") == 0;
    err_ignore(err_set(&s->err, ERR_GONE, BACKEND_ENDED "its container did (%s, exit code %d)%s%s",
                       reason[0] != '\0' ? reason : "no reason is known",
                       json_is_int(code) ? code->valueint : -1, message[0] != '\0' ? ": " : "",
                       message));
}

static const cJSON *container_state(const cJSON *status)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(status, "containerStatuses"))
    {
        const char *name = json_get_str(item, "name");
        if (name != NULL && strcmp(name, KUBE_CONTAINER) == 0) {
            return json_get(item, "state");
        }
    }
    return NULL;
}

static bool has_phase_of_end(const cJSON *status)
{
    const char *phase = json_get_str(status, "phase");
    return phase != NULL && (strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0);
}

static void take_conditions(const cJSON *status, struct kube_state *s)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(status, "conditions"))
    {
        const char *type = json_get_str(item, "type");
        const char *reason = json_get_str(item, "reason");
        if (type != NULL && strcmp(type, "PodScheduled") == 0 && reason != NULL &&
            strcmp(reason, "Unschedulable") == 0) {
            s->kind = KUBE_STATE_HOMELESS;
            kube_words(json_get_str(item, "message"), s->words, sizeof(s->words));
        }
    }
}

/* Newer clusters say in a condition who disturbs a pod: an eviction, a scheduler that needs its
 * place, a node that shuts down. */
static void take_deletion(const cJSON *status, struct kube_state *s)
{
    char reason[64] = "", message[300] = "";
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(status, "conditions"))
    {
        const char *type = json_get_str(item, "type");
        if (type != NULL && strcmp(type, "DisruptionTarget") == 0) {
            kube_words(json_get_str(item, "reason"), reason, sizeof(reason));
            kube_words(json_get_str(item, "message"), message, sizeof(message));
        }
    }
    s->kind = KUBE_STATE_ENDED;
    if (reason[0] == '\0') {
        err_ignore(err_set(&s->err, ERR_GONE,
                           BACKEND_ENDED "somebody or the cluster is deleting its pod"));
    } else {
        err_ignore(err_set(&s->err, ERR_GONE,
                           BACKEND_ENDED "the cluster is deleting its pod: %s%s%s", reason,
                           message[0] != '\0' ? ": " : "", message));
    }
}

int kube_state_read(const cJSON *pod, struct kube_state *ret, struct err *err)
{
    const cJSON *metadata = json_get(pod, "metadata");
    const cJSON *status = json_get(pod, "status");
    const char *kind = json_get_str(pod, "kind");
    if (!cJSON_IsObject(metadata) || (kind != NULL && strcmp(kind, "Pod") != 0)) {
        return err_set(err, ERR_PROTOCOL, "the answer of the API server is no pod");
    }
    const cJSON *state = container_state(status);
    const cJSON *terminated = json_get(state, "terminated");
    bool over = has_phase_of_end(status);
    char reason[64], message[300];
    *ret = (struct kube_state){.kind = KUBE_STATE_WAITING};
    kube_words(json_get_str(status, "reason"), reason, sizeof(reason));
    kube_words(json_get_str(status, "message"), message, sizeof(message));
    if (over && reason[0] != '\0') { /* the pod's own reason says more than its container's */
        take_end(terminated, ret);
        err_ignore(err_set(&ret->err, ERR_GONE, BACKEND_ENDED "the cluster says %s%s%s", reason,
                           message[0] != '\0' ? ": " : "", message));
    } else if (cJSON_IsObject(terminated) || over) {
        take_end(terminated, ret);
    } else if (json_get_str(metadata, "deletionTimestamp") != NULL) {
        take_deletion(status, ret);
    } else if (cJSON_IsObject(json_get(state, "running"))) {
        ret->kind = KUBE_STATE_RUNNING;
    } else if (cJSON_IsObject(json_get(state, "waiting"))) {
        take_waiting(json_get(state, "waiting"), ret);
    } else {
        take_conditions(status, ret);
    }
    return 0;
}

bool kube_state_is_over(const cJSON *pod)
{
    const cJSON *status = json_get(pod, "status");
    return cJSON_IsObject(json_get(container_state(status), "terminated")) ||
           has_phase_of_end(status);
}

const char *kube_state_uid(const cJSON *pod)
{
    return json_get_str(json_get(pod, "metadata"), "uid");
}

bool kube_state_is_of(const cJSON *pod, const char *sandbox)
{
    const cJSON *labels = json_get(json_get(pod, "metadata"), "labels");
    const char *managed = json_get_str(labels, KUBE_LABEL_MANAGED);
    const char *own = json_get_str(labels, KUBE_LABEL_SANDBOX);
    return managed != NULL && strcmp(managed, KUBE_MANAGED) == 0 && own != NULL &&
           strcmp(own, sandbox) == 0;
}
