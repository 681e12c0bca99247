/*
 * Configuration. One table of options (options.c) defines the command line, the environment
 * variables, --help and all checks.
 */
#ifndef CLOISTER_SUPERVISOR_BASE_CONFIG_H
#define CLOISTER_SUPERVISOR_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/log.h"

#define BACKEND_AUTO "auto" /* --backend: the first automatic backend that works */

#define CONFIG_SANDBOXES_MOST 4096 /* --max-sandboxes is at most this */

struct backend_row;

struct config {
    char *config_file;   /* "" = the usual ones, see config_file.h */
    char *backend;       /* BACKEND_AUTO or a name of common/backends.def */
    char *engine;        /* address of the container engine; "" = searched */
    char *runtime;       /* OCI runtime, name or path; "" = chosen by the backend */
    char *image;         /* oci: directory with an unpacked root; docker: reference; "" = default */
    char *pull;          /* "missing" "never" */
    char *allow_images;  /* docker: patterns of images that clients may choose; "" = any */
    char *image_dir;     /* oci: directory whose entries clients may choose as images; "" = none */
    char *runtime_dir;   /* "" = default place, see options.c */
    char *instance;      /* "" = our own, removed with us; with HTTP never "" */
    const char *sweeper; /* program of the sweeper (sweeper.h), not an option; NULL = none */
    char *worker_path;   /* "" = found beside this program */
    char *agent_path;    /* "" = found beside this program */
    uint64_t memory_mb;  /* defaults of new sandboxes */
    uint64_t cpu_milli;
    uint64_t pids;
    uint64_t disk_mb; /* 0: what fits; see config_disk_mb() */
    uint64_t files;
    uint64_t io_read_mbps, io_write_mbps, io_iops; /* in a second; 0: not limited */
    char *io_device;                               /* "" = found by what a sandbox reads */
    /* the most that a client may ask for one sandbox, and memory of all; never 0 (ceilings.h) */
    uint64_t max_memory_mb, max_cpu_milli, max_pids, max_disk_mb;
    uint64_t memory_budget_mb;
    uint64_t timeout_s; /* default deadline of an execution */
    uint64_t max_timeout_s;
    uint64_t sync_budget_s; /* longest wait of a call for code to end */
    uint64_t ttl_s;
    uint64_t max_lifetime_s;
    uint64_t max_sandboxes, max_calls;
    char *pool;             /* as pool_option.h reads it */
    char *preload;          /* likewise; "" = nothing */
    char *default_sandbox;  /* "auto" "principal" "session" "call" */
    char *results;          /* one of RESULT_FORM_WORDS */
    uint64_t grace_s;       /* a sandbox lives on for this long without a server */
    uint64_t front_lease_s; /* after which other servers take over; 0: there are none */
    /* HTTP */
    char *http; /* "PORT" or "HOST:PORT", "" for none */
    bool stdio; /* also serve stdio if there is HTTP */
    char *public_url;
    char *tls_cert, *tls_key;
    char *tokens; /* file */
    char *oauth_issuer, *oauth_introspection, *oauth_client, *oauth_scopes;
    char *allow_hosts, *allow_origins; /* separated by commas */
    bool insecure_http;
    uint64_t max_connections, max_sessions, session_idle_s;
    /* of one principal */
    uint64_t principal_sandboxes, principal_memory_mb, principal_calls;
    uint64_t task_after_s;
    /* network, packages, languages, files, profiles */
    bool allow_network;                 /* clients may ask for network */
    bool packages;                      /* packages can be installed */
    bool build_packages;                /* also those that run code while they are installed */
    char *package_index, *npm_registry; /* URLs; "" = the managers' own */
    char *package_dir;                  /* directory of wheels on this host; "" = none */
    char *package_hosts;                /* what else installers reach, with commas; "" = nothing */
    char *package_proxy;                /* URL of the proxy through which all of that is reached */
    char *package_ca;                   /* PEM file that installers trust; "" = the image's own */
    uint64_t packages_mb;               /* limit of the packages of one sandbox */
    uint64_t install_timeout_s;
    char *languages;      /* JSON file of further languages; "" = none */
    char *local_files;    /* directories of this host for upload_file and save_file, with commas */
    char *share;          /* directories that sandboxes see, as share.h reads them; "" = none */
    uint64_t link_s;      /* how long a link to a file (HTTP) or port is valid */
    bool ports;           /* ports of sandboxes can be reached */
    uint64_t port_wait_s; /* how long a web server in a sandbox may take to answer */
    char *compat;         /* names of profiles, with commas */
    bool strict;
    char *audit_log;     /* file; "" = none */
    bool audit_code;     /* it has the code, too */
    char *otlp_endpoint; /* URL of a collector; "" = none */
    enum log_level log_level;
};

/* The configured backend. NULL: all automatic ones are candidates, which holds for "auto" unless
 * another option belongs to one of them. */
const struct backend_row *config_backend(const struct config *c);

/* Refuses an option that is asked for and means nothing to the backend that is meant, or with
 * several in question to none of them. -ERR_CONFIG. */
int config_check_taken(const struct config *c, struct err *err) WARN_UNUSED;

/* The options that are asked for and mean nothing to this backend, for people: "--pull, --engine";
 * NULL if there are none. To be freed. */
char *config_not_taken(const struct config *c, const struct backend_row *row);

/* Whether images are references of an engine, as far as is known before a backend is chosen. */
bool config_names_references(const struct config *c);

/* The size of the workspace for a sandbox with this much memory if the client asks for none: the
 * configured size, or less if the memory is less than the configured; at most --max-disk-mb. */
uint64_t config_disk_mb(const struct config *c, uint64_t memory_mb);

/* What the packages of one manager may take, if code of packages is let run where they are written;
 * else 0, since then only what counts them writes there. */
uint64_t config_packages_bytes(const struct config *c);

/* How many of the words are options with their values: the first behind them is a command, or there
 * is none. */
int config_options_end(int argc, char **argv);

/* Reads defaults, then configuration files, then environment, then arguments. `argv` starts at the
 * first option; parsing stops at the first word that is no option, whose index is stored in
 * *ret_used. The error names the option and what was expected. Looks at this machine and at the
 * directories of --share; with
 * --compat code-sandbox also reads a file .env of the working directory, and sets INTERPRETER_TYPE
 * in the environment if only that file has it. */
int config_load(struct config *c, int argc, char **argv, int *ret_used,
                struct err *err) WARN_UNUSED;

void config_finish(struct config *c);

/* Whether a list with commas contains the word. */
bool config_lists(const char *list, const char *word);

/* Whether one of the python profiles is on. */
bool config_is_python(const struct config *config);

#endif
