/*
 * What the files of the control API share.
 */
#ifndef CLOISTER_SUPERVISOR_CONTROL_INTERNAL_H
#define CLOISTER_SUPERVISOR_CONTROL_INTERNAL_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "common/err.h"
#include "supervisor/control/control.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/web/http/exchange.h"

#define CONTROL_API          1 /* in every path: /v1/ */
#define CONTROL_JSON         "application/json"
#define CONTROL_LINES        "application/x-ndjson"
#define CONTROL_QUEUE        (256u << 10) /* bytes that wait for one reader of a stream */
#define CONTROL_WATCHERS_MAX 64           /* of events, and followers of logs: as many of each */

struct control_socket;
struct follower;
struct private_page;
struct watcher;

struct control {
    uv_loop_t *loop;
    const struct config *config;
    struct fleet *fleet;
    struct audit *audit;
    char *url; /* NULL: no HTTP */
    char *dir; /* of the instance; NULL: it has none yet */
    int (*reload)(void *arg, struct err *err);
    void *reload_arg;
    uint64_t started_wall_ms;
    struct control_socket *socket; /* NULL: none */
    TAILQ_HEAD(, watcher) watchers;
    size_t watcher_count;
    size_t follower_count;
    TAILQ_HEAD(, private_page) pages;
    size_t page_count;
    bool quiet;        /* the server ends: streams end with what there is */
    size_t open_parts; /* that have not closed yet, while it closes */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- control.c ---- */

/* A part of it is closed; the last one ends it. Nothing happens while it is not closing. */
void control_part_closed(struct control *c);

/* ---- routes.c ---- */

/* `name` is what stands at the * of the path, "" without one; borrowed during the call. */
struct control_route {
    const char *method, *path;
    void (*run)(struct control *c, struct web_exchange *x, const char *name);
    const char *about;
    const char *action; /* for the audit log; NULL: it only looks */
};
extern const struct control_route control_routes[];
extern const size_t control_route_count;

/* ---- answer.c ---- */

/* Ends the exchange with an object, which it frees. */
void control_answer(struct web_exchange *x, int status, cJSON *owned);

/* Puts an error as `error` into an object: `code` is of ERR_LIST, with either sign; `hint` may be
 * NULL or "". */
void control_put_error(cJSON *object, int code, const char *message, const char *hint);

/* Ends it with an error: `code` is of ERR_LIST, with either sign; `hint` may be NULL or "". */
void control_fail(struct web_exchange *x, int code, const char *message, const char *hint);

/* The same with a status of its own. */
void control_fail_as(struct web_exchange *x, int status, int code, const char *message,
                     const char *hint);

/* Writes an object, which it frees, as a line of a stream. */
void control_write_line(struct web_exchange *x, cJSON *owned);

/* Whether the query has this word as yes: "1", "yes", "true", or nothing behind it. */
bool control_asks_for(const struct web_exchange *x, const char *name);

/* A number of the query, `usual` if it is not there; false: it is no number up to `max`, and the
 * exchange was answered. */
bool control_number(struct web_exchange *x, const char *name, uint64_t usual, uint64_t max,
                    uint64_t *ret);

/* ---- deed.c: for the audit log; nothing where there is none ---- */

void control_deed_begin(struct control *c, struct web_exchange *x, const char *action,
                        const char *who);
/* What it is done to, as soon as that is known; NULL: as it was. */
void control_deed_on(struct web_exchange *x, const char *sandbox, const char *execution);
/* Code that it starts; NULL: a program with its arguments. */
void control_deed_runs(struct web_exchange *x, const char *code, struct view_list args);
/* How it went: 0, or a code of ERR_LIST with either sign. */
void control_deed_done(struct web_exchange *x, int code);
/* Who does it; borrowed from the exchange. */
const char *control_deed_who(const struct web_exchange *x);

/* ---- body.c ---- */

enum control_type { CONTROL_TEXT, CONTROL_UINT, CONTROL_BOOL, CONTROL_TEXTS };

/* What a body may have; a NULL name ends the list. */
struct control_member {
    const char *name;
    enum control_type type;
};

/* The body, checked, for the caller to free; none is an empty object. False: the exchange was
 * answered. */
bool control_body(struct web_exchange *x, const struct control_member *members, cJSON **ret);

/* 0 if it is not there. */
uint64_t control_uint(const cJSON *body, const char *name);

/* ---- views.c: the objects of the API ---- */

cJSON *control_sandbox(const struct fleet_info *info);
cJSON *control_worker(const struct fleet_info *info);
/* A row of a list. */
cJSON *control_execution(const struct fleet_outcome *outcome);
/* All of one: with its output if `with_output`. */
cJSON *control_execution_whole(const struct fleet_outcome *outcome, bool with_output);
/* What it has displayed. */
cJSON *control_displays(const struct fleet_outcome *outcome);
cJSON *control_note(const struct fleet_note *note);

/* Whether it is over for its owner, and only our cleanup is left. */
bool control_is_ending(const struct fleet_info *info);

/* ---- sandboxes.c ---- */

/* Finds a sandbox; false: there is none, and the exchange was answered. */
bool control_find_sandbox(struct control *c, struct web_exchange *x, const char *name,
                          char ret_id[FLEET_ID_SIZE]);

/* ---- the handlers, each of one row or a few ---- */

void control_get_index(struct control *c, struct web_exchange *x, const char *name);
void control_get_version(struct control *c, struct web_exchange *x, const char *name);
void control_reload(struct control *c, struct web_exchange *x, const char *name);
void control_get_status(struct control *c, struct web_exchange *x, const char *name);
void control_list_sandboxes(struct control *c, struct web_exchange *x, const char *name);
void control_get_sandbox(struct control *c, struct web_exchange *x, const char *name);
void control_delete_sandbox(struct control *c, struct web_exchange *x, const char *name);
void control_stop_sandbox(struct control *c, struct web_exchange *x, const char *name);
void control_list_workers(struct control *c, struct web_exchange *x, const char *name);
void control_list_executions(struct control *c, struct web_exchange *x, const char *name);
void control_get_execution(struct control *c, struct web_exchange *x, const char *name);
void control_get_displays(struct control *c, struct web_exchange *x, const char *name);
void control_stop_execution(struct control *c, struct web_exchange *x, const char *name);
void control_get_logs(struct control *c, struct web_exchange *x, const char *name);
void control_make_sandbox(struct control *c, struct web_exchange *x, const char *name);
void control_exec(struct control *c, struct web_exchange *x, const char *name);
void control_write_stdin(struct control *c, struct web_exchange *x, const char *name);
void control_read_file(struct control *c, struct web_exchange *x, const char *name);
void control_list_entries(struct control *c, struct web_exchange *x, const char *name);
void control_write_file(struct control *c, struct web_exchange *x, const char *name);
void control_get_events(struct control *c, struct web_exchange *x, const char *name);
void control_get_page(struct control *c, struct web_exchange *x, const char *name);

/* ---- events.c ---- */

void control_watch(struct control *c);
void control_end_watchers(struct control *c);

/* ---- private_page.c ---- */

/* Ends all; control_part_closed() follows for each. */
void control_end_pages(struct control *c);

/* ---- socket.c ---- */

/* Listens in the directory of the instance. NULL if that fails, which is logged. */
struct control_socket *control_socket_open(struct control *c);
void control_socket_quiesce(struct control_socket *s);
/* `closed` is called when it is freed. */
void control_socket_close(struct control_socket *s, uint64_t flush_ms, void (*closed)(void *arg),
                          void *arg);

#endif
