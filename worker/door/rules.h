/*
 * Where a sandbox is let out to: a list of hosts with ports, and what addresses these may have.
 *
 * Thread: the loop's. Nothing blocks: names are looked up by lookup.h.
 */
#ifndef CLOISTER_WORKER_DOOR_RULES_H
#define CLOISTER_WORKER_DOOR_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "common/err.h"
#include "common/net/authority.h"
#include "proto/msg.h"

struct door_rule {
    struct authority at; /* with a port */
    enum door_kind kind;
};

struct door_rules {
    struct door_rule items[LIMIT_DOOR_RULES];
    size_t count;
    bool has_proxy; /* all of it is reached by `proxy`, which looks names up itself */
    struct door_rule proxy;
    char *proxy_auth; /* owned; value of Proxy-Authorization, NULL or "" for none */
};

/* Reads what OPEN says. -ERR_INVALID for what is no host with a port, an unknown kind, or too many;
 * nothing is kept then. */
int door_rules_take(struct door_rules *ret, const struct msg_open *m, struct err *err) WARN_UNUSED;
void door_rules_finish(struct door_rules *r);

/* The rule for that place; NULL: nobody is let out to there. */
const struct door_rule *door_rules_find(const struct door_rules *r, const struct authority *to);

/* Why a place of this rule may not be at this address, as in "which is …"; NULL: it may. */
const char *door_rule_refuses(const struct door_rule *rule, const struct sockaddr *address);

#endif
