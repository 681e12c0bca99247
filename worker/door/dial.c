/*
 * Connects to the addresses of a name, one after the other: to each for TIME_DOOR_TRY_MS while
 * there are others, to the last for the time that is left. They were judged when they came, and
 * the name is not looked up again.
 */
#include <stdlib.h>

#include "common/alloc.h"
#include "worker/door/channel.h"

/* An attempt. Its channel lives until the handle is closed. */
struct door_dial {
    uv_tcp_t *tcp;
    uv_connect_t connect;
    struct door_channel *channel;
    bool over; /* connected, or given up */
};

static void try_address(struct door_channel *c);

static void on_dial_closed(uv_handle_t *handle)
{
    struct door_dial *dial = handle->data;
    struct door_channel *c = dial->channel;
    free(dial->tcp);
    free(dial);
    door_channel_handle_gone(c);
}

void door_dial_stop(struct door_channel *c)
{
    struct door_dial *dial = c->dial;
    if (dial != NULL) {
        c->dial = NULL;
        dial->over = true;
        uv_close((uv_handle_t *)dial->tcp, on_dial_closed);
    }
}

void door_dial_next(struct door_channel *c)
{
    door_dial_stop(c);
    c->address_at++;
    try_address(c);
}

static void on_dialled(uv_connect_t *request, int status)
{
    struct door_dial *dial = request->data;
    struct door_channel *c = dial->channel;
    if (dial->over) {
        return;
    }
    if (status < 0) {
        c->failure = status;
        door_dial_next(c);
        return;
    }
    uv_tcp_t *tcp = dial->tcp;
    c->dial = NULL;
    free(dial);
    door_channel_connected(c, tcp);
}

/* How long this address may take. */
static uint64_t patience(const struct door_channel *c)
{
    uint64_t now = uv_now(c->door->setup.loop);
    uint64_t left = c->late_ms > now ? c->late_ms - now : 0;
    bool last = c->address_at + 1 >= c->address_count;
    return last || left < TIME_DOOR_TRY_MS ? left : TIME_DOOR_TRY_MS;
}

static int dial_address(struct door_channel *c)
{
    struct door_dial *dial = alloc_one(struct door_dial);
    dial->channel = c;
    dial->tcp = alloc_one(uv_tcp_t);
    uv_tcp_init(c->door->setup.loop, dial->tcp);
    dial->tcp->data = dial;
    dial->connect.data = dial;
    c->dial = dial;
    c->handles++;
    return uv_tcp_connect(&dial->connect, dial->tcp,
                          (const struct sockaddr *)&c->addresses[c->address_at], on_dialled);
}

static void try_address(struct door_channel *c)
{
    while (c->address_at < c->address_count) {
        uint64_t wait_ms = patience(c);
        if (wait_ms == 0) {
            c->failure = UV_ETIMEDOUT;
            break;
        }
        int rc = dial_address(c);
        if (rc == 0) {
            door_channel_wait(c, wait_ms);
            return;
        }
        c->failure = rc; /* such as an address of a family that this host has no network of */
        door_dial_stop(c);
        c->address_at++;
    }
    door_channel_unreachable(c, c->failure);
}

void door_dial_begin(struct door_channel *c)
{
    c->address_at = 0;
    c->failure = UV_ETIMEDOUT;
    try_address(c);
}
