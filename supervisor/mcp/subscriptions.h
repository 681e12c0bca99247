/*
 * Methods of subscriptions, and notifications of tasks. The application reports its changes by
 * session.h. Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_SUBSCRIPTIONS_H
#define CLOISTER_SUPERVISOR_MCP_SUBSCRIPTIONS_H

struct mcp_request;
struct mcp_server;

void mcp_subscriptions_listen(struct mcp_request *r);      /* latest revision */
void mcp_subscriptions_subscribe(struct mcp_request *r);   /* older ones */
void mcp_subscriptions_unsubscribe(struct mcp_request *r); /* older ones */

/* A task of the extension has changed: notifies its subscribers. */
void mcp_subscriptions_task(struct mcp_server *s, const char *owner, const char *id);

#endif
