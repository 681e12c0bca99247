/*
 * Those who hear of changes, and telling them. The methods by which they come are in
 * subscriptions.c. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_SUBSCRIBERS_H
#define CLOISTER_SUPERVISOR_MCP_SUBSCRIBERS_H

#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/notices.h"

struct mcp_subscriber {
    struct mcp_subscriber *prev, *next;
    struct mcp_session *session;
    struct mcp_request *listen; /* NULL: the session itself, of an older revision */
    struct notices notices;
    cJSON *acknowledge; /* of a listen: what it is told first; NULL: it has been */
    bool gone;          /* freed as soon as nobody is being told anything */
};

struct mcp_subscriptions {
    struct mcp_server *server;
    struct mcp_subscriber *first;
    size_t listens;
    bool telling;
    uv_timer_t timer; /* runs while there is something to tell */
};

/* Which capability makes a list's changes known, and how they are called. */
struct subscriber_list {
    unsigned offer;
    const char *wish, *method;
};
extern const struct subscriber_list subscriber_lists[NOTICE_LISTS];

struct mcp_subscriber *subscriber_create(struct mcp_session *s, struct mcp_request *listen);

/* It is told nothing any more; may be gone. */
void subscriber_end(struct mcp_subscriber *one);

/* That of a session of an older revision, which is made when it is first needed. */
struct mcp_subscriber *subscriber_of_session(struct mcp_session *s);

/* Tells a listen what it will hear, which is `acknowledge`, now or as soon as it reads. */
void subscriber_acknowledge(struct mcp_subscriber *one);

/* Says in the params or result of a message which listen it belongs to. */
void subscriber_sign(const struct mcp_request *listen, cJSON *object);

/* The server is closed. */
void subscribers_free(struct mcp_subscriptions *subs);

/* Tells now what is to be told, as far as readers take it; the loop does so soon anyway. */
void subscribers_tell(struct mcp_subscriptions *subs);

#endif
