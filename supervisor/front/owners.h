/*
 * The principals whose calls share a default sandbox, in whatever sessions these calls come (or
 * none, in the revision without sessions).
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_FRONT_OWNERS_H
#define CLOISTER_SUPERVISOR_FRONT_OWNERS_H

struct config;
struct fleet;
struct owners;
struct principal;
struct tool_services;
struct tool_session;

/* Everything is borrowed for its life. */
struct owners *owners_create(struct fleet *fleet, const struct config *config,
                             const struct tool_services *services);

/* Call it after the fleet's last callback, when nothing is held. NULL is fine. */
void owners_destroy(struct owners *o);

/* Returns the state that the calls of this principal share, and holds the principal. Release each
 * hold once, after its calls have ended. */
struct tool_session *owners_hold(struct owners *o, struct principal *principal);
void owners_let_go(struct tool_session *shared);

#endif
