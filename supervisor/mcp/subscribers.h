/*
 * Readers that are notified of changes. The methods that create them are in subscriptions.c.
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_SUBSCRIBERS_H
#define CLOISTER_SUPERVISOR_MCP_SUBSCRIBERS_H

#include "supervisor/mcp/internal.h"
#include "supervisor/mcp/notices.h"

struct mcp_subscriber {
    struct mcp_subscriber *prev, *next;
    struct mcp_session *session;
    struct mcp_request *listen; /* NULL: the reader is a session of an older revision */
    struct notices notices;
    cJSON *acknowledge; /* a listen's first message; NULL: it was sent */
    bool gone;          /* freed when the current round of notifications is over */
};

struct mcp_subscriptions {
    struct mcp_server *server;
    struct mcp_subscriber *first;
    size_t listens;
    bool telling;
    uv_timer_t timer; /* runs if a notification is due later */
};

/* The capability under which changes of a list are reported, and their notification. */
struct subscriber_list {
    unsigned offer;
    const char *wish, *method;
};
extern const struct subscriber_list subscriber_lists[NOTICE_LISTS];

struct mcp_subscriber *subscriber_create(struct mcp_session *s, struct mcp_request *listen);

/* Stops the notifications; may free the reader. */
void subscriber_end(struct mcp_subscriber *one);

/* Returns the reader of a session of an older revision; creates it at first. */
struct mcp_subscriber *subscriber_of_session(struct mcp_session *s);

/* Sends a listen its `acknowledge` (what it will be notified of), now or when the stream has
 * room. */
void subscriber_acknowledge(struct mcp_subscriber *one);

/* Adds the id of the listen to the params or result of a message. */
void subscriber_sign(const struct mcp_request *listen, cJSON *object);

/* Frees all readers when the server is closed. */
void subscribers_free(struct mcp_subscriptions *subs);

/* Sends what is due now, as far as readers take it; the timer does so soon anyway. */
void subscribers_tell(struct mcp_subscriptions *subs);

#endif
