/*
 * The messages within an OUTPUT: what a run showed, which files it changed and which packages it
 * wants. They come from where
 * user code lives, so the agent checks them, and the worker again. A list is kept and sent as it
 * was checked.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_PROTO_OUTCOME_H
#define CLOISTER_PROTO_OUTCOME_H

#include "common/err.h"
#include "proto/msg.h"

/* A number from 1 on, a MIME type of a-z 0-9 . + - with one slash inside, an absolute path of at
 * most LIMIT_DISPLAY_PATH bytes of printable ASCII. -ERR_PROTOCOL otherwise. */
int outcome_check_display(const struct msg_display *d, struct err *err) WARN_UNUSED;

/* A regular file with a relative path that does not lead out of where it starts. */
int outcome_check_entry(const struct msg_entry *e, struct err *err) WARN_UNUSED;

/* One encoded message of a list of files. */
int outcome_check_entry_item(struct view item, struct err *err) WARN_UNUSED;

/* A number from 1 on, a known manager, and 1 to LIMIT_INSTALL_WORDS words of printable ASCII
 * without a dash in front. Whether they name packages is for those to say who install them. */
int outcome_check_install(const struct msg_install *m, struct err *err) WARN_UNUSED;

/* Whole lists, their lengths included; numbers of displays never go down. */
int outcome_check_displays(struct view_list list, struct err *err) WARN_UNUSED;
int outcome_check_files(struct view_list list, struct err *err) WARN_UNUSED;
int outcome_check_installs(struct view_list list, struct err *err) WARN_UNUSED;

#endif
