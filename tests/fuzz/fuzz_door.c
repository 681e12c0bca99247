/*
 * Messages of a hostile agent to its door. Each step is a byte that chooses the message, one for
 * the channel, and for DOOR_DATA one for the length and the bytes. Whatever comes, what the door
 * says is within the agent's credit, only of channels that it has opened, and nothing after their
 * end; and when it ends nothing is left on the loop. Names lead nowhere.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "worker/door/door.h"

#define CHANNELS 256

struct agent {
    uint64_t opened;
    uint64_t may_come[CHANNELS]; /* from the door */
    bool over[CHANNELS];
    const char *wrong;
    bool gone;
};

/* What is wrong is said at the end, since a failure here would leave the loop as it is. */
static void on_post(void *arg, const struct msg *m)
{
    struct agent *a = arg;
    uint64_t id = m->type == MSG_DOOR_DATA     ? m->door_data.channel
                  : m->type == MSG_DOOR_CREDIT ? m->door_credit.channel
                                               : m->door_close.channel;
    if (id == 0 || id > a->opened || a->over[id]) {
        a->wrong = "of no channel";
    } else if (m->type == MSG_DOOR_DATA && m->door_data.data.len > a->may_come[id]) {
        a->wrong = "beyond the credit";
    } else if (m->type == MSG_DOOR_DATA) {
        a->may_come[id] -= m->door_data.data.len;
    } else if (m->type == MSG_DOOR_CLOSE) {
        a->over[id] = true;
    }
}

static int lead_nowhere(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb done,
                        const char *host, const char *port, const struct addrinfo *hints)
{
    return UV_EAI_NONAME;
}

static void on_gone(void *arg)
{
    struct agent *a = arg;
    a->gone = true;
}

static int say(struct door *d, struct agent *a, uint8_t what, uint8_t channel, struct view data)
{
    struct msg m = {.type = MSG_DOOR_DATA};
    struct err err = ERR_INIT;
    switch (what % 8) {
    case 0:
        m.type = MSG_DOOR_OPEN;
        m.door_open.channel = channel;
        if (channel > a->opened) {
            a->opened = channel; /* those between are skipped */
            a->may_come[channel] = LIMIT_DOOR_WINDOW;
        }
        break;
    case 1:
        m.type = MSG_DOOR_CREDIT;
        m.door_credit.channel = channel;
        m.door_credit.bytes = data.len;
        a->may_come[channel] += data.len;
        break;
    case 2:
    case 3:
        m.type = MSG_DOOR_CLOSE;
        m.door_close.channel = channel;
        m.door_close.whole = what % 8 == 2;
        break;
    default:
        m.door_data.channel = channel;
        m.door_data.data = data;
        break;
    }
    return door_take(d, &m, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view place[] = {{"127.0.0.1:1", 11}, {"own", 3}};
    struct msg_open open = {.door = {place, 2}};
    struct door_rules rules;
    struct err err = ERR_INIT;
    uv_loop_t loop;
    if (door_rules_take(&rules, &open, &err) < 0 || uv_loop_init(&loop) < 0) {
        return 0;
    }
    struct agent *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        uv_loop_close(&loop);
        door_rules_finish(&rules);
        return 0;
    }
    const struct door_setup setup = {
        .loop = &loop,
        .sandbox = "fuzz",
        .rules = &rules,
        .post = on_post,
        .arg = a,
        .resolve = lead_nowhere,
    };
    struct door *d = door_create(&setup);
    int rc = 0;
    for (size_t at = 0; at + 3 <= size && rc == 0;) {
        size_t len = data[at + 2] < size - at - 3 ? data[at + 2] : size - at - 3;
        rc = say(d, a, data[at], data[at + 1], view_bytes(data + at + 3, len));
        at += 3 + len;
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    bool strange = rc != 0 && rc != -ERR_PROTOCOL;
    door_destroy(d, on_gone, a);
    uv_run(&loop, UV_RUN_DEFAULT);
    bool left = uv_loop_close(&loop) != 0 || !a->gone;
    const char *wrong = a->wrong;
    door_rules_finish(&rules);
    free(a);
    FUZZ_REQUIRE(!strange);
    FUZZ_REQUIRE(!left);
    FUZZ_REQUIRE(wrong == NULL);
    return 0;
}
