/*
 * What the files of the commands share.
 */
#ifndef CLOISTER_SUPERVISOR_COMMANDS_INTERNAL_H
#define CLOISTER_SUPERVISOR_COMMANDS_INTERNAL_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/io/http_client.h"
#include "common/view.h"
#include "supervisor/base/config.h"
#include "supervisor/commands/commands.h"

struct option;

#define COMMAND_FLAGS_MAX 8
#define EXIT_FAILED       1 /* as docker's: the server has refused, or there is none */

/* ---- a command and its words ---- */

/* An option of one command. All without a value are switches. */
struct command_flag {
    const char *name; /* without dashes; NULL ends a list */
    char letter;      /* '\0': none */
    const char *value_name;
    const char *about;
    const char *value;   /* default, as one would type it; NULL: none */
    const char *choices; /* "a b", for shells; NULL: any */
};

/* A command as it was typed. */
struct steer {
    const struct config *config; /* instance, runtime directory */
    char **server_words;         /* the options of servers that were typed */
    int server_word_count;
    const char *values[COMMAND_FLAGS_MAX]; /* by the place of the flag; NULL: not given */
    bool json;                             /* --format json */
    char **words;                          /* the others, in order; NULL behind the last */
    size_t word_count;
};

/* What is told of a command is told here once: --help, the manual page and the completions of
 * shells are made of it. */
struct command {
    const char *name;
    const char *words;  /* behind its name: "NAME..."; several ways are lines of their own */
    const char *about;  /* in the list of all */
    size_t least, most; /* words that it wants */
    struct command_flag flags[COMMAND_FLAGS_MAX];
    int (*run)(const struct steer *s); /* NULL: it is for this host, and main.c runs it */
    size_t own_words; /* behind so many all is for what it runs, options too; 0: all are its own */
    const char *more; /* what else there is to say; NULL: nothing */
    const char *examples; /* a line each, without "cloister" */
    bool starts_server;   /* if none runs, so that it takes all options of servers */
};

/* ---- rows.c ---- */

extern const struct command command_rows[];
extern const size_t command_count;

/* Its options by number, and behind them --help, which each has; NULL behind the last. */
const struct command_flag *command_flag_at(const struct command *c, size_t number);

/* ---- commands.c ---- */

/* Prints "cloister: ..." to stderr, as text_for_terminal() has it; returns EXIT_FAILED. */
int command_fail(const struct err *err);

/* ---- servers.c ---- */

struct server {
    char *name;   /* of its instance */
    char *socket; /* path */
};

struct servers {
    struct server *items;
    size_t count;
    char *top; /* where they were looked for */
};

/* The servers of this user that have a control socket, those with a name first; only that of
 * --instance if one is named. */
void servers_find(const struct config *config, struct servers *ret);
void servers_finish(struct servers *s);

/* The one there is; an error if there is none, or if there are several. */
int servers_only(const struct servers *s, const struct server **ret, struct err *err) WARN_UNUSED;

/* Calls `one` for each of them. Returns the exit status: that of the last one that failed, or 0. */
typedef int (*servers_each_fn)(const struct steer *s, const struct server *server, void *arg);
int servers_each(const struct steer *s, servers_each_fn one, void *arg);

/* Keeps those with a name that answer: others are their clients' own, or left over. One that has a
 * name and does not answer is told on stderr. */
void servers_keep_standing(struct servers *s);

/* The server that has a sandbox (by id or name) or an execution of this name. *ret_path is its path
 * in the API, "/v1/sandboxes/NAME"; the caller frees it. */
int servers_with(const struct servers *s, const char *name, const struct server **ret,
                 char **ret_path, struct err *err) WARN_UNUSED;

/* ---- ask.c ---- */

/* Asks and waits for the answer. *ret is the object of a 2xx answer (owned by the caller,
 * cJSON_Delete); an error of the API becomes an error with its message and hint. */
int server_ask(const struct server *server, const char *method, const char *path, cJSON **ret,
               struct err *err) WARN_UNUSED;

/* The same with a body. */
int server_send(const struct server *server, const char *method, const char *path, struct view body,
                cJSON **ret, struct err *err) WARN_UNUSED;

/* POST of an object, which it frees. */
int server_post(const struct server *server, const char *path, cJSON *owned, cJSON **ret,
                struct err *err) WARN_UNUSED;

/* Writes the bytes of an answer to a file as they come. */
int server_bytes(const struct server *server, const char *path, FILE *out,
                 struct err *err) WARN_UNUSED;

/* Gets a stream of lines. `line` is called for each, with a borrowed object, till it returns false;
 * that is a success. */
typedef bool (*server_line_fn)(void *arg, const cJSON *line);
int server_lines(const struct server *server, const char *path, server_line_fn line, void *arg,
                 struct err *err) WARN_UNUSED;

/* Sends the first message of an MCP client to this address; *ret_status is that of the answer. */
int server_greet(const char *url, int *ret_status, struct err *err) WARN_UNUSED;

/* Adds a piece of a stream to `rest`, and calls `line` for each whole line. False: that is enough,
 * or they are none of ours. */
bool server_cut_lines(struct buf *rest, struct view piece, server_line_fn line, void *arg);

/* For those who ask by a loop of their own. */
#define SERVER_LINE_BYTES (4u << 20)
#define SERVER_DEPTH      64
#define SERVER_ANSWER_MS  60000
#define SERVER_STREAM_MS  (UINT64_C(365) * 86400 * 1000)
struct http_endpoint server_endpoint(const struct server *server);

/* Sets the error that an answer with another status than 2xx tells of; `answer` NULL: it is no
 * object. */
int server_refusal(const cJSON *answer, int status, struct err *err);

/* Waits. */
void server_pause(unsigned ms);

/* ---- table.c ---- */

struct table;

/* A copy in which each control character, which a terminal would obey, is a question mark. The
 * caller frees it. */
char *text_for_terminal(const char *text);

/* `heads` are the titles of the columns; NULL behind the last. */
struct table *table_create(const char *const *heads);
/* Adds a row of as many cells as there are heads; they are copied, and control characters replaced.
 */
void table_add(struct table *t, const char *const *cells);
/* Prints it to stdout if it is to be shown, and frees it. */
void table_end(struct table *t, bool shown);

/* ---- text of an object, for tables ---- */

const char *member_text(const cJSON *object, const char *name); /* "" if it is none */
double member_number(const cJSON *object, const char *name);    /* 0 if it is none */

/* Prints an object in one line, with "server" in front of its members. */
void print_object(const struct server *server, const cJSON *object);

/* Prints that something is done: its name, or with --format json what the server has answered. */
void print_done(const struct steer *s, const struct server *server, const char *name,
                const cJSON *answer);

/* ---- talk.c ---- */

#define STATUS_STOPPED 130 /* as shells have it for SIGINT */

/* What is done with an execution while it runs. */
struct talk {
    const struct server *server;
    bool sends_stdin; /* our stdin is its stdin */
    bool ends_stdin;  /* its stdin is a terminal that is at its end from the beginning */
    bool is_terminal; /* our stdin is a terminal, whose size its own has */
};

/* Adds our words behind the first as its arguments. */
void talk_add_args(const struct steer *s, cJSON *body);

/* Starts what the body says in the sandbox, whose path in the API is `sandbox`; frees the body.
 * Passes output to our stdout and stderr, and our stdin on, till it has ended. A signal that would
 * end us stops it, and a second one does not wait for that. Returns the exit status that says how
 * it ended: its own, 124 after its deadline, 137 for memory, 130 if it was stopped. */
int talk_run(const struct talk *talk, const char *sandbox, cJSON *owned_body,
             struct err *err) WARN_UNUSED;

/* ---- own_server.c: one on stdio for code that runs where no server does ---- */

struct own_server;

/* What its sandbox is to have. */
struct own_server_wish {
    const char *image; /* NULL: that of the server */
    bool network;
};

/* Starts it as the configuration and the typed options say, without HTTP, with a sandbox. On error,
 * and once interrupted, nothing is left. */
int own_server_start(const struct steer *s, const struct own_server_wish *wish,
                     struct own_server **ret, struct err *err) WARN_UNUSED;
const struct server *own_server_place(const struct own_server *o);
const char *own_server_sandbox(const struct own_server *o);
/* Ends it with all that it has; it is gone when this returns. */
void own_server_end(struct own_server *o);

/* An option that was typed and means nothing to such a server; NULL: there is none. */
const struct option *own_server_refuses(const struct steer *s);

/* ---- typed.c: which options of servers were typed ---- */

/* The first of which this is true; NULL: none. */
typedef bool (*typed_fn)(const struct option *o);
const struct option *typed_option(const struct steer *s, typed_fn is);

/* Whether it says how a server is to be, and not just which one is meant. */
bool typed_shapes_server(const struct option *o);

/* ---- interrupts.c: signals that would end us, which stop what we have begun first ---- */

/* From now on they are kept. */
void interrupts_begin(void);

/* Readable when one has come since interrupts_take(); -1: they are not kept. */
int interrupts_fd(void);
void interrupts_take(void);

/* Whether one has ever come. */
bool interrupts_came(void);

/* Whether a second one has come: nothing is waited for any more. */
bool interrupts_insist(void);

/* As if one had come: SIGPIPE, which is ignored. However often that is, nobody insists by it. */
void interrupts_note(int number);

/* Dies by the first one that has come; returns if none has. */
void interrupts_end(void);

/* ---- follow.c ---- */

/* Writes all to our stdout or stderr. Waits for the reader till a signal is kept that would end us
 * (interrupts.c), and drops then what is not taken at once. False: nobody reads it any more. */
bool print_bytes(int fd, struct view bytes);

/* Prints the output that a line of a log has; false: nobody reads ours any more. */
bool print_output(const cJSON *line);

/* What the last line of a log says: an error if the output ended before the execution. */
int check_output_end(const cJSON *end, struct err *err) WARN_UNUSED;

/* ---- copy.c ---- */

/* Writes what is read to a file of the sandbox, whose path in the API is `sandbox`; mode 0: the
 * usual one. */
int copy_send(const struct server *server, const char *sandbox, const char *inside, unsigned mode,
              FILE *in, struct err *err) WARN_UNUSED;

/* Writes the bytes of a file of the sandbox to `out`. */
int copy_fetch(const struct server *server, const char *sandbox, const char *inside, FILE *out,
               struct err *err) WARN_UNUSED;

/* ---- copy_tree.c: what is in one directory goes into the other, which is made if need be ---- */

int copy_tree_in(const struct server *server, const char *sandbox, const char *from,
                 const char *inside, struct err *err) WARN_UNUSED;
/* `listing` is the server's answer about the directory. */
int copy_tree_out(const struct server *server, const char *sandbox, const char *inside,
                  const cJSON *listing, const char *to, struct err *err) WARN_UNUSED;

/* ---- the commands ---- */

int command_run_code(const struct steer *s);
int command_exec(const struct steer *s);
int command_cp(const struct steer *s);

int command_ps(const struct steer *s);
int command_inspect(const struct steer *s);
int command_version(const struct steer *s);
int command_logs(const struct steer *s);
int command_events(const struct steer *s);
int command_stop(const struct steer *s);
int command_rm(const struct steer *s);
int command_prune(const struct steer *s);
int command_reload(const struct steer *s);
int command_top(const struct steer *s);
int command_ui(const struct steer *s);

#endif
