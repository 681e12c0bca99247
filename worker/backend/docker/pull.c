/*
 * The HTTP status of a pull only says that it has begun; its last lines report the result. So an
 * error in them overrides a status of 200.
 *
 * The total grows while layers become known, so progress may fall in per cent but never in bytes.
 * Layers beyond the table are pulled but not counted.
 */
#include "worker/backend/docker/pull.h"

#include <stdio.h>
#include <string.h>

#include "common/io/json.h"
#include "common/str.h"

#define LINE_MAX_BYTES (64u << 10)
#define LINE_DEPTH     8

void docker_pull_init(struct docker_pull *p)
{
    memset(p, 0, sizeof(*p));
    lines_init(&p->lines, LINE_MAX_BYTES);
}

void docker_pull_finish(struct docker_pull *p)
{
    lines_finish(&p->lines);
}

/* For people: cut at a character, one line. */
static void copy_text(char *dst, size_t size, const char *text)
{
    size_t len = strlen(text);
    len = utf8_valid_prefix(text, len < size - 1 ? len : size - 1);
    memcpy(dst, text, len);
    dst[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)dst[i] < ' ') {
            dst[i] = ' ';
        }
    }
}

static uint64_t bytes_of(const cJSON *detail, const char *key)
{
    const cJSON *item = json_get(detail, key);
    return json_is_int(item) && item->valuedouble > 0 ? (uint64_t)item->valuedouble : 0;
}

static void take_layer(struct docker_pull *p, const char *id, uint64_t done, uint64_t total)
{
    size_t i = 0;
    while (i < p->layer_count && strncmp(p->layers[i].id, id, sizeof(p->layers[i].id) - 1) != 0) {
        i++;
    }
    if (i == DOCKER_PULL_LAYERS) {
        return;
    }
    if (i == p->layer_count) {
        p->layer_count++;
        copy_text(p->layers[i].id, sizeof(p->layers[i].id), id);
    }
    if (total >= p->layers[i].total && done >= p->layers[i].done && done <= total) {
        p->layers[i].done = done;
        p->layers[i].total = total;
    }
    p->done = 0;
    p->total = 0;
    for (i = 0; i < p->layer_count; i++) {
        p->done += p->layers[i].done;
        p->total += p->layers[i].total;
    }
}

static void take_object(struct docker_pull *p, const cJSON *object)
{
    const char *status = json_get_str(object, "status");
    const char *id = json_get_str(object, "id");
    const char *error = json_get_str(json_get(object, "errorDetail"), "message");
    const cJSON *detail = json_get(object, "progressDetail");
    error = error != NULL ? error : json_get_str(object, "error");
    if (error != NULL) {
        copy_text(p->error, sizeof(p->error),
                  error[0] != '\0' ? error : "the engine does not say why");
    }
    if (status != NULL) {
        copy_text(p->status, sizeof(p->status), status);
    }
    /* only downloads count: extraction counts the bytes again */
    if (status != NULL && id != NULL && strcmp(status, "Downloading") == 0) {
        take_layer(p, id, bytes_of(detail, "current"), bytes_of(detail, "total"));
    }
}

static void take_pull_line(struct docker_pull *p, struct view line)
{
    cJSON *object;
    if (json_parse(line.data, line.len, LINE_MAX_BYTES, LINE_DEPTH, &object, NULL, NULL) == 0) {
        take_object(p, object);
        cJSON_Delete(object);
    }
}

int docker_pull_feed(struct docker_pull *p, struct view bytes, struct err *err)
{
    struct view line;
    int rc;
    while ((rc = lines_next(&p->lines, &bytes, &line, err)) > 0) {
        take_pull_line(p, line);
    }
    return rc < 0 ? err_wrap(err, "the engine's report on fetching an image") : 0;
}
