/*
 * Looks for an engine as the docker command does, so that a user for whom `docker ps` works needs
 * no configuration, and then in the usual places of installers.
 *
 * Contexts are the command's named endpoints: each has a directory whose name is a hash of the
 * context's name, and a file with the name. Reading the names costs a few small reads and saves the
 * hash. The files are input from outside: their size, depth and kind are checked, and a broken file
 * is reported but does not end the search. If config.json is unreadable (as after `sudo docker
 * login`), the search goes on, as the command does.
 *
 * One socket often has several names, because installers link /var/run/docker.sock to theirs. The
 * files behind the names are compared, so that no engine is asked twice.
 */
#include "worker/backend/docker/discovery.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/io/json.h"

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define FILE_DEPTH     32
#define CONTEXTS_MAX   1024
#define COLIMA_MAX     6 /* profiles; the rest of the list is for other places */

struct search {
    docker_getenv_fn get;
    void *arg;
    struct docker_discovery *places;
    struct {
        dev_t device;
        ino_t inode;
    } seen[DOCKER_ENDPOINTS_MAX];
    size_t seen_count;
    size_t colima_count; /* of profiles other than the default */
};

static const char *var(const struct search *s, const char *name)
{
    const char *value = s->get(s->arg, name);
    return value != NULL ? value : "";
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Takes origin. NULL if the list is full. */
static struct docker_place *add_place(struct search *s, char *owned_origin)
{
    if (s->places->count == DOCKER_ENDPOINTS_MAX) {
        free(owned_origin);
        return NULL;
    }
    struct docker_place *place = &s->places->items[s->places->count++];
    *place = (struct docker_place){.endpoint = {.origin = owned_origin}};
    return place;
}

static void add_problem(struct search *s, const char *origin, const struct err *problem)
{
    struct docker_place *place = add_place(s, alloc_strdup(origin));
    if (place != NULL) {
        place->problem = *problem;
    }
}

/* Adds a place with a problem; the advice after it must not be truncated. */
static void add_broken(struct search *s, const char *origin, const struct err *err,
                       const char *advice)
{
    struct err problem = ERR_INIT;
    err_ignore(err_set(&problem, (enum err_code)err->code, "%.380s%s", err->text, advice));
    add_problem(s, origin, &problem);
}

/* Reports that no process can listen at a path, in clearer words than connect() would. */
static int check_socket(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        bool absent = errno == ENOENT;
        err_ignore(err_sys(err, ERR_ENGINE, errno, "%s", path));
        return absent ? err_set(err, ERR_ENGINE, "%s does not exist: is the engine running?", path)
                      : -ERR_ENGINE;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return err_set(err, ERR_ENGINE, "%s is no socket: remove it and start the engine again",
                       path);
    }
    return 0;
}

static int check_files(const struct docker_endpoint *e, struct err *err)
{
    const char *const files[] = {e->ca_file, e->cert_file, e->key_file};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (files[i] != NULL && access(files[i], R_OK) < 0) {
            return err_sys(err, ERR_CONFIG, errno, "%s is needed for TLS", files[i]);
        }
    }
    return 0;
}

/* Adds an endpoint that has been read, whose texts it takes. */
static void add_endpoint(struct search *s, const char *origin, struct docker_endpoint *e,
                         const char *advice)
{
    struct err err = ERR_INIT;
    int rc = e->unix_socket != NULL ? check_socket(e->unix_socket, &err) : check_files(e, &err);
    struct docker_place *place = rc == 0 ? add_place(s, alloc_strdup(origin)) : NULL;
    if (place == NULL) {
        docker_endpoint_finish(e);
    } else {
        e->origin = place->endpoint.origin;
        place->endpoint = *e;
    }
    if (rc < 0) {
        add_broken(s, origin, &err, advice);
    }
}

/* Adds what somebody named, good or not. `advice` says what to change if it is not. */
static void add_named(struct search *s, const char *origin, const char *host,
                      const struct docker_tls *tls, const char *advice)
{
    struct docker_endpoint e = {.text = NULL};
    struct err err = ERR_INIT;
    if (docker_endpoint_make(host, tls, &e, &err) < 0) {
        add_broken(s, origin, &err, advice);
    } else {
        add_endpoint(s, origin, &e, advice);
    }
}

/* Adds where we were told that the engine is. */
static void add_told(struct search *s, const struct place *place)
{
    static const char origin[] = "the engine that was named";
    struct docker_endpoint e = {.text = NULL};
    struct err err = ERR_INIT;
    if (docker_endpoint_of(place, &e, &err) < 0) {
        add_broken(s, origin, &err, "");
    } else {
        add_endpoint(s, origin, &e, "");
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* -ERR_FILE_NOT_FOUND if it is not there, which is often fine; the caller owns *ret. */
static int read_json(const char *path, cJSON **ret, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR;
        return err_sys(err, absent ? ERR_FILE_NOT_FOUND : ERR_CONFIG, errno, "%s", path);
    }
    if (!S_ISREG(st.st_mode)) { /* opening a FIFO would block */
        return err_set(err, ERR_CONFIG, "%s is no regular file", path);
    }
    CLEANUP_BUF struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    cJSON *json = NULL;
    int rc = file_read(path, &text, err);
    if (rc < 0) {
        err->code = ERR_CONFIG;
        return -ERR_CONFIG;
    }
    rc =
        json_parse((const char *)text.data, text.len, FILE_MAX_BYTES, FILE_DEPTH, &json, NULL, err);
    if (rc == 0 && !cJSON_IsObject(json)) {
        cJSON_Delete(json);
        rc = err_set(err, ERR_CONFIG, "not a JSON object");
    }
    if (rc < 0) {
        err->code = ERR_CONFIG;
        return err_wrap(err, "%s", path);
    }
    *ret = json;
    return 0;
}

/* Makes a path absolute, since another worker may have another working directory. */
static char *absolute(const char *path)
{
    char here[PATH_MAX];
    if (path[0] == '/' || getcwd(here, sizeof(here)) == NULL) {
        return alloc_strdup(path);
    }
    return alloc_printf("%s/%s", here, path);
}

/* The file's path, or NULL if it does not exist; the docker command leaves out absent files,
 * too. */
static char *file_if_there(const char *dir, const char *name)
{
    CLEANUP_FREE char *path = alloc_printf("%s/%s", dir, name);
    return access(path, F_OK) == 0 ? STEAL_PTR(path) : NULL;
}

/* $DOCKER_CONFIG or ~/.docker; NULL if neither is known. */
static char *config_dir(const struct search *s)
{
    const char *named = var(s, "DOCKER_CONFIG");
    const char *home = var(s, "HOME");
    if (named[0] != '\0') {
        return absolute(named);
    }
    return home[0] != '\0' ? alloc_printf("%s/.docker", home) : NULL;
}

/* Reads the TLS variables; any value of DOCKER_TLS_VERIFY turns it on, also "0". */
static void tls_of_vars(const struct search *s, const char *config, struct docker_tls *ret)
{
    const char *named = var(s, "DOCKER_CERT_PATH");
    *ret = (struct docker_tls){.verify = var(s, "DOCKER_TLS_VERIFY")[0] != '\0'};
    ret->on = ret->verify || var(s, "DOCKER_TLS")[0] != '\0';
    CLEANUP_FREE char *dir = named[0] != '\0' ? absolute(named)
                             : config != NULL ? alloc_strdup(config)
                                              : NULL;
    if (!ret->on || dir == NULL) {
        return;
    }
    if (ret->verify) {
        /* set even if it does not exist, which is an error then: without a CA any public
         * certificate would be accepted */
        ret->ca_file = alloc_printf("%s/ca.pem", dir);
    }
    ret->cert_file = file_if_there(dir, "cert.pem");
    ret->key_file = file_if_there(dir, "key.pem");
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* True for names that the docker command allows, which are safe to quote. */
static bool good_name(const char *name)
{
    static const char chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
    size_t len = strnlen(name, NAME_MAX + 1);
    return len > 0 && len <= NAME_MAX && strspn(name, chars) == len;
}

/* Finds a context's file by the name in it. The caller owns both results. */
static int find_context(const char *meta, const char *name, char **ret_entry, cJSON **ret,
                        struct err *err)
{
    struct err broken = ERR_INIT;
    DIR *dir = opendir(meta);
    if (dir == NULL) {
        return err_sys(err, ERR_CONFIG, errno, "it is not known: %s", meta);
    }
    struct dirent *entry;
    for (size_t i = 0; i < CONTEXTS_MAX && (entry = readdir(dir)) != NULL; i++) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        CLEANUP_FREE char *path = alloc_printf("%s/%s/meta.json", meta, entry->d_name);
        struct err problem = ERR_INIT;
        cJSON *json = NULL;
        if (read_json(path, &json, &problem) < 0) {
            broken = problem.code != ERR_FILE_NOT_FOUND ? problem : broken;
            continue;
        }
        const char *found = json_get_str(json, "Name");
        if (found != NULL && strcmp(found, name) == 0) {
            *ret_entry = alloc_strdup(entry->d_name);
            *ret = json;
            closedir(dir);
            return 0;
        }
        cJSON_Delete(json);
    }
    closedir(dir);
    if (broken.code != 0) {
        return err_set(err, ERR_CONFIG,
                       "it is in no readable file of %s, but one is broken: %.200s", meta,
                       broken.text);
    }
    return err_set(err, ERR_CONFIG, "no file in %s has that name", meta);
}

/* Address and TLS of a context that was found. The strings are borrowed from json. */
static int read_context(const char *config, const char *entry, const cJSON *json,
                        const char **ret_host, struct docker_tls *ret, struct err *err)
{
    const cJSON *endpoint = json_get(json_get(json, "Endpoints"), "docker");
    const cJSON *host = json_get(endpoint, "Host");
    if (!cJSON_IsObject(endpoint) || (host != NULL && !cJSON_IsString(host))) {
        return err_set(err, ERR_CONFIG,
                       "it has no endpoint for Docker in "
                       "%s/contexts/meta/%s/meta.json",
                       config, entry);
    }
    bool given = host != NULL && host->valuestring[0] != '\0';
    *ret_host = given ? host->valuestring : "unix://" DOCKER_SOCKET_USUAL;
    CLEANUP_FREE char *dir = alloc_printf("%s/contexts/tls/%s/docker", config, entry);
    bool skip = cJSON_IsTrue(json_get(endpoint, "SkipTLSVerify"));
    *ret = (struct docker_tls){
        .verify = !skip,
        .ca_file = file_if_there(dir, "ca.pem"),
        .cert_file = file_if_there(dir, "cert.pem"),
        .key_file = file_if_there(dir, "key.pem"),
    };
    ret->on = skip || ret->ca_file != NULL || ret->cert_file != NULL || ret->key_file != NULL;
    return 0;
}

static void add_context(struct search *s, const char *config, const char *name, const char *source)
{
    CLEANUP_FREE char *advice = alloc_printf("; see `docker context ls`, then correct %s", source);
    CLEANUP_FREE char *origin =
        good_name(name) ? alloc_printf("context \"%s\" of %s", name, source) : alloc_strdup(source);
    struct docker_tls tls __attribute__((cleanup(docker_tls_finish))) = {.on = false};
    CLEANUP_FREE char *entry = NULL;
    const char *host = NULL;
    cJSON *json = NULL;
    struct err err = ERR_INIT;
    int rc;
    if (!good_name(name)) {
        rc = err_set(&err, ERR_CONFIG, "that is no name of a context");
    } else if (config == NULL) {
        rc = err_set(&err, ERR_CONFIG, "neither HOME nor DOCKER_CONFIG says where contexts are");
    } else {
        CLEANUP_FREE char *meta = alloc_printf("%s/contexts/meta", config);
        rc = find_context(meta, name, &entry, &json, &err);
        rc = rc < 0 ? rc : read_context(config, entry, json, &host, &tls, &err);
    }
    if (rc < 0) {
        add_broken(s, origin, &err, advice);
    } else {
        add_named(s, origin, host, &tls, advice);
    }
    cJSON_Delete(json);
}

/* ---- what is configured ---------------------------------------------------------------------- */

/* The context that `docker context use` has selected; NULL if none. */
static char *current_context(struct search *s, const char *config)
{
    CLEANUP_FREE char *path = alloc_printf("%s/config.json", config);
    cJSON *json = NULL;
    struct err err = ERR_INIT;
    if (read_json(path, &json, &err) < 0) {
        if (err.code != ERR_FILE_NOT_FOUND) {
            add_broken(s, "Docker's configuration", &err, "; repair the file or set DOCKER_HOST");
        }
        return NULL;
    }
    const char *name = json_get_str(json, "currentContext");
    bool given = name != NULL && name[0] != '\0' && strcmp(name, "default") != 0;
    char *copy = given ? alloc_strdup(name) : NULL;
    cJSON_Delete(json);
    return copy;
}

static bool add_configured(struct search *s, const struct place *named)
{
    static const char advice_tls[] = "; DOCKER_TLS_VERIFY and DOCKER_TLS switch TLS on, with files "
                                     "of DOCKER_CERT_PATH";
    const char *host = var(s, "DOCKER_HOST");
    const char *context = var(s, "DOCKER_CONTEXT");
    if (named->kind != PLACE_NONE) {
        add_told(s, named);
        return true;
    }
    CLEANUP_FREE char *config = config_dir(s);
    struct docker_tls tls __attribute__((cleanup(docker_tls_finish))) = {.on = false};
    tls_of_vars(s, config, &tls);
    if (host[0] != '\0') {
        add_named(s, "DOCKER_HOST", host, &tls,
                  tls.on ? advice_tls : "; correct DOCKER_HOST or unset it");
        return true;
    }
    CLEANUP_FREE char *current = NULL;
    if (context[0] != '\0') {
        if (strcmp(context, "default") != 0) {
            add_context(s, config, context, "DOCKER_CONTEXT");
            return true;
        }
    } else if (config != NULL && (current = current_context(s, config)) != NULL) {
        CLEANUP_FREE char *source = alloc_printf("%.256s/config.json", config);
        add_context(s, config, current, source);
        return true;
    }
    if (tls.on) { /* what the docker command makes of these variables alone */
        add_named(s, "DOCKER_TLS_VERIFY or DOCKER_TLS, without DOCKER_HOST", "tcp://localhost:2376",
                  &tls, advice_tls);
        return true;
    }
    if (context[0] != '\0') {
        add_named(s, "context \"default\" of DOCKER_CONTEXT", "unix://" DOCKER_SOCKET_USUAL, NULL,
                  "; correct DOCKER_CONTEXT or unset it");
        return true;
    }
    return false;
}

/* ---- what is usual --------------------------------------------------------------------------- */

/* Adds the socket unless it is absent or the same file as an earlier one. */
static void add_usual(struct search *s, const char *owner, const char *path)
{
    struct stat st;
    struct err err = ERR_INIT;
    struct docker_endpoint e = {.text = NULL};
    CLEANUP_FREE char *origin = alloc_printf("the usual socket of %s", owner);
    CLEANUP_FREE char *text = alloc_printf("unix://%s", path);
    if (stat(path, &st) < 0) {
        if (errno != ENOENT && errno != ENOTDIR) {
            err_ignore(err_sys(&err, ERR_ENGINE, errno, "%s", path));
            add_problem(s, origin, &err);
        }
        return;
    }
    for (size_t i = 0; i < s->seen_count; i++) {
        if (s->seen[i].device == st.st_dev && s->seen[i].inode == st.st_ino) {
            return;
        }
    }
    int rc = check_socket(path, &err);
    rc = rc < 0 ? rc : docker_endpoint_make(text, NULL, &e, &err);
    if (rc < 0) {
        add_broken(s, origin, &err, "");
        return;
    }
    struct docker_place *place = add_place(s, STEAL_PTR(origin));
    if (place == NULL) {
        docker_endpoint_finish(&e);
        return;
    }
    e.origin = place->endpoint.origin;
    place->endpoint = e;
    s->seen[s->seen_count].device = st.st_dev;
    s->seen[s->seen_count++].inode = st.st_ino;
}

/* `base` "" means that its variable is not set. */
static void add_below(struct search *s, const char *owner, const char *base, const char *path)
{
    if (base[0] != '\0') {
        CLEANUP_FREE char *whole = alloc_printf("%s/%s", base, path);
        add_usual(s, owner, whole);
    }
}

/* Adds the profiles in one of Colima's directories, the default one first, then by name, so that
 * the order is stable. */
static void add_colima(struct search *s, const char *dir)
{
    char *names[COLIMA_MAX] = {NULL};
    size_t count = 0;
    DIR *d = opendir(dir);
    if (d == NULL) {
        return;
    }
    add_below(s, "Colima", dir, "default/docker.sock");
    struct dirent *entry;
    for (size_t i = 0; i < CONTEXTS_MAX && (entry = readdir(d)) != NULL; i++) {
        CLEANUP_FREE char *path = alloc_printf("%s/%s/docker.sock", dir, entry->d_name);
        if (!good_name(entry->d_name) || entry->d_name[0] == '.' ||
            strcmp(entry->d_name, "default") == 0 || access(path, F_OK) < 0) {
            continue;
        }
        CLEANUP_FREE char *name = alloc_strdup(entry->d_name);
        for (size_t at = 0; at < count; at++) {
            if (strcmp(name, names[at]) < 0) {
                char *later = names[at];
                names[at] = name;
                name = later;
            }
        }
        if (count < COLIMA_MAX) {
            names[count++] = STEAL_PTR(name);
        }
    }
    closedir(d);
    for (size_t i = 0; i < count; i++) {
        CLEANUP_FREE char *owner = alloc_printf("Colima, profile %s", names[i]);
        CLEANUP_FREE char *path = alloc_printf("%s/%s/docker.sock", dir, names[i]);
        if (s->colima_count++ < COLIMA_MAX) {
            add_usual(s, owner, path);
        }
        free(names[i]);
    }
}

static void add_all_usual(struct search *s)
{
    const char *home = var(s, "HOME");
    const char *config = var(s, "XDG_CONFIG_HOME");
    /* clients may start the server without this variable; then systemd's usual path is used */
    CLEANUP_FREE char *runtime = var(s, "XDG_RUNTIME_DIR")[0] != '\0'
                                     ? alloc_strdup(var(s, "XDG_RUNTIME_DIR"))
                                     : alloc_printf("/run/user/%lu", (unsigned long)getuid());

    add_usual(s, "Docker Engine", DOCKER_SOCKET_USUAL);
    add_below(s, "rootless Docker", runtime, "docker.sock");
    add_below(s, "Docker Desktop", home, ".docker/run/docker.sock");
    add_below(s, "Docker Desktop", home, ".docker/desktop/docker.sock");
    add_below(s, "OrbStack", home, ".orbstack/run/docker.sock");
    if (var(s, "COLIMA_HOME")[0] != '\0') {
        add_colima(s, var(s, "COLIMA_HOME"));
    }
    if (home[0] != '\0') {
        CLEANUP_FREE char *old = alloc_printf("%s/.colima", home);
        add_colima(s, old);
    }
    if (config[0] != '\0' || home[0] != '\0') {
        CLEANUP_FREE char *dir = config[0] != '\0' ? alloc_printf("%s/colima", config)
                                                   : alloc_printf("%s/.config/colima", home);
        add_colima(s, dir);
    }
    add_below(s, "Rancher Desktop", home, ".rd/docker.sock");
    add_below(s, "Podman", "/run", "podman/podman.sock");
    add_below(s, "rootless Podman", runtime, "podman/podman.sock");
}

void docker_discovery_find(const struct place *named, docker_getenv_fn get, void *arg,
                           struct docker_discovery *ret)
{
    struct search s = {.get = get, .arg = arg, .places = ret};
    *ret = (struct docker_discovery){.count = 0};
    ret->configured = add_configured(&s, named);
    if (ret->configured) {
        return;
    }
    add_all_usual(&s);
    if (s.seen_count == 0 && access(DOCKER_SOCKET_USUAL, F_OK) < 0) {
        struct err err = ERR_INIT;
        err_ignore(err_set(&err, ERR_ENGINE,
                           "%s does not exist, nor does another usual socket: start Docker or "
                           "Podman, or set DOCKER_HOST to where it listens",
                           DOCKER_SOCKET_USUAL));
        add_problem(&s, "the usual socket of Docker Engine", &err);
    }
}

void docker_discovery_finish(struct docker_discovery *places)
{
    for (size_t i = 0; i < places->count; i++) {
        docker_endpoint_finish(&places->items[i].endpoint);
    }
    *places = (struct docker_discovery){.count = 0};
}
