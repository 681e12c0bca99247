/*
 * The agent: one loop that owns links, operations and interpreters.
 * Thread: one. Nothing in the loop blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_AGENT_H
#define CLOISTER_WORKER_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "worker/agent/door/doorway.h"
#include "worker/agent/installs/installs.h"
#include "worker/agent/interp/interp.h"
#include "worker/agent/link/link.h"
#include "worker/agent/link/poll_set.h"
#include "worker/agent/process/oom.h"
#include "worker/agent/process/spawn.h"
#include "worker/agent/run/changes.h"
#include "worker/agent/run/op.h"
#include "worker/agent/run/program.h"

#define AGENT_LINKS   (1 + LIMIT_AGENT_PENDING)
#define AGENT_INTERPS 3

struct agent_config {
    int listen_fd;       /* listening unix stream socket, owned; -1 if `listen` is set */
    const char *listen;  /* path at which the agent makes that socket itself; borrowed for ever */
    bool relay_stdio;    /* the first relay is ours, on stdin and stdout; needs `listen` */
    const char *sandbox; /* id that HELLO must name; borrowed for ever */
    int installs_fd;     /* listening, where code asks for packages, owned; -1: nowhere */
    int door_fd;         /* listening, where programs are let out, owned; -1: nowhere */
    uint64_t grace_ms;   /* the agent exits after this long without a link */
    bool any_peer;       /* accept every peer: for tests, which have no sandbox */
    struct spawn_config spawn;
};

struct agent {
    struct agent_config config;
    pid_t parent; /* at the start; 0 if it is outside our pid namespace */
    int signal_fd;
    pid_t relay;      /* our own; 0 while there is none */
    bool has_orphans; /* keepers leave us those of user code (keeper.h) */
    struct oom oom;

    struct link links[AGENT_LINKS];
    struct poll_slot link_slots[AGENT_LINKS];
    struct link *current; /* the link that said hello last; NULL while there is none */
    uint64_t generation;  /* highest one that a HELLO has named */
    uint64_t alone_since_ms;

    struct op_table ops;
    struct changes changes;
    struct interp interps[AGENT_INTERPS]; /* those with a path are installed */
    bool languages_told;                  /* to a worker, in an answer to HELLO */
    char *looked; /* owned; what there was when nothing was found first, until that is told */
    struct programs programs;
    struct installs installs;
    struct doorway doorway;

    struct poll_set polls;
    struct poll_slot listen_slot, signal_slot;
    bool stopping; /* SHUTDOWN or SIGTERM came, or the grace period is over */
    int exit_code;
};

/* Serves until SHUTDOWN or the end of the grace period; everything that ran in the sandbox is gone
 * when it returns. Returns an exit code of proto/exit_codes.h; err says why if it is not OK. */
int agent_run(const struct agent_config *config, struct err *err);

/* dispatch.c: handles one decoded request, which is borrowed. -ERR_PROTOCOL if it is not legal now:
 * the caller closes the link. */
int agent_request(struct agent *a, struct link *l, const struct msg *m,
                  struct err *err) WARN_UNUSED;

/* dispatch.c: sends to a link, closing it if that fails. */
void agent_send(struct agent *a, struct link *l, const struct msg *m);

/* dispatch.c: what programs say at the door goes to whichever link is current. */
struct doorway_link agent_doorway_link(struct agent *a);

/* agent.c: closes a link. Operations go on. */
void agent_drop_link(struct agent *a, struct link *l);

/* agent.c: finds out which languages there are. Lookups that failed for a passing reason are
 * repeated by agent_look_for_languages(), which is called before languages are listed or used. So
 * are all of them while nothing at all is found: then it may be the root that is not there. */
void agent_set_up_languages(struct agent *a);
void agent_look_for_languages(struct agent *a);

/* agent.c: -ERR_IO if nothing was found and a lookup could not tell what is there, with its reason:
 * then it is not known yet that there is no language. */
int agent_check_languages(const struct agent *a, struct err *err) WARN_UNUSED;

/* agent.c: whether any of the live languages was found. */
bool agent_has_interp(const struct agent *a);

/* agent.c: what there is now where interpreters are looked for; cut off where it does not fit. */
void agent_explain_languages(const struct agent *a, char *out, size_t size);

/* agent.c: interpreter by language name, NULL if there is none. */
struct interp *agent_find_interp(struct agent *a, struct view language);

#endif
