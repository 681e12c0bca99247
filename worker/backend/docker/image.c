/*
 *     inspect --there--> architecture fits? --> done
 *        |                                       ^
 *        +--not there, allowed--> pull --> inspect once more
 *
 * A pull has a timeout for silence and not in total, because its duration depends on the network:
 * an engine that reports nothing for a minute has lost its registry. Images are pulled without
 * credentials; for a private registry the hint names the docker command, which has them.
 */
#include "worker/backend/docker/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/json.h"
#include "worker/backend/docker/pull.h"

#define SILENCE_MS 60000

struct docker_image {
    struct docker_api *api;
    const struct backend_spec *spec;
    struct docker_call *call;
    struct docker_pull pull;
    struct err feed_err;
    bool pulled;
    docker_image_fn done;
    void *arg;
};

static void inspect(struct docker_image *i);

void docker_image_cancel(struct docker_image *i)
{
    if (i != NULL) {
        if (i->call != NULL) {
            docker_api_cancel(i->call);
        }
        docker_pull_finish(&i->pull);
        free(i);
    }
}

static void finish_image(struct docker_image *i, int rc, const char *id, const struct err *err,
                         const char *hint)
{
    docker_image_fn done = i->done;
    void *arg = i->arg;
    i->call = NULL;
    docker_image_cancel(i);
    done(arg, rc, id, err, hint);
}

int docker_image_agent_arch(const char *agent_path, const char **ret, struct err *err)
{
    static const struct {
        unsigned machine; /* e_machine of ELF; not every system has <elf.h> */
        const char *name;
    } rows[] = {
        {62, "amd64"}, {183, "arm64"}, {3, "386"}, {40, "arm"}, {22, "s390x"}, {243, "riscv64"},
    };
    unsigned char head[20]; /* e_ident, e_type, e_machine: the same for 32 and 64 bits */
    CLEANUP_FD int fd = open(agent_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(err, ERR_CONFIG, errno, "the agent %s", agent_path);
    }
    if (read(fd, head, sizeof(head)) != (ssize_t)sizeof(head) || memcmp(head, "\177ELF", 4) != 0) {
        return err_set(err, ERR_CONFIG, "the agent %s is not a Linux program", agent_path);
    }
    unsigned machine = head[5] == 2 /* big endian */ ? (unsigned)head[18] << 8 | head[19]
                                                     : (unsigned)head[19] << 8 | head[18];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].machine == machine) {
            *ret = rows[i].name;
            return 0;
        }
    }
    return err_set(err, ERR_CONFIG, "the agent %s is for a machine unknown here (%u)", agent_path,
                   machine);
}

void docker_image_split(const char *reference, char **ret_name, char **ret_tag)
{
    const char *digest = strchr(reference, '@');
    const char *end = digest != NULL ? digest : reference + strlen(reference);
    const char *colon = NULL; /* after the last slash: a colon before it begins a port */
    for (const char *p = reference; p < end; p++) {
        if (*p == '/') {
            colon = NULL;
        } else if (*p == ':') {
            colon = p;
        }
    }
    const char *name_end = colon != NULL ? colon : end;
    *ret_name = alloc_viewdup(view_bytes(reference, (size_t)(name_end - reference)));
    if (digest != NULL) {
        *ret_tag = alloc_strdup(digest + 1);
    } else if (colon != NULL) {
        *ret_tag = alloc_strdup(colon + 1);
    } else {
        *ret_tag = alloc_strdup("latest"); /* without a tag all tags would be pulled */
    }
}

/* ---- pull ----------------------------------------------------------------------------------- */

static bool on_pull_data(void *arg, struct view piece)
{
    struct docker_image *i = arg;
    if (docker_pull_feed(&i->pull, piece, &i->feed_err) < 0) {
        return false;
    }
    if (i->spec->progress != NULL) {
        CLEANUP_FREE char *text =
            alloc_printf("fetching image %s: %s", i->spec->image, i->pull.status);
        i->spec->progress(i->spec->progress_arg, text, i->pull.done, i->pull.total);
    }
    return true;
}

static void pull_failed(struct docker_image *i, const char *why)
{
    struct err err = ERR_INIT;
    char hint[BACKEND_HINT_MAX];
    err_set(&err, ERR_IMAGE, "image %.200s is not on the engine and could not be fetched: %s",
            i->spec->image, why);
    snprintf(
        hint, sizeof(hint),
        "try `docker pull %.200s` by hand (a private registry needs `docker login`); without a "
        "network "
        "use `docker load` or `docker import`, or name an image that is there (`docker images`)",
        i->spec->image);
    finish_image(i, -ERR_IMAGE, NULL, &err, hint);
}

static void on_pulled(void *arg, int rc, const struct docker_reply *reply, const struct err *err)
{
    struct docker_image *i = arg;
    i->call = NULL;
    (void)reply;
    if (i->feed_err.code != 0) {
        pull_failed(i, i->feed_err.text);
    } else if (rc < 0) {
        pull_failed(i, err->text);
    } else if (i->pull.error[0] != '\0') {
        pull_failed(i, i->pull.error);
    } else {
        inspect(i);
    }
}

static void pull(struct docker_image *i, const char *arch)
{
    CLEANUP_FREE char *name = NULL;
    CLEANUP_FREE char *tag = NULL;
    docker_image_split(i->spec->image, &name, &tag);
    CLEANUP_FREE char *name_text = http_escape(name);
    CLEANUP_FREE char *tag_text = http_escape(tag);
    CLEANUP_FREE char *path = alloc_printf(
        "/images/create?fromImage=%s&tag=%s&platform=linux%%2F%s", name_text, tag_text, arch);
    struct docker_request request = {
        .method = "POST",
        .path = path,
        .silence_ms = SILENCE_MS,
        .on_data = on_pull_data,
    };
    i->pulled = true;
    i->call = docker_api_call(i->api, &request, on_pulled, i);
}

/* ---- inspect -------------------------------------------------------------------------------- */

static void judge(struct docker_image *i, const cJSON *image, const char *arch)
{
    struct err err = ERR_INIT;
    const char *id = json_get_str(image, "Id");
    const char *os = json_get_str(image, "Os");
    const char *got = json_get_str(image, "Architecture");
    if (id == NULL) {
        err_set(&err, ERR_ENGINE, "the engine describes image %.200s without an id",
                i->spec->image);
        finish_image(i, -ERR_ENGINE, NULL, &err, "");
    } else if (os != NULL && os[0] != '\0' && strcmp(os, "linux") != 0) {
        err_set(&err, ERR_IMAGE, "image %.200s is for %.32s, not for linux", i->spec->image, os);
        finish_image(i, -ERR_IMAGE, NULL, &err, "name a Linux image");
    } else if (got != NULL && got[0] != '\0' && strcmp(got, arch) != 0) {
        char hint[BACKEND_HINT_MAX];
        err_set(&err, ERR_IMAGE, "image %.200s is for %.32s; the agent of this server is for %s",
                i->spec->image, got, arch);
        snprintf(hint, sizeof(hint),
                 "fetch it for this machine: `docker pull --platform linux/%s %.200s`", arch,
                 i->spec->image);
        finish_image(i, -ERR_IMAGE, NULL, &err, hint);
    } else {
        finish_image(i, 0, id, NULL, "");
    }
}

static void on_image_inspected(void *arg, int rc, const struct docker_reply *reply,
                               const struct err *err)
{
    struct docker_image *i = arg;
    const char *arch;
    struct err own = ERR_INIT;
    i->call = NULL;
    if (docker_image_agent_arch(i->spec->agent_path, &arch, &own) < 0) {
        finish_image(i, -own.code, NULL, &own, "");
    } else if (rc == 0) {
        judge(i, reply->json, arch);
    } else if (rc == -ERR_IMAGE || reply->status == 404) {
        if (i->pulled) {
            pull_failed(i, "the engine says it did, but does not have it");
        } else if (i->spec->pull) {
            pull(i, arch);
        } else {
            char hint[BACKEND_HINT_MAX];
            err_set(&own, ERR_IMAGE,
                    "image %.200s is not on the engine, and fetching is switched off",
                    i->spec->image);
            snprintf(hint, sizeof(hint),
                     "`docker pull %.200s` fetches it; `docker images` lists what is there; --pull "
                     "missing allows it",
                     i->spec->image);
            finish_image(i, -ERR_IMAGE, NULL, &own, hint);
        }
    } else {
        finish_image(i, rc, NULL, err, "");
    }
}

static void inspect(struct docker_image *i)
{
    /* slashes are part of the path here, and no other character of a reference needs escaping */
    CLEANUP_FREE char *path = alloc_printf("/images/%s/json", i->spec->image);
    struct docker_request request = {.method = "GET", .path = path};
    i->call = docker_api_call(i->api, &request, on_image_inspected, i);
}

struct docker_image *docker_image_get(struct docker_api *api, const struct backend_spec *spec,
                                      docker_image_fn done, void *arg)
{
    struct docker_image *i = alloc_one(struct docker_image);
    i->api = api;
    i->spec = spec;
    i->done = done;
    i->arg = arg;
    docker_pull_init(&i->pull);
    inspect(i);
    return i;
}
