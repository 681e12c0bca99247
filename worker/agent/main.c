/*
 * Command line of the agent. It is started by backends, not by people, so options are strict and
 * errors are one line on stderr.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/log.h"
#include "common/str.h"
#include "config.h"
#include "proto/exit_codes.h"
#include "proto/limits.h"
#include "proto/variables.h"
#include "proto/version.h"
#include "worker/agent/agent.h"
#include "worker/agent/door/doorway.h"
#include "worker/agent/installs/front.h"
#include "worker/agent/installs/place.h"
#include "worker/agent/link/endpoint.h"
#include "worker/agent/link/relay.h"
#include "worker/agent/process/check.h"
#include "worker/agent/process/devices.h"
#include "worker/agent/process/ids.h"
#include "worker/agent/process/limits.h"
#include "worker/agent/process/netlink.h"
#include "worker/agent/process/share.h"
#include "worker/agent/process/within.h"
#include "worker/agent/run/userenv.h"

#define NO_FD  UINT64_MAX
#define ID_MAX (UINT32_MAX - 1u)
#define PACKAGES                                                                                   \
    "/packages" /* same as BACKEND_PACKAGES, whose header the agent may not include                \
                 */

struct options {
    uint64_t fd, door, grace_ms, uid, gid, nproc, nofile, data_bytes, memory_bytes;
    const char *listen, *socket, *sandbox, *workspace, *home, *packages, *installs, *dir;
    bool single_uid, any_peer, relay_stdio, filter, views;
};

struct option_row {
    const char *name;
    uint64_t max;  /* of a number */
    size_t number; /* offset; SIZE_MAX: text */
    size_t text;
};

#define NUMBER(name, field, max)                                                                   \
    {                                                                                              \
        name, max, offsetof(struct options, field), SIZE_MAX                                       \
    }
#define TEXT(name, field)                                                                          \
    {                                                                                              \
        name, 0, SIZE_MAX, offsetof(struct options, field)                                         \
    }

static const struct option_row rows[] = {
    NUMBER("--fd", fd, 1 << 20),
    NUMBER("--door", door, UINT16_MAX),
    TEXT("--listen", listen),
    TEXT("--socket", socket),
    TEXT("--sandbox", sandbox),
    NUMBER("--grace-ms", grace_ms, UINT32_MAX),
    NUMBER("--uid", uid, ID_MAX),
    NUMBER("--gid", gid, ID_MAX),
    NUMBER("--nproc", nproc, UINT32_MAX),
    NUMBER("--nofile", nofile, UINT32_MAX),
    NUMBER("--data-bytes", data_bytes, INT64_MAX),
    NUMBER("--memory-bytes", memory_bytes, INT64_MAX),
    TEXT("--workspace", workspace),
    TEXT("--home", home),
    TEXT("--packages", packages),
    TEXT("--installs", installs),
    TEXT("--dir", dir),
};

static const struct option_row *row_find(const char *name)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static int parse(int argc, char **argv, struct options *ret, struct err *err)
{
    char *base = (char *)ret;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--single-uid") == 0) {
            ret->single_uid = true;
            continue;
        }
        if (strcmp(argv[i], "--any-peer") == 0) {
            ret->any_peer = true;
            continue;
        }
        if (strcmp(argv[i], "--filter") == 0) {
            ret->filter = true;
            continue;
        }
        if (strcmp(argv[i], "--views") == 0) {
            ret->views = true;
            continue;
        }
        if (strcmp(argv[i], "--relay-stdio") == 0) {
            ret->relay_stdio = true;
            continue;
        }
        const struct option_row *row = row_find(argv[i]);
        if (row == NULL || i + 1 == argc) {
            return err_set(err, ERR_INVALID, "%s: %s", argv[i],
                           row == NULL ? "no such option" : "needs a value");
        }
        i++;
        if (row->text != SIZE_MAX) {
            memcpy(base + row->text, &argv[i], sizeof(argv[i]));
            continue;
        }
        uint64_t value = 0;
        int rc = str_to_u64(argv[i], 0, row->max, &value, err);
        if (rc < 0) {
            return err_wrap(err, "%s", row->name);
        }
        memcpy(base + row->number, &value, sizeof(value));
    }
    if (!ret->single_uid && ret->uid == 0) {
        return err_set(err, ERR_INVALID, "--uid: user code needs a user of its own");
    }
    ret->uid = ids_fit("/proc/self/uid_map", "/proc/self/gid_map", (uint32_t)ret->uid);
    ret->gid = ids_fit("/proc/self/uid_map", "/proc/self/gid_map", (uint32_t)ret->gid);
    return 0;
}

static struct spawn_config spawn_of(const struct options *o)
{
    const char *cwd = getenv(VARIABLE_CWD);
    unsigned sockets = o->filter ? netlink_count() : 0;
    return (struct spawn_config){
        .uid = (uid_t)o->uid,
        .gid = (gid_t)o->gid,
        .nproc = o->nproc,
        .nofile = o->nofile,
        .data_bytes = o->data_bytes,
        .memory_bytes = o->memory_bytes,
        .workspace = o->workspace,
        .cwd = cwd != NULL && cwd[0] == '/' ? cwd : o->workspace,
        .one_stream = getenv(VARIABLE_ONE_STREAM) != NULL,
        .single_uid = o->single_uid,
        .filter = o->filter,
        .netlink_others = sockets == UINT_MAX ? 0 : sockets,
    };
}

/* An engine may give a directory the mode that the image has there instead of the requested one. If
 * the directory is ours and closed to the sandbox user, it gets the mode of /tmp: the sandbox has
 * no other users. */
static void open_to_user(const struct options *o, const char *path)
{
    struct stat st;
    if (o->single_uid || stat(path, &st) < 0 || st.st_uid == o->uid || st.st_uid != geteuid() ||
        (st.st_mode & 0002) != 0) {
        return;
    }
    if (chmod(path, 01777) < 0) {
        log_warn("cannot open %s to the user: %s", path, strerror(errno));
    }
}

/* The roots of package volumes, which an engine makes writable for the container's root only. */
static void open_packages(const struct options *o)
{
    static const char *const names[] = {"python", "node"};
    char path[LIMIT_PATH];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int len = snprintf(path, sizeof(path), "%s/%s", o->packages, names[i]);
        if (len > 0 && (size_t)len < sizeof(path)) {
            open_to_user(o, path);
        }
    }
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Whether somebody may install there: a root that hosts make has the directory, but nothing in it
 * for sandboxes without packages. */
static bool has_places(const char *packages)
{
    char path[LIMIT_PATH];
    int len = packages != NULL ? snprintf(path, sizeof(path), "%s/python", packages) : -1;
    return len > 0 && (size_t)len < sizeof(path) && is_directory(path);
}

static int serve(const struct options *o, struct err *err)
{
    if ((o->fd == NO_FD) == (o->listen == NULL) || o->sandbox == NULL ||
        strlen(o->sandbox) > LIMIT_NAME) {
        err_set(err, ERR_INVALID, "serve: --sandbox and one of --fd and --listen are needed");
        return EXIT_CODE_USAGE;
    }
    if (o->relay_stdio && o->listen == NULL) {
        err_set(err, ERR_INVALID, "serve: --relay-stdio needs --listen");
        return EXIT_CODE_USAGE;
    }
    const char *packages = is_directory(o->packages) ? o->packages : NULL;
    if (userenv_set(o->home, packages, err) < 0) {
        return EXIT_CODE_SETUP;
    }
    if (o->listen != NULL) {
        open_to_user(o, o->workspace);
        open_to_user(o, o->home != NULL ? o->home : o->workspace);
    }
    if (packages != NULL) {
        open_packages(o);
    }
    struct agent_config config = {
        .listen_fd = o->listen == NULL ? (int)o->fd : -1,
        .listen = o->listen,
        .relay_stdio = o->relay_stdio,
        .sandbox = o->sandbox,
        .grace_ms = o->grace_ms,
        .installs_fd = -1,
        .door_fd = -1,
        .any_peer = o->any_peer,
        .spawn = spawn_of(o),
    };
    config.spawn.packages = packages;
    if (o->installs != NULL && place_open(o->installs, &config.spawn, has_places(packages),
                                          &config.installs_fd, err) < 0) {
        log_warn("code cannot ask for packages: %s", err->text);
    }
    if (o->door != 0 && doorway_listen((uint16_t)o->door, &config.door_fd, err) < 0) {
        log_warn("nothing is let out: %s", err->text);
    }
    return agent_run(&config, err);
}

static int relay(const struct options *o, struct err *err)
{
    return relay_run(o->socket, err);
}

static int check_options(const struct options *o, struct err *err)
{
    struct spawn_config spawn = spawn_of(o);
    if (check_sandbox(&spawn, o->fd != NO_FD ? (int)o->fd : -1, o->views, err) < 0) {
        return EXIT_CODE_SETUP;
    }
    printf("%s %s: ready\n", PROTO_AGENT_NAME, CLOISTER_VERSION);
    return EXIT_CODE_OK;
}

/* A worker runs this on the host for trees whose removal takes longer than closing a sandbox
 * may. */
static int remove_tree(const struct options *o, struct err *err)
{
    if (o->dir == NULL || o->dir[0] != '/') {
        err_set(err, ERR_INVALID, "remove: --dir is needed");
        return EXIT_CODE_USAGE;
    }
    return dir_remove(o->dir, err) < 0 ? EXIT_CODE_SETUP : EXIT_CODE_OK;
}

struct verb {
    const char *name;
    int (*run)(const struct options *o, struct err *err);
    /* instead: takes its words itself, since options are repeated or a command follows */
    int (*run_words)(int argc, char **argv, struct err *err);
};

static const struct verb verbs[] = {
    {"serve", serve, NULL},        {"relay", relay, NULL},         {"check", check_options, NULL},
    {"remove", remove_tree, NULL}, {"devices", NULL, devices_run}, {"share", NULL, share_run},
    {"limit", NULL, limits_run},   {"within", NULL, within_run},
};

static const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    if (argc > 0 && front_is_named(argv[0])) {
        return front_run(argc, argv);
    }
    struct options o = {.fd = NO_FD,
                        .socket = ENDPOINT_DEFAULT,
                        .grace_ms = TIME_GRACE_MS,
                        .uid = 1000,
                        .gid = 1000,
                        .workspace = "/workspace",
                        .packages = PACKAGES};
    const char *name = argc > 1 ? argv[1] : "";
    const struct verb *verb = verb_find(name);
    log_set_component("agent");
    if (strcmp(name, "--version") == 0) {
        printf("%s %s\n", PROTO_AGENT_NAME, CLOISTER_VERSION);
        return EXIT_CODE_OK;
    }
    int code = EXIT_CODE_USAGE;
    if (verb == NULL) {
        err_set(&err, ERR_INVALID,
                "usage: %s serve|relay|check|remove|devices|share|limit|within|--version",
                PROTO_AGENT_NAME);
    } else if (verb->run_words != NULL) {
        code = verb->run_words(argc - 2, argv + 2, &err);
    } else if (parse(argc, argv, &o, &err) == 0) {
        code = verb->run(&o, &err);
    }
    if (code != EXIT_CODE_OK) {
        fprintf(stderr, "%s: %s\n", PROTO_AGENT_NAME, err.text);
    }
    return code;
}
