/*
 * Events for an agent: said once, without an answer, and with a bound on what it has not read.
 * Thread: the loop's. Nothing blocks.
 */
#ifndef CLOISTER_WORKER_AGENT_POST_H
#define CLOISTER_WORKER_AGENT_POST_H

#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "proto/msg.h"

/* `bytes` counts what libuv still holds; it has to stay till the stream is closed. -ERR_BUSY if
 * that is LIMIT_DOOR_QUEUE, -ERR_NO_MEMORY; then the stream may have a part of it and is of no more
 * use.
 */
int agent_post(size_t *bytes, uv_stream_t *stream, const struct msg *event) WARN_UNUSED;

#endif
