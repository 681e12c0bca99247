/*
 * States are kept in a table, not sealed and sent along. So a state may have any size within the
 * limits, a client learns nothing from it, and there is no key to keep. The price is that a state's
 * name dies with the server, which then treats it like a forged one, and the client starts again.
 *
 * New states are appended and all live equally long, so the oldest is always first.
 */
#include "supervisor/mcp/input_states.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/str.h"
#include "supervisor/mcp/input_round.h"

struct input_state {
    struct input_state *next;
    char name[INPUT_STATE_NAME_CHARS + 1];
    char *owner;
    uint64_t binding;
    cJSON *value;
    uint64_t until_ms;
};

/* `slot` is the pointer that refers to it. */
static void drop_input_state(struct input_states *s, struct input_state **slot,
                             struct input_state *before)
{
    struct input_state *gone = *slot;
    *slot = gone->next;
    if (s->last == gone) {
        s->last = before;
    }
    s->count--;
    free(gone->owner);
    cJSON_Delete(gone->value);
    free(gone);
}

void input_states_finish(struct input_states *s)
{
    while (s->first != NULL) {
        drop_input_state(s, &s->first, NULL);
    }
}

void input_states_expire(struct input_states *s, uint64_t now_ms)
{
    while (s->first != NULL && s->first->until_ms <= now_ms) {
        drop_input_state(s, &s->first, NULL);
    }
}

uint64_t input_states_due(const struct input_states *s)
{
    return s->first != NULL ? s->first->until_ms : UINT64_MAX;
}

static void make_input_room(struct input_states *s, const char *owner)
{
    size_t own = 0;
    struct input_state **oldest = NULL; /* refers to the oldest state of this owner */
    struct input_state *before = NULL, *before_oldest = NULL;
    for (struct input_state **p = &s->first; *p != NULL; before = *p, p = &(*p)->next) {
        if (strcmp((*p)->owner, owner) == 0 && own++ == 0) {
            oldest = p;
            before_oldest = before;
        }
    }
    if (own >= INPUT_STATES_EACH) {
        drop_input_state(s, oldest, before_oldest);
    } else if (s->count >= INPUT_STATES) {
        drop_input_state(s, &s->first, NULL);
    }
}

int input_states_put(struct input_states *s, const char *owner, uint64_t binding, cJSON *value,
                     uint64_t now_ms, const char **ret_name, struct err *err)
{
    char name[INPUT_STATE_NAME_CHARS + 1];
    int rc = random_id(name, INPUT_STATE_NAME_CHARS, err);
    if (rc == 0 && input_weight(value) > INPUT_STATE_BYTES) {
        rc = err_set(err, ERR_TOO_BIG, "a state of more than %u bytes cannot be kept",
                     INPUT_STATE_BYTES);
    }
    if (rc < 0) {
        cJSON_Delete(value);
        return rc;
    }
    input_states_expire(s, now_ms);
    make_input_room(s, owner);
    struct input_state *one = alloc_one(struct input_state);
    memcpy(one->name, name, sizeof(one->name));
    one->owner = alloc_strdup(owner);
    one->binding = binding;
    one->value = value;
    one->until_ms = now_ms + INPUT_STATE_TIME_MS;
    *(s->last != NULL ? &s->last->next : &s->first) = one;
    s->last = one;
    s->count++;
    *ret_name = one->name;
    return 0;
}

const cJSON *input_states_find(const struct input_states *s, const char *owner, uint64_t binding,
                               const char *name, uint64_t now_ms)
{
    for (const struct input_state *one = s->first; one != NULL; one = one->next) {
        if (strcmp(one->name, name) == 0) {
            bool fits =
                one->binding == binding && one->until_ms > now_ms && strcmp(one->owner, owner) == 0;
            return fits ? one->value : NULL;
        }
    }
    return NULL;
}

/* ---- bindings -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t both[2] = {a, b};
    return hash_bytes(both, sizeof(both));
}

static uint64_t hash_value(const cJSON *value)
{
    int type = value->type & 0xff; /* the other bits say who owns the memory */
    uint64_t hash = hash_bytes(&type, sizeof(type));
    if (cJSON_IsString(value)) {
        return mix(hash, hash_text(value->valuestring));
    }
    if (cJSON_IsNumber(value)) {
        return mix(hash, hash_bytes(&value->valuedouble, sizeof(value->valuedouble)));
    }
    for (const cJSON *child = value->child; child != NULL; child = child->next) {
        /* members are added, so that their order does not matter; elements are chained */
        hash = cJSON_IsObject(value) ? hash + mix(hash_text(child->string), hash_value(child))
                                     : mix(hash, hash_value(child));
    }
    return hash;
}

uint64_t input_binding(const char *method, const cJSON *params)
{
    static const char *const changing[] = {"_meta", "inputResponses", "requestState", "task"};
    uint64_t hash = hash_text(method);
    for (const cJSON *m = params != NULL ? params->child : NULL; m != NULL; m = m->next) {
        bool counts = true;
        for (size_t i = 0; i < sizeof(changing) / sizeof(changing[0]); i++) {
            counts = counts && strcmp(m->string, changing[i]) != 0;
        }
        if (counts) {
            hash += mix(hash_text(m->string), hash_value(m));
        }
    }
    return hash;
}
