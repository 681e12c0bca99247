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
    int listen_fd;       /* a listening unix stream socket; owned by the agent; or -1 and: */
    const char *listen;  /* where the agent makes one; borrowed for ever */
    bool relay_stdio;    /* the first relay is ours, on stdin and stdout; needs `listen` */
    const char *sandbox; /* id that HELLO must name; borrowed for ever */
    uint64_t grace_ms;   /* without a link for this long: the end */
    bool any_peer;       /* there is no sandbox to keep connections out of */
    struct spawn_config spawn;
};

struct agent {
    struct agent_config config;
    pid_t parent; /* at the start; 0 if it is outside our pid namespace */
    int signal_fd;
    pid_t relay; /* our own; 0 while there is none */
    struct oom oom;

    struct link links[AGENT_LINKS];
    struct poll_slot link_slots[AGENT_LINKS];
    struct link *current; /* the link that said hello last; NULL while there is none */
    uint64_t generation;  /* highest that a hello has named */
    uint64_t alone_since_ms;

    struct op_table ops;
    struct changes changes;
    struct interp interps[AGENT_INTERPS]; /* those with a path are installed */
    struct programs programs;

    struct poll_set polls;
    struct poll_slot listen_slot, signal_slot;
    bool stopping; /* SHUTDOWN, or nobody came back */
    int exit_code;
};

/* Serves until SHUTDOWN or the end of the grace period; everything that ran in the sandbox is gone
 * when it returns. Returns an exit code of proto/exit_codes.h; err says why if it is not OK. */
int agent_run(const struct agent_config *config, struct err *err);

/* dispatch.c: one decoded request. -ERR_PROTOCOL for one that is not legal now: close that link. */
int agent_request(struct agent *a, struct link *l, const struct msg *m,
                  struct err *err) WARN_UNUSED;

/* dispatch.c: sends to a link, closing it if that fails. */
void agent_send(struct agent *a, struct link *l, const struct msg *m);

/* agent.c: forgets a link. Operations do not notice. */
void agent_drop_link(struct agent *a, struct link *l);

/* agent.c: which languages there are. What could not be looked for is looked for again each time:
 * whoever asks for the languages or for one of them does that first. */
void agent_set_up_languages(struct agent *a);
void agent_look_for_languages(struct agent *a);

/* agent.c: interpreter by language name, NULL if there is none. */
struct interp *agent_find_interp(struct agent *a, struct view language);

#endif
