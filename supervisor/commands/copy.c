/*
 * `cp`: a file or a directory (copy_tree.c) into a sandbox, or out of one: SANDBOX:PATH names the
 * one inside, and - is our stdin or stdout. Into a sandbox it goes in pieces, of which the later
 * ones append, so that its size does not matter; out of one it comes as a stream, into a file that
 * has its name when it is whole.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_client.h"
#include "supervisor/commands/internal.h"

#define PIECE_BYTES (8u << 20)
#define MODE_BITS   0777

/* Splits SANDBOX:PATH; false: it is a path of this machine. */
static bool split_inside(const char *word, char **ret_sandbox, const char **ret_path)
{
    const char *colon = strchr(word, ':'), *slash = strchr(word, '/');
    if (colon == NULL || colon == word || (slash != NULL && slash < colon)) {
        return false;
    }
    *ret_sandbox = alloc_viewdup(view_bytes(word, (size_t)(colon - word)));
    *ret_path = colon[1] != '\0' ? colon + 1 : ".";
    return true;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* A path that ends with a slash, or is a dot, is a directory, in which the file keeps its name. */
static char *with_name(const char *to, const char *from)
{
    size_t len = strlen(to);
    bool is_dir = len > 0 && to[len - 1] == '/';
    bool is_dot = strcmp(to, ".") == 0;
    return is_dot ? alloc_strdup(base_name(from))
                  : alloc_printf("%s%s", to, is_dir ? base_name(from) : "");
}

static char *files_path(const char *sandbox_path, const char *kind, const char *inside)
{
    CLEANUP_FREE char *escaped = http_escape(inside);
    return alloc_printf("%s/%s?path=%s", sandbox_path, kind, escaped);
}

/* Where a directory is copied to, as docker has it: into a directory that is there, or as one that
 * is not yet. DIR/. means what is in it. */
static char *place_of_tree(const char *to, bool is_there, const char *from)
{
    size_t len = strlen(from);
    while (len > 1 && from[len - 1] == '/') {
        len--;
    }
    CLEANUP_FREE char *whole = alloc_viewdup(view_bytes(from, len));
    const char *name = base_name(whole);
    bool is_content = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || name[0] == '\0';
    return is_there && !is_content ? alloc_printf("%s/%s", to, name) : alloc_strdup(to);
}

/* *ret is the list of a directory of the sandbox; NULL: there is none of that name. */
static int find_listing(const struct server *server, const char *path, const char *inside,
                        cJSON **ret, struct err *err)
{
    CLEANUP_FREE char *query = files_path(path, "entries", inside);
    int rc = server_ask(server, "GET", query, ret, err);
    if (rc == -ERR_FILE_NOT_FOUND || rc == -ERR_PATH) {
        *ret = NULL;
        *err = (struct err)ERR_INIT;
        return 0;
    }
    return rc;
}

/* ---- in ------------------------------------------------------------------------------------- */

int copy_send(const struct server *server, const char *sandbox, const char *inside, unsigned mode,
              FILE *in, struct err *err)
{
    CLEANUP_FREE char *piece = alloc_block(PIECE_BYTES);
    CLEANUP_FREE char *path = files_path(sandbox, "files", inside);
    CLEANUP_FREE char *first = alloc_printf("%s&mode=%u", path, mode);
    CLEANUP_FREE char *next = alloc_printf("%s&append=1", path);
    bool begun = false;
    size_t n;
    int rc = 0;
    while (rc == 0 && ((n = fread(piece, 1, PIECE_BYTES, in)) > 0 || !begun)) {
        cJSON *answer = NULL;
        rc = server_send(server, "POST", begun ? next : first, view_bytes(piece, n), &answer, err);
        cJSON_Delete(answer);
        begun = true;
    }
    return rc == 0 && ferror(in) ? err_sys(err, ERR_IO, errno, "read") : rc;
}

static int copy_directory_in(const struct server *server, const char *path, const char *from,
                             const char *inside, struct err *err)
{
    cJSON *there = NULL;
    int rc = find_listing(server, path, inside, &there, err);
    if (rc == 0) {
        CLEANUP_FREE char *to = place_of_tree(inside, there != NULL, from);
        rc = copy_tree_in(server, path, from, to, err);
    }
    cJSON_Delete(there);
    return rc;
}

static int copy_in(const struct server *server, const char *path, const char *from,
                   const char *inside, struct err *err)
{
    struct stat st;
    if (strcmp(from, "-") == 0) {
        return copy_send(server, path, inside, 0, stdin, err);
    }
    if (stat(from, &st) < 0) {
        return err_sys(err, ERR_IO, errno, "%s", from);
    }
    if (S_ISDIR(st.st_mode)) {
        return copy_directory_in(server, path, from, inside, err);
    }
    FILE *in = fopen(from, "re");
    if (in == NULL) {
        return err_sys(err, ERR_IO, errno, "%s", from);
    }
    CLEANUP_FREE char *to = with_name(inside, from);
    int rc = copy_send(server, path, to, st.st_mode & MODE_BITS, in, err);
    fclose(in);
    return rc;
}

/* ---- out ------------------------------------------------------------------------------------ */

int copy_fetch(const struct server *server, const char *sandbox, const char *inside, FILE *out,
               struct err *err)
{
    CLEANUP_FREE char *path = files_path(sandbox, "files", inside);
    return server_bytes(server, path, out, err);
}

static int copy_to_file(const struct server *server, const char *path, const char *inside,
                        const char *to, struct err *err)
{
    CLEANUP_FREE char *part = alloc_printf("%s.part-%d", to, (int)getpid());
    FILE *out = fopen(part, "wxe");
    if (out == NULL) {
        return err_sys(err, ERR_IO, errno, "%s", part);
    }
    int rc = copy_fetch(server, path, inside, out, err);
    if (fclose(out) != 0 && rc == 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", part);
    }
    if (rc == 0 && rename(part, to) != 0) {
        rc = err_sys(err, ERR_IO, errno, "%s", to);
    }
    if (rc < 0) {
        (void)unlink(part);
    }
    return rc;
}

static int copy_out(const struct server *server, const char *path, const char *inside,
                    const char *to, struct err *err)
{
    struct stat st;
    cJSON *listing = NULL;
    if (strcmp(to, "-") == 0) {
        return copy_fetch(server, path, inside, stdout, err);
    }
    bool is_dir = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    int rc = find_listing(server, path, inside, &listing, err);
    if (rc == 0 && listing != NULL) {
        CLEANUP_FREE char *place = place_of_tree(to, is_dir, inside);
        rc = copy_tree_out(server, path, inside, listing, place, err);
    } else if (rc == 0) {
        CLEANUP_FREE char *file =
            is_dir ? alloc_printf("%s/%s", to, base_name(inside)) : alloc_strdup(to);
        rc = copy_to_file(server, path, inside, file, err);
    }
    cJSON_Delete(listing);
    return rc;
}

/* ---- which way ------------------------------------------------------------------------------ */

static int copy_file(const struct steer *s, const struct servers *servers, struct err *err)
{
    CLEANUP_FREE char *sandbox = NULL;
    CLEANUP_FREE char *other = NULL;
    CLEANUP_FREE char *path = NULL;
    const char *inside = NULL, *inside_other = NULL;
    const struct server *server;
    bool out = split_inside(s->words[0], &sandbox, &inside);
    if (split_inside(s->words[1], out ? &other : &sandbox, out ? &inside_other : &inside) == out) {
        return err_set(err, ERR_INVALID,
                       "expected SANDBOX:PATH on one side, and a file or directory of this "
                       "machine (or -) on the other");
    }
    int rc = servers_with(servers, sandbox, &server, &path, err);
    if (rc < 0) {
        return rc;
    }
    return out ? copy_out(server, path, inside, s->words[1], err)
               : copy_in(server, path, s->words[0], inside, err);
}

int command_cp(const struct steer *s)
{
    struct servers servers;
    struct err err = ERR_INIT;
    servers_find(s->config, &servers);
    int rc = copy_file(s, &servers, &err);
    servers_finish(&servers);
    return rc < 0 ? command_fail(&err) : 0;
}
