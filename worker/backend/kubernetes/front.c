/*
 * A pod has one owner at any time: the server whose id is in its label. Whoever wants it changes
 * the label with the resourceVersion that he has seen, so of two that want it one gets it
 * (fronts.c). The old owner may not know yet. So before it goes to a pod again, or removes one, it
 * looks at the label, and leaves a pod alone that is another's.
 *
 * The id is random and lies in the instance's directory, where all workers of that server find it:
 * names of hosts and of instances are not unique in a cluster.
 */
#include "worker/backend/kubernetes/front.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"
#include "worker/backend/json_build.h"
#include "worker/backend/kubernetes/cluster.h"

#define ID_MAX     40
#define RECORD_MAX ((size_t)64 << 10)

char *kube_front_own(const char *shared_dir)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, ID_MAX);
    if (shared_dir == NULL) {
        return NULL;
    }
    CLEANUP_FREE char *path = alloc_printf("%s/front", shared_dir);
    if (file_read(path, &text, NULL) < 0 || buf_cstr(&text) == NULL ||
        !kube_is_label((const char *)text.data)) {
        return NULL;
    }
    return alloc_strdup((const char *)text.data);
}

bool kube_front_is_others(const cJSON *pod, const char *own)
{
    const cJSON *labels = json_get(json_get(pod, "metadata"), "labels");
    const char *front = json_get_str(labels, KUBE_LABEL_FRONT);
    return own != NULL && front != NULL && strcmp(front, own) != 0;
}

bool kube_front_record(const cJSON *pod, struct buf *ret)
{
    const cJSON *annotations = json_get(json_get(pod, "metadata"), "annotations");
    const char *text = json_get_str(annotations, KUBE_ANNOTATION_RECORD);
    return text != NULL && base64_decode(ret, view_of(text), NULL) == 0 && ret->len > 0;
}

bool kube_front_is_spare(const cJSON *pod)
{
    const cJSON *annotations = json_get(json_get(pod, "metadata"), "annotations");
    const char *text = json_get_str(annotations, KUBE_ANNOTATION_RECORD);
    return text != NULL && text[0] == '\0';
}

int kube_front_keep(struct view record, const char *like, const char *version, char **ret_change,
                    struct err *err)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, 2 * RECORD_MAX);
    int rc = base64_encode(&text, record, err);
    if (rc == 0 && buf_cstr(&text) == NULL) {
        rc = err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    if (rc < 0) {
        return rc;
    }
    cJSON *body = json_build_new();
    cJSON *metadata = json_build_object(body, "metadata");
    cJSON *annotations = json_build_object(metadata, "annotations");
    json_build_string(annotations, KUBE_ANNOTATION_RECORD, (const char *)text.data);
    if (version != NULL) {
        json_build_string(metadata, "resourceVersion", version);
        json_build_put(json_build_object(metadata, "labels"), KUBE_LABEL_SPARE,
                       like != NULL ? cJSON_CreateString(like) : cJSON_CreateNull());
    }
    *ret_change = json_build_print(body);
    cJSON_Delete(body);
    return 0;
}
