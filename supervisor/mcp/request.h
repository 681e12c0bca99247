/*
 * One request, as the application sees it.
 *
 * A request is ended exactly once, by one of the mcp_answer…() functions, and may be freed by it. A
 * request may outlive its session and its connection; then the answer goes nowhere, but the handler
 * must still end the request. All mcp_answer…() functions take ownership of the values that they
 * get.
 *
 * Thread: the loop thread. Nothing blocks.
 */
#ifndef CLOISTER_SUPERVISOR_MCP_REQUEST_H
#define CLOISTER_SUPERVISOR_MCP_REQUEST_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "supervisor/base/result_form.h"
#include "supervisor/mcp/wire/capabilities.h"
#include "supervisor/mcp/wire/revision.h"

struct mcp_app;
struct mcp_request;
struct mcp_session;
struct principal;

/* ---- parameters ---- */

void *mcp_request_app(const struct mcp_request *r);          /* mcp_app.arg */
void *mcp_request_session_data(const struct mcp_request *r); /* mcp_app.session_open() */
struct principal *mcp_request_principal(const struct mcp_request *r);
enum revision mcp_request_revision(const struct mcp_request *r);
const cJSON *mcp_request_params(const struct mcp_request *r); /* object or NULL */

/* clientInfo.name, possibly cut; "" if absent. */
const char *mcp_request_client(const struct mcp_request *r);

/* The form of results that the request, or else its session, asks for. False: the request asks for
 * an unknown form. */
bool mcp_request_results(const struct mcp_request *r, enum result_form *ret);

/* Whether the client declared a capability: "sampling", "elicitation", "roots", or the id of an
 * extension. */
bool mcp_client_can(const struct mcp_request *r, const char *capability);

/* Whether the client shows views (MCP Apps). Others must not see that there are any. */
bool mcp_client_shows_views(const struct mcp_request *r);

/* The application's own data of this request, NULL at first. */
void mcp_request_set_data(struct mcp_request *r, void *data);
void *mcp_request_data(const struct mcp_request *r);

/* `cancelled` is called once, from the loop, when the answer is no longer wanted (cancelled,
 * connection lost, task cancelled); at once if that has happened already. The handler must still
 * end the request, and soon. */
void mcp_on_cancel(struct mcp_request *r, void (*cancelled)(struct mcp_request *r));
bool mcp_is_cancelled(const struct mcp_request *r);

/* ---- progress and logs ---- */

/* Whether the client wants progress and is still connected. */
bool mcp_hears_progress(const struct mcp_request *r);

/* The same, and the minimum interval of PROGRESS_EVERY_MS since the last notification is over. */
bool mcp_wants_progress(const struct mcp_request *r);

/* Sends progress. If `progress` does not rise, the layer makes it rise; total <= 0: unknown;
 * message may be any bytes, NULL: none. After a long silence the layer repeats the latest
 * notification, so that clients see that the server is alive. */
void mcp_progress(struct mcp_request *r, double progress, double total, const char *message);

/* The same without the minimum interval, for steps of which there are few. */
void mcp_progress_step(struct mcp_request *r, double progress, double total, const char *message);

/* Sends a log message to the client, if it asked for this level. */
void mcp_log(struct mcp_request *r, const char *level, const char *logger, cJSON *data);

/* ---- answers ---- */

/* Answer with a result, or with an error of JSON-RPC; `data` may be NULL. */
void mcp_answer(struct mcp_request *r, cJSON *result);
void mcp_answer_error(struct mcp_request *r, int code, const char *message, cJSON *data);

/* Answers with the whole list, which the layer divides into pages. */
void mcp_answer_items(struct mcp_request *r, cJSON *items);
/* Answers with one page; next_cursor NULL: it is the last. */
void mcp_answer_page(struct mcp_request *r, cJSON *items, const char *next_cursor);

/* `values`: array of strings, of which the first 100 are sent; total < 0: unknown. */
void mcp_answer_completion(struct mcp_request *r, cJSON *values, int64_t total);

/* Reports wrong arguments: a protocol error, or a result that the model sees, as the revision wants
 * it. */
void mcp_answer_bad_arguments(struct mcp_request *r, const char *problem);

void mcp_answer_no_resource(struct mcp_request *r, const char *uri);

/* Refuses the request because the client did not declare this capability. */
void mcp_answer_needs(struct mcp_request *r, const char *capability);

/* ---- input from the client ----
 *
 * A handler that needs input ends its run with mcp_answer_input(). It is called again from its
 * beginning with the input: in the latest revision by another request of the client, in older ones
 * after requests of ours to the client, within the same request. So it must rely on nothing but the
 * arguments, the inputs and the state. */

/* `requests`: object of {key: {method, params}}, with methods that the client is capable of.
 * `state`: any value, which comes back unchanged (a client cannot forge it), or NULL. */
void mcp_answer_input(struct mcp_request *r, cJSON *requests, cJSON *state);

/* Returns {key: result}, or NULL in the first round. The client wrote the results: check them. */
const cJSON *mcp_request_inputs(const struct mcp_request *r);
const cJSON *mcp_request_state(const struct mcp_request *r);

/* ---- tasks ---- */

/* Whether this call may become a task: the client supports that, and the call is no task yet. */
bool mcp_may_become_task(const struct mcp_request *r);

/* Answers the client with a task; the request's later answer is stored as the task's result. */
void mcp_become_task(struct mcp_request *r, const char *status_message);
bool mcp_is_task(const struct mcp_request *r);
void mcp_task_status(struct mcp_request *r, const char *status_message);

#endif
