/*
 * One request, as the application sees it.
 *
 * A request is ended exactly once, by one of the mcp_answer…() functions. After that it may be
 * gone. It may outlive the session and the connection that it came by; then its answer goes
 * nowhere, and it is still to be ended. Everything that an answer is given is taken over.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_REQUEST_H
#define CLOISTER_SUPERVISOR_MCP_REQUEST_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "supervisor/base/result_form.h"
#include "supervisor/mcp/wire/revision.h"

struct mcp_app;
struct mcp_request;
struct mcp_session;
struct principal;

/* ---- who asks, and what ---- */

void *mcp_request_app(const struct mcp_request *r);          /* mcp_app.arg */
void *mcp_request_session_data(const struct mcp_request *r); /* mcp_app.session_open() */
struct principal *mcp_request_principal(const struct mcp_request *r);
enum revision mcp_request_revision(const struct mcp_request *r);
const cJSON *mcp_request_params(const struct mcp_request *r); /* object or NULL */

/* clientInfo.name, or its beginning; "" if it has none. */
const char *mcp_request_client(const struct mcp_request *r);

/* The form of results that is wanted: by the request itself, or by its session. False: the request
 * names one that there is not. */
bool mcp_request_results(const struct mcp_request *r, enum result_form *ret);

/* Whether the client declared a capability: "sampling", "elicitation", "roots", or the id of an
 * extension. */
bool mcp_client_can(const struct mcp_request *r, const char *capability);

/* Room for the application's own state of this request, NULL at first. */
void mcp_request_set_data(struct mcp_request *r, void *data);
void *mcp_request_data(const struct mcp_request *r);

/* Called once, from the loop, when nobody wants the answer any more (cancelled, connection gone,
 * task cancelled). The request is still to be ended, and soon. At once if that has happened
 * already. */
void mcp_on_cancel(struct mcp_request *r, void (*cancelled)(struct mcp_request *r));
bool mcp_is_cancelled(const struct mcp_request *r);

/* ---- while it is being worked on ---- */

/* The client wants progress at all, and is there to be told. */
bool mcp_hears_progress(const struct mcp_request *r);

/* True if the client wants progress and a notification now would not be one too many: the layer
 * keeps them PROGRESS_EVERY_MS apart. */
bool mcp_wants_progress(const struct mcp_request *r);

/* `progress` rises by itself if it does not; total <= 0: unknown; message may be any bytes, NULL:
 * none. When nothing is told for long, the layer repeats what was last told, so that clients see
 * life. */
void mcp_progress(struct mcp_request *r, double progress, double total, const char *message);

/* Progress that is sent even if the latest was just a moment ago: for steps that are few. */
void mcp_progress_step(struct mcp_request *r, double progress, double total, const char *message);

/* A log message for the client, if it asked for this level. */
void mcp_log(struct mcp_request *r, const char *level, const char *logger, cJSON *data);

/* ---- its end ---- */

void mcp_answer(struct mcp_request *r, cJSON *result);
void mcp_answer_error(struct mcp_request *r, int code, const char *message, cJSON *data);

/* The whole list: the layer pages it. */
void mcp_answer_items(struct mcp_request *r, cJSON *items);
/* One page; next_cursor NULL: the last. */
void mcp_answer_page(struct mcp_request *r, cJSON *items, const char *next_cursor);

/* `values`: array of strings, of which the first 100 are told; total < 0: unknown. */
void mcp_answer_completion(struct mcp_request *r, cJSON *values, int64_t total);

/* As the revision wants it: an error, or a result that the model sees. */
void mcp_answer_bad_arguments(struct mcp_request *r, const char *problem);

void mcp_answer_no_resource(struct mcp_request *r, const char *uri);

/* The client must be capable of this, and is not. */
void mcp_answer_needs(struct mcp_request *r, const char *capability);

/* ---- asking the client back ----
 *
 * A handler that needs input ends its run with mcp_answer_input() and is called again from its
 * beginning, with the input: in the latest revision by another request of the client, in older ones
 * by requests of ours to it, inside this one. So it must not rely on anything but the arguments,
 * the inputs and the state. */

/* `requests`: object of {key: {method, params}} with methods that the client is capable of; `state`
 * any value that comes back unchanged (a client cannot forge it), or NULL. */
void mcp_answer_input(struct mcp_request *r, cJSON *requests, cJSON *state);

/* {key: result}, or NULL in the first round. Results are what the client wrote: check them. */
const cJSON *mcp_request_inputs(const struct mcp_request *r);
const cJSON *mcp_request_state(const struct mcp_request *r);

/* ---- tasks ---- */

/* True if this call may become a task now: the client can handle it and it is none yet. */
bool mcp_may_become_task(const struct mcp_request *r);

/* The client is answered with a task; what ends the request later is kept as its result. */
void mcp_become_task(struct mcp_request *r, const char *status_message);
bool mcp_is_task(const struct mcp_request *r);
void mcp_task_status(struct mcp_request *r, const char *status_message);

#endif
