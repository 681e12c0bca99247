/*
 * Channels by their numbers, and what is said to the agent. Numbers grow, so whatever is said of a
 * smaller one that there is not has crossed its end and is passed over, and of a larger one is
 * malformed.
 *
 * A channel is off the list as soon as it is over, so that a program may begin the next one; its
 * memory stays till its handles are closed, which libuv does in the same turn of the loop.
 */
#include "worker/door/door.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "worker/door/channel.h"

struct door *door_create(const struct door_setup *setup)
{
    struct door *d = alloc_one(struct door);
    d->setup = *setup;
    door_lookups_init(&d->lookups, setup->loop,
                      setup->resolve != NULL ? setup->resolve : uv_getaddrinfo);
    return d;
}

/* ---- to the agent ---------------------------------------------------------------------------- */

void door_post_data(struct door_channel *c, struct view data)
{
    while (data.len > 0) {
        struct msg m = {.type = MSG_DOOR_DATA};
        size_t len = data.len < LIMIT_DOOR_CHUNK ? data.len : LIMIT_DOOR_CHUNK;
        m.door_data.channel = c->id;
        m.door_data.data = view_bytes(data.data, len);
        c->may_send -= len;
        c->door->setup.post(c->door->setup.arg, &m);
        data = view_bytes(data.data + len, data.len - len);
    }
}

void door_post_credit(struct door_channel *c, uint64_t bytes)
{
    struct msg m = {.type = MSG_DOOR_CREDIT};
    if (bytes > 0) {
        m.door_credit.channel = c->id;
        m.door_credit.bytes = bytes;
        c->may_come += bytes;
        c->door->setup.post(c->door->setup.arg, &m);
    }
}

void door_post_close(struct door_channel *c)
{
    struct msg m = {.type = MSG_DOOR_CLOSE};
    m.door_close.channel = c->id;
    m.door_close.whole = true;
    c->door->setup.post(c->door->setup.arg, &m);
}

/* ---- channels -------------------------------------------------------------------------------- */

static int open_channel(struct door *d, uint64_t id, struct err *err)
{
    if (id <= d->last) {
        return err_set(err, ERR_PROTOCOL, "a channel is opened twice");
    }
    if (d->count == LIMIT_DOOR_CHANNELS) {
        return err_set(err, ERR_PROTOCOL, "more than %d channels", LIMIT_DOOR_CHANNELS);
    }
    struct door_channel *c = door_channel_create(d, id);
    d->last = id;
    c->next = d->first;
    d->first = c;
    d->count++;
    d->alive++;
    return 0;
}

void door_forget(struct door_channel *c)
{
    struct door_channel **at = &c->door->first;
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    c->door->count--;
}

static struct door_channel *find_open(const struct door *d, uint64_t id)
{
    struct door_channel *c = d->first;
    while (c != NULL && c->id != id) {
        c = c->next;
    }
    return c;
}

static uint64_t channel_of(const struct msg *m)
{
    switch (m->type) {
    case MSG_DOOR_DATA:
        return m->door_data.channel;
    case MSG_DOOR_CREDIT:
        return m->door_credit.channel;
    default:
        return m->door_close.channel;
    }
}

int door_take(struct door *d, const struct msg *m, struct err *err)
{
    if (m->type == MSG_DOOR_OPEN) {
        return open_channel(d, m->door_open.channel, err);
    }
    if (m->type != MSG_DOOR_DATA && m->type != MSG_DOOR_CREDIT && m->type != MSG_DOOR_CLOSE) {
        return err_set(err, ERR_PROTOCOL, "%s is nothing for a door", msg_name(m->type));
    }
    uint64_t id = channel_of(m);
    struct door_channel *c = find_open(d, id);
    if (c == NULL) {
        return id <= d->last ? 0
                             : err_set(err, ERR_PROTOCOL, "%s for no channel", msg_name(m->type));
    }
    switch (m->type) {
    case MSG_DOOR_DATA:
        return door_channel_data(c, m->door_data.data, err);
    case MSG_DOOR_CREDIT:
        return door_channel_credit(c, m->door_credit.bytes, err);
    default:
        return door_channel_close(c, m->door_close.whole, err);
    }
}

void door_cut(struct door *d)
{
    while (d->first != NULL) {
        door_channel_drop(d->first);
    }
    d->last = 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void end_if_empty(struct door *d)
{
    if (d->closed != NULL && d->alive == 0) {
        void (*closed)(void *arg) = d->closed;
        void *arg = d->closed_arg;
        free(d);
        closed(arg);
    }
}

void door_freed(struct door *d)
{
    d->alive--;
    end_if_empty(d);
}

void door_destroy(struct door *d, void (*closed)(void *arg), void *arg)
{
    if (d == NULL) {
        return;
    }
    door_cut(d);
    door_lookups_finish(&d->lookups);
    d->closed = closed;
    d->closed_arg = arg;
    end_if_empty(d);
}
