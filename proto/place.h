/*
 * Places as they travel: encoded ENGINE_PLACE messages, in a list of none or one. A list is kept
 * and sent as it came; who wants to know what is in it reads it here.
 *
 * Thread: any. Nothing blocks.
 */
#ifndef CLOISTER_PROTO_PLACE_H
#define CLOISTER_PROTO_PLACE_H

#include "common/err.h"
#include "common/place.h"
#include "proto/msg.h"

/* A list that owns what is in it, to be freed with alloc_listfree(). None for PLACE_NONE.
 * -ERR_INVALID if place_check() says so. */
int place_encode(const struct place *p, struct view_list *ret, struct err *err) WARN_UNUSED;

/* What the configuration says of where this backend's engine is, as a list: none for "", and none
 * if the backend has no engine. A text that no place can hold (place_check()) is none, too: whoever
 * takes it from a person has checked it. */
struct view_list place_configured(const char *backend, const char *text);

/* The caller frees it with place_finish(). -ERR_PROTOCOL if it is more than one place, or its
 * fields do not fit together. */
int place_decode(struct view_list list, struct place *ret, struct err *err) WARN_UNUSED;

/* For people, as place_text(); of a list that cannot be read, "". To be freed. */
char *place_list_text(struct view_list list);

#endif
