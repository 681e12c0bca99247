/*
 * The principals whose calls share a default sandbox, whatever sessions these calls came by (or
 * none, in the revision that has no sessions).
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

/* All is borrowed for its life. */
struct owners *owners_create(struct fleet *fleet, const struct config *config,
                             const struct tool_services *services);

/* When nothing of the fleet calls back any more, and all has been let go. NULL is fine. */
void owners_destroy(struct owners *o);

/* What the calls of this principal share; the principal is held as long. Each hold is let go once,
 * when its calls have ended. */
struct tool_session *owners_hold(struct owners *o, struct principal *principal);
void owners_let_go(struct tool_session *shared);

#endif
