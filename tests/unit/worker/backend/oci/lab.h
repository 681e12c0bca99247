/*
 * A loop, a directory and a backend object for tests; every call seems to block.
 */
#ifndef CLOISTER_TESTS_UNIT_OCI_LAB_H
#define CLOISTER_TESTS_UNIT_OCI_LAB_H

#include <limits.h>
#include <uv.h>

#include "worker/backend/backend.h"

struct lab {
    uv_loop_t loop;
    uv_timer_t guard;
    struct backend *backend;
    char top[PATH_MAX];    /* directory of the test, removed by lab_finish() */
    char shared[PATH_MAX]; /* instance directory */
    char dir[PATH_MAX];    /* directory of the sandbox */
    char id[32];
    struct backend_spec spec;

    /* The answer of the last call. */
    bool answered, expired, closed;
    int rc;
    struct err err;
    char hint[BACKEND_HINT_MAX];
    char runtime[PATH_MAX], image[PATH_MAX], version[512], reason[2048];
    bool usable, left_behind;
    uint64_t mode;
    char unapplied[BACKEND_UNAPPLIED_MAX][512];
    size_t unapplied_count;
    int fd;
    struct backend_usage usage;
    bool create_answered;
    int create_rc;
};

void lab_init(struct lab *lab, const char *name, const char *agent);
void lab_finish(struct lab *lab);

/* Makes a new backend object, as a restarted worker does. The old one is closed. */
void lab_restart(struct lab *lab);

void lab_probe(struct lab *lab);
int lab_create(struct lab *lab);
int lab_attach(struct lab *lab);
int lab_stream(struct lab *lab);
int lab_usage(struct lab *lab);
/* To those of its spec, which has others now. */
int lab_limit(struct lab *lab);
int lab_destroy(struct lab *lab);

/* Starts a creation without waiting for its answer. */
void lab_begin_create(struct lab *lab);

/* Destroys the sandbox as soon as the runtime of its creation has made "<dir>/runtime/begun". */
int lab_destroy_while_creating(struct lab *lab);

/* Destroys the sandbox in the callback of its creation. */
int lab_destroy_when_created(struct lab *lab);

/* Abandons a creation at that point, as the death of a worker does: the runtime goes on and nothing
 * is cleaned up. Runs in a child process. */
void lab_orphan_creation(struct lab *lab);

/* Runs the loop until *flag or the deadline; false then. */
bool lab_run_until(struct lab *lab, const bool *flag, uint64_t deadline_ms);

/* Sends one line to the stand-in agent over a new stream and returns its whole answer (free). */
char *lab_say(struct lab *lab, const char *line);

/* Number of processes on this host whose command line contains the text. */
int lab_count_processes(const char *text);

/* Number of cgroup directories whose name contains the text. */
int lab_count_cgroups(const char *text);

/* Number of entries of a directory, 0 if it does not exist. */
int lab_count_entries(const char *path);

#endif
