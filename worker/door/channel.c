/*
 *     HEAD --a request--> LOOKUP --addresses--> CONNECT --one answers--> RELAY
 *       |                   |                      |                       |
 *       |   refused         |  refused             |  none answers         | either end
 *       +-------------------+----------------------+-----------------------+---> OVER
 *
 * Where it is decided: door_rules_find() whether anybody is let out to that place, before anything
 * is looked up, so that not even a name gets out; door_rule_refuses() whether the place may be at
 * the address that was found. That address is kept and connected to: a name that leads elsewhere a
 * moment later changes nothing.
 *
 * A refusal is an answer with its reason, after which the channel is over.
 */
#include "worker/door/channel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/log.h"

#define ANSWER_BYTES 2048
#define TOLD_MAX     20 /* refusals in the log, for each sandbox */

static const struct sm_state states[] = {
    [CHANNEL_HEAD] = {"head", SM_BIT(CHANNEL_LOOKUP) | SM_BIT(CHANNEL_OVER)},
    [CHANNEL_LOOKUP] = {"lookup", SM_BIT(CHANNEL_CONNECT) | SM_BIT(CHANNEL_OVER)},
    [CHANNEL_CONNECT] = {"connect", SM_BIT(CHANNEL_RELAY) | SM_BIT(CHANNEL_OVER)},
    [CHANNEL_RELAY] = {"relay", SM_BIT(CHANNEL_OVER)},
    [CHANNEL_OVER] = {"over", 0},
};

static void on_channel_timer(uv_timer_t *timer);

/* ---- the end --------------------------------------------------------------------------------- */

void door_channel_handle_gone(struct door_channel *c)
{
    struct door *d = c->door;
    if (--c->handles > 0) {
        return;
    }
    buf_finish(&c->in);
    buf_finish(&c->head);
    buf_finish(&c->relay.writing);
    door_response_finish(&c->response);
    free(c);
    door_freed(d);
}

static void on_channel_timer_closed(uv_handle_t *handle)
{
    door_channel_handle_gone(handle->data);
}

void door_channel_drop(struct door_channel *c)
{
    if (c->sm.state == CHANNEL_OVER) {
        return;
    }
    (void)sm_move(&c->sm, CHANNEL_OVER);
    door_forget(c);
    door_asker_leave(&c->asker);
    door_dial_stop(c);
    door_relay_stop(c);
    uv_close((uv_handle_t *)&c->timer, on_channel_timer_closed);
}

void door_channel_end(struct door_channel *c)
{
    if (c->sm.state != CHANNEL_OVER) {
        door_post_close(c);
        door_channel_drop(c);
    }
}

static void answer_channel(struct door_channel *c, int status, const char *reason)
{
    CLEANUP_BUF struct buf text;
    buf_init(&text, ANSWER_BYTES);
    if (c->door->told < TOLD_MAX) {
        c->door->told++;
        log_info("sandbox %s: %s", c->door->setup.sandbox, reason);
    }
    if (door_answer_write(status, reason, &text, NULL) == 0 && text.len <= c->may_send) {
        door_post_data(c, view_bytes(text.data, text.len));
    }
    door_channel_end(c);
}

static void refuse_channel(struct door_channel *c, const char *why)
{
    CLEANUP_FREE char *reason = alloc_printf("cloister: not let out: %s", why);
    answer_channel(c, 403, reason);
}

/* 504 and not 502: pip asks again after a 502, and has then forgotten the reason. */
void door_channel_unreachable(struct door_channel *c, int status)
{
    char to[AUTHORITY_TEXT_SIZE];
    authority_print(&c->rule->at, to);
    CLEANUP_FREE char *reason =
        alloc_printf("cloister: %s cannot be reached: %s", to, uv_strerror(status));
    answer_channel(c, 504, reason);
}

/* ---- time ------------------------------------------------------------------------------------ */

void door_channel_wait(struct door_channel *c, uint64_t wait_ms)
{
    uv_timer_start(&c->timer, on_channel_timer, wait_ms, 0);
}

static uint64_t patience_when_idle(const struct door_channel *c)
{
    return c->in_ended ? TIME_DOOR_HALF_MS : TIME_DOOR_IDLE_MS;
}

/* The timer is not set anew for each byte: when it fires it looks how long ago the last was. */
static void watch_idle(struct door_channel *c)
{
    uint64_t idle = uv_now(c->door->setup.loop) - c->active_ms;
    uint64_t most = patience_when_idle(c);
    if (idle >= most) {
        door_channel_end(c);
    } else {
        door_channel_wait(c, most - idle);
    }
}

static void on_channel_timer(uv_timer_t *timer)
{
    struct door_channel *c = timer->data;
    switch (c->sm.state) {
    case CHANNEL_HEAD:
        answer_channel(c, 408, "cloister: the request does not come");
        break;
    case CHANNEL_LOOKUP:
        door_channel_unreachable(c, UV_ETIMEDOUT);
        break;
    case CHANNEL_CONNECT:
        c->failure = UV_ETIMEDOUT;
        door_dial_next(c);
        break;
    default:
        watch_idle(c);
        break;
    }
}

/* ---- from the request to a connection -------------------------------------------------------- */

static void refuse_address(struct door_channel *c, const char *which)
{
    char to[AUTHORITY_TEXT_SIZE];
    char at[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr *address = (const struct sockaddr *)&c->addresses[0];
    authority_print(&c->rule->at, to);
    if (address->sa_family == AF_INET) {
        uv_ip4_name((const struct sockaddr_in *)(const void *)address, at, sizeof(at));
    } else if (address->sa_family == AF_INET6) {
        uv_ip6_name((const struct sockaddr_in6 *)(const void *)address, at, sizeof(at));
    }
    CLEANUP_FREE char *why = alloc_printf("%s is at %s, %s", to, at, which);
    refuse_channel(c, why);
}

/* Keeps those that may be connected to; why the first may not is said if none may. */
static void on_channel_found(void *arg, int status, const struct addrinfo *found)
{
    struct door_channel *c = arg;
    const char *refusal = NULL;
    for (const struct addrinfo *a = found; status == 0 && a != NULL; a = a->ai_next) {
        const char *which = door_rule_refuses(c->rule, a->ai_addr);
        if (which != NULL && (refusal != NULL || c->address_count > 0)) {
            continue;
        }
        if (c->address_count == DOOR_ADDRESSES || a->ai_addrlen > sizeof(c->addresses[0])) {
            break;
        }
        memcpy(&c->addresses[c->address_count], a->ai_addr, a->ai_addrlen);
        if (which != NULL) {
            refusal = which; /* in the first place, till one comes that is good */
        } else {
            c->address_count++;
        }
    }
    if (c->address_count > 0) {
        (void)sm_move(&c->sm, CHANNEL_CONNECT);
        door_dial_begin(c);
    } else if (refusal != NULL) {
        refuse_address(c, refusal);
    } else {
        door_channel_unreachable(c, status < 0 ? status : UV_EAI_NODATA);
    }
}

static int prepare_head(struct door_channel *c, const struct door_request *r, struct err *err)
{
    const struct door_rules *rules = c->door->setup.rules;
    c->confirm = r->tunnel && !rules->has_proxy;
    c->body = r->body;
    c->response.over = r->tunnel;
    return door_request_write(r, rules->has_proxy, rules->proxy_auth, &c->head, err);
}

static void take_request(struct door_channel *c, const struct door_request *r)
{
    const struct door_rules *rules = c->door->setup.rules;
    const struct door_rule *rule = door_rules_find(rules, &r->to);
    struct err err = ERR_INIT;
    if (rule == NULL) {
        char to[AUTHORITY_TEXT_SIZE];
        authority_print(&r->to, to);
        CLEANUP_FREE char *why = alloc_printf("%s is none of the configured sources", to);
        refuse_channel(c, why);
        return;
    }
    if (prepare_head(c, r, &err) < 0) {
        refuse_channel(c, "the head of the request is too large");
        return;
    }
    c->head_credit = r->head.size;
    buf_consume(&c->in, r->head.size);
    c->rule = rules->has_proxy ? &rules->proxy : rule;
    c->late_ms = uv_now(c->door->setup.loop) + TIME_DOOR_REACH_MS;
    (void)sm_move(&c->sm, CHANNEL_LOOKUP);
    door_channel_wait(c, TIME_DOOR_REACH_MS);
    int rc = door_lookups_ask(&c->door->lookups, &c->rule->at, &c->asker, on_channel_found, c);
    if (rc < 0) {
        door_channel_unreachable(c, rc);
    }
}

static void read_channel_head(struct door_channel *c)
{
    struct door_request r;
    struct err err = ERR_INIT;
    int rc = door_request_read(view_bytes(c->in.data, c->in.len), &r, &err);
    if (rc > 0) {
        take_request(c, &r);
    } else if (rc < 0) {
        CLEANUP_FREE char *reason = alloc_printf("cloister: not let out: %s", err.text);
        answer_channel(c, 400, reason);
    } else if (c->in_ended) {
        door_channel_end(c);
    }
}

void door_channel_connected(struct door_channel *c, uv_tcp_t *tcp)
{
    static const char yes[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    (void)sm_move(&c->sm, CHANNEL_RELAY);
    c->active_ms = uv_now(c->door->setup.loop);
    watch_idle(c);
    if (c->confirm) {
        door_post_data(c, view_of(yes));
    }
    /* the head was said by the program, in other words: it has credit for it again */
    door_post_credit(c, c->head_credit);
    door_relay_begin(c, tcp, &c->head);
}

/* ---- what the agent says --------------------------------------------------------------------- */

struct door_channel *door_channel_create(struct door *d, uint64_t id)
{
    struct door_channel *c = alloc_one(struct door_channel);
    c->door = d;
    c->id = id;
    c->may_come = LIMIT_DOOR_WINDOW;
    c->may_send = LIMIT_DOOR_WINDOW;
    buf_init(&c->in, LIMIT_DOOR_WINDOW);
    buf_init(&c->head, DOOR_REQUEST_BYTES);
    buf_init(&c->relay.writing, LIMIT_DOOR_WINDOW);
    door_response_init(&c->response);
    sm_init(&c->sm, states, sizeof(states) / sizeof(states[0]), CHANNEL_HEAD);
    uv_timer_init(d->setup.loop, &c->timer);
    c->timer.data = c;
    c->handles = 1;
    door_channel_wait(c, TIME_DOOR_HEAD_MS);
    return c;
}

int door_channel_data(struct door_channel *c, struct view data, struct err *err)
{
    if (c->in_ended) {
        return err_set(err, ERR_PROTOCOL, "more for a channel after its end");
    }
    if (data.len > c->may_come) {
        return err_set(err, ERR_PROTOCOL, "more for a channel than it takes");
    }
    c->may_come -= data.len;
    if (buf_add(&c->in, data.data, data.len, err) < 0) {
        door_channel_end(c); /* no memory: the program hears of it */
        return 0;
    }
    if (c->sm.state == CHANNEL_HEAD) {
        read_channel_head(c);
    } else if (c->sm.state == CHANNEL_RELAY) {
        door_relay_go_on(c);
    }
    return 0;
}

int door_channel_credit(struct door_channel *c, uint64_t bytes, struct err *err)
{
    if (bytes > LIMIT_DOOR_WINDOW - c->may_send) {
        return err_set(err, ERR_PROTOCOL, "more credit for a channel than there can be");
    }
    c->may_send += bytes;
    if (c->sm.state == CHANNEL_RELAY) {
        door_relay_go_on(c);
    }
    return 0;
}

int door_channel_close(struct door_channel *c, bool whole, struct err *err)
{
    if (whole) {
        door_channel_drop(c);
        return 0;
    }
    if (c->in_ended) {
        return err_set(err, ERR_PROTOCOL, "a channel is closed twice");
    }
    c->in_ended = true;
    if (c->sm.state == CHANNEL_HEAD) {
        read_channel_head(c);
    } else if (c->sm.state == CHANNEL_RELAY) {
        watch_idle(c); /* with less patience */
        if (c->sm.state == CHANNEL_RELAY) {
            door_relay_go_on(c);
        }
    }
    return 0;
}
