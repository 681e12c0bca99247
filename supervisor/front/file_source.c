/*
 * The signature of a link is checked first, so that a request without a valid link learns nothing
 * about sandboxes or files. The file is read by an operation like those of tools, as the sandbox's
 * user, so a link reaches only what code in the sandbox could read. The read counts as use of the
 * sandbox: whoever fetches its files wants it to go on.
 */
#include "supervisor/front/file_source.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "supervisor/base/config.h"
#include "supervisor/compat/python_paths.h"
#include "supervisor/fleet/fleet.h"
#include "supervisor/links/links.h"
#include "supervisor/links/mime.h"

struct file_source {
    struct fleet *fleet;
    struct links *links;
    bool foreign; /* accept links of the other form */
};

struct reading {
    struct fleet_call *call;
    const char *type;
    file_piece_fn done;
    void *arg;
};

struct file_source *file_source_create(struct fleet *fleet, struct links *links,
                                       const struct config *config)
{
    struct file_source *s = alloc_one(struct file_source);
    s->fleet = fleet;
    s->links = links;
    s->foreign = config_is_python(config);
    return s;
}

void file_source_destroy(struct file_source *s)
{
    free(s);
}

static int check_link(void *arg, const struct file_link *link, const char **ret_why)
{
    struct file_source *s = arg;
    if (link->foreign && !s->foreign) {
        *ret_why = "there is nothing here";
        return 404;
    }
    switch (links_check(s->links, link->sandbox, link->path, link->expires, link->signature)) {
    case LINK_WRONG:
        *ret_why = "this link is not one that this server has made; take it as it is";
        return 403;
    case LINK_EXPIRED:
        *ret_why = "this link has expired; ask for a new one";
        return 410;
    case LINK_GOOD:
        break;
    }
    if (fleet_owner(s->fleet, link->sandbox) == NULL) {
        *ret_why = "the sandbox of this file is gone, and its files with it";
        return 404;
    }
    return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int status_of_failure(int code)
{
    switch (code < 0 ? -code : code) {
    case ERR_SANDBOX_NOT_FOUND:
    case ERR_GONE:
    case ERR_FILE_NOT_FOUND:
    case ERR_PATH:
    case ERR_DENIED:
        return 404;
    case ERR_SHUTTING_DOWN:
    case ERR_BUSY:
        return 503;
    default:
        return 500;
    }
}

static struct file_piece piece_of(int rc, const struct fleet_outcome *outcome)
{
    struct file_piece p = {0};
    if (rc < 0) {
        p.status = status_of_failure(rc);
    } else if (outcome->end->status == OP_STATUS_FAILED) {
        p.status = status_of_failure((int)outcome->end->fail_code);
    } else if (outcome->end->status != OP_STATUS_OK) {
        p.status = 503;
    } else {
        p.bytes = outcome->out;
        p.size = outcome->end->file_size;
        p.stamp = outcome->end->file_stamp;
    }
    p.why = p.status == 404   ? "there is no such file, or it cannot be read"
            : p.status == 503 ? "the sandbox is busy, or the server is about to end; try again"
                              : "the file could not be read";
    return p;
}

static void on_piece_read(void *arg, int rc, const struct fleet_outcome *outcome,
                          const struct err *err, const char *hint)
{
    struct reading *r = arg;
    (void)err, (void)hint;
    struct file_piece piece = piece_of(rc, outcome);
    piece.type = r->type;
    r->done(r->arg, &piece);
    free(r);
}

static void *begin_read(void *arg, const struct file_link *link, uint64_t offset, uint64_t length,
                        file_piece_fn done, void *done_arg)
{
    struct file_source *s = arg;
    struct reading *r = alloc_one(struct reading);
    r->type = mime_of_name(link->path);
    r->done = done;
    r->arg = done_arg;
    const char *inside = link->foreign ? python_path_inside(link->path) : link->path;
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = inside,
        .offset = offset,
        .length = length,
        .keep_bytes = (size_t)length,
    };
    r->call = fleet_run(s->fleet, link->sandbox, &op, on_piece_read, r);
    return r;
}

static void stop_reading(void *reading)
{
    struct reading *r = reading;
    fleet_cancel(r->call);
}

struct files_source file_source_table(struct file_source *s)
{
    return (struct files_source){
        .arg = s, .check = check_link, .read = begin_read, .stop = stop_reading};
}
