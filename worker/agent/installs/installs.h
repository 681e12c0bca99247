/*
 * Packages that code in the sandbox asks for by itself: a socket to which `pip install` and
 * `npm install` (front.c) connect, and the wishes that have no answer yet.
 *
 *              whole                    end of its answer
 *   ASKING ------------> WAITING ----------------------------> LEAVING ---> closed
 *      |                    | hangs up: the wish is withdrawn     ^
 *      '---- refused -------+-------------------------------------'
 *
 * A wish has no operation: an OUTPUT of any operation that runs code carries all that wait. When
 * nothing runs any more, they are ended here.
 *
 * Thread: the agent has one. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_INSTALLS_INSTALLS_H
#define CLOISTER_WORKER_AGENT_INSTALLS_INSTALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/view.h"
#include "proto/limits.h"
#include "worker/agent/installs/wish.h"
#include "worker/agent/link/poll_set.h"

enum install_phase { INSTALL_NONE, INSTALL_ASKING, INSTALL_WAITING, INSTALL_LEAVING };

struct install_client {
    enum install_phase phase;
    int fd;             /* owned; -1 with INSTALL_NONE */
    uint64_t number;    /* in the order of coming */
    uint32_t id;        /* of its wish */
    bool told;          /* an OUTPUT on this link has carried it */
    struct wish wish;   /* while it is asking */
    struct buf encoded; /* its wish as INSTALL, while it waits */
    struct buf out;     /* of its answer, what it has not read */
    struct poll_slot slot;
};

struct installs {
    int listen_fd; /* owned; -1: nobody can ask */
    struct poll_slot listen_slot;
    struct install_client clients[INSTALL_CLIENTS];
    uint64_t came;
    uint32_t last_id;
};

/* Takes over a listening, non-blocking socket; -1: none. */
void installs_init(struct installs *s, int listen_fd);
void installs_finish(struct installs *s);

void installs_poll(struct installs *s, struct poll_set *set);

/* `running`: an operation runs code, so that there is somebody who can be told of wishes. */
void installs_handle(struct installs *s, const struct poll_set *set, bool running);

/* Nothing runs any more: ends all wishes. */
void installs_end(struct installs *s);

/* Whether a wish waits that the worker was not told of. */
bool installs_have_untold(const struct installs *s);

/* All wishes that wait, encoded; borrowed till the next call of this file. They count as told. */
struct view_list installs_take(struct installs *s, struct view ret_items[LIMIT_INSTALLS]);

/* The link is lost, and perhaps what was told by it. */
void installs_untell(struct installs *s);

/* Passes on a part of an answer, with `last` the end and the exit code. Nothing is done if nobody
 * waits for it any more. */
void installs_tell(struct installs *s, uint64_t id, struct view text, bool last,
                   unsigned exit_code);

#endif
