/*
 * Files of the profile code-sandbox. Its clients put files right below the root (upload_file makes
 * "/data.csv" of its defaults), where our sandboxes are read-only. So all of these tools map a name
 * there into the workspace, unless the system has a directory of that name, and a listing of the
 * root includes the workspace's entries. An image may have further directories there; a file that
 * is not in the workspace is therefore looked up under its literal path.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "common/text.h"
#include "supervisor/base/entries.h"
#include "supervisor/compat/code_sandbox.h"
#include "supervisor/tools/args.h"

#define LIST_COST   (700u << 10)
#define ENTRY_COST  400 /* JSON around one name, at most */
#define PATH_COST   (24u << 10)
#define MODE_LETTER 10

#define LS_TIME_SIZE 24
#define HALF_YEAR_MS 15778476000u

static const char *file_argument(const struct tool_call *call, const char *name)
{
    return json_get_str(call->args, name);
}

const char *code_sandbox_inside(const char *path)
{
    static const char *const system[] = {"bin",   "boot",  "dev",       "etc",   "home",    "lib",
                                         "lib32", "lib64", "libx32",    "media", "mnt",     "opt",
                                         "proc",  "root",  "run",       "sbin",  "srv",     "sys",
                                         "tmp",   "usr",   "workspace", "var",   "packages"};
    size_t slashes = strspn(path, "/");
    const char *name = path + slashes;
    size_t len = strcspn(name, "/");
    if (slashes == 0 || len == 0) {
        return path;
    }
    for (size_t i = 0; i < sizeof(system) / sizeof(system[0]); i++) {
        if (strlen(system[i]) == len && memcmp(system[i], name, len) == 0) {
            return path;
        }
    }
    return name;
}

/* State of a call that looks in two places, in its `own`. */
struct look {
    bool elsewhere; /* the literal path has been tried, too */
    cJSON *answer;  /* listing: the entries so far, without the workspace */
    size_t budget;  /* listing: for entries */
    bool cut;       /* listing: entries were left out */
};

static void look_free(void *own)
{
    struct look *look = own;
    cJSON_Delete(look->answer);
    free(look);
}

static void look_begin(struct tool_call *call)
{
    struct look *look = alloc_one(struct look);
    *look = (struct look){.budget = LIST_COST};
    call->own = look;
    call->own_free = look_free;
}

static bool look_elsewhere(struct tool_call *call, const char *path, int rc,
                           const struct fleet_outcome *o)
{
    struct look *look = call->own;
    bool missing =
        rc == 0 && o->end->status == OP_STATUS_FAILED && o->end->fail_code == ERR_FILE_NOT_FOUND;
    bool again =
        missing && !look->elsewhere && !call->cancelled && code_sandbox_inside(path) != path;
    look->elsewhere |= again;
    return again;
}

/* True if the operation succeeded; else the call is answered. */
static bool did_well(struct tool_call *call, int rc, const struct fleet_outcome *o,
                     const struct err *err, const char *prefix)
{
    call->running = NULL;
    if (rc == 0 && o->end->status == OP_STATUS_OK) {
        return true;
    }
    CLEANUP_FREE char *trouble = runs_trouble(rc, o, err);
    runs_fail(call, prefix, trouble != NULL ? trouble : "it did not succeed");
    return false;
}

/* Finds the sandbox and checks the path; false: the call is answered. */
static bool ready(struct tool_call *call, const char *path, const char *prefix)
{
    struct err err = ERR_INIT;
    if (!code_sandbox_find(call)) {
        return false;
    }
    if (args_check_path(path, &err) < 0) {
        runs_fail(call, prefix, err.text);
        return false;
    }
    return true;
}

/* ---- list ---- */

static const char list_failed[] = "Error listing files";

static const char *list_path(const struct tool_call *call)
{
    const char *path = file_argument(call, "path");
    return path != NULL ? path : "/";
}

struct listing {
    const char *base;
    cJSON *files;
    int known; /* the first `known` entries: later duplicates of their names are skipped */
    size_t budget;
    bool full;
};

static bool is_root(const char *path)
{
    return path[strspn(path, "/")] == '\0';
}

static bool has_name(const struct listing *l, const char *name)
{
    const cJSON *item = l->files->child;
    for (int i = 0; i < l->known; i++, item = item->next) {
        if (strcmp(json_get_str(item, "name"), name) == 0) {
            return true;
        }
    }
    return false;
}

static void mode_text(const struct msg_entry *e, char ret[MODE_LETTER + 1])
{
    static const char letters[] = "rwxrwxrwx";
    bool link = e->type == FILE_TYPE_SYMLINK || e->type == FILE_TYPE_SYMLINK_DIRECTORY;
    ret[0] = e->type == FILE_TYPE_DIRECTORY ? 'd' : link ? 'l' : '-';
    for (unsigned i = 0; i < 9; i++) {
        ret[i + 1] = (e->mode >> (8 - i)) & 1 ? letters[i] : '-';
    }
    ret[MODE_LETTER] = '\0';
}

/* The time as ls -l shows it: of the last half year with the time of day, else with the year. */
static void ls_time(uint64_t mtime_ms, char ret[LS_TIME_SIZE])
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char iso[CLOCK_ISO_SIZE]; /* 2026-11-24T20:19:04.123Z */
    uint64_t now_ms = clock_wall_ms();
    bool recent = mtime_ms <= now_ms && now_ms - mtime_ms < HALF_YEAR_MS;
    clock_iso(mtime_ms, iso, sizeof(iso));
    int month = (iso[5] - '0') * 10 + iso[6] - '0';
    int day = (iso[8] - '0') * 10 + iso[9] - '0';
    snprintf(ret, LS_TIME_SIZE, "%.3s %d %.*s", &months[3 * ((month + 11) % 12)], day,
             recent ? 5 : 4, recent ? &iso[11] : iso);
}

/* Their listings follow symlinks to directories. */
static bool is_directory(const struct msg_entry *e)
{
    return e->type == FILE_TYPE_DIRECTORY || e->type == FILE_TYPE_SYMLINK_DIRECTORY;
}

static void put_details(cJSON *item, const struct msg_entry *e)
{
    char mode[MODE_LETTER + 1];
    char time[LS_TIME_SIZE];
    mode_text(e, mode);
    ls_time(e->mtime_ms, time);
    result_put_text(item, "type", is_directory(e) ? "directory" : "file");
    result_put_uint(item, "size", e->size);
    result_put_text(item, "permissions", mode);
    result_put_text(item, "owner", "user");
    result_put_text(item, "group", "user");
    result_put_text(item, "modified", time);
}

static bool on_profile_entry(void *arg, const struct msg_entry *e)
{
    struct listing *l = arg;
    cJSON *name = reply_bytes(REPLY_DUMPS, e->path, PATH_COST);
    size_t cost = ENTRY_COST + 14 * (strlen(name->valuestring) + strlen(l->base));
    bool again = has_name(l, name->valuestring);
    if (again || cost > l->budget) {
        l->full |= !again;
        cJSON_Delete(name);
        return again;
    }
    l->budget -= cost;
    cJSON *item = cJSON_CreateObject();
    if (code_sandbox_is_firecracker()) {
        result_put(item, "name", name);
        put_details(item, e);
    } else {
        bool slash = l->base[strlen(l->base) - 1] == '/';
        CLEANUP_FREE char *path =
            alloc_printf("%s%s%s", l->base, slash ? "" : "/", name->valuestring);
        result_put(item, "name", name);
        result_put_text(item, "type", is_directory(e) ? "dir" : "file");
        result_put_text(item, "path", path);
    }
    cJSON_AddItemToArray(l->files, item);
    return true;
}

static void list_at(struct tool_call *call, const char *path);

static void on_profile_listed(void *arg, int rc, const struct fleet_outcome *o,
                              const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    struct look *look = call->own;
    const char *path = list_path(call);
    struct err bad = ERR_INIT;
    (void)hint;
    if (look_elsewhere(call, path, rc, o)) {
        list_at(call, path);
        return;
    }
    if (!did_well(call, rc, o, err, list_failed)) {
        return;
    }
    bool first = look->answer == NULL;
    if (first) {
        look->answer = cJSON_CreateObject();
        result_put_text(look->answer, "path", path);
        result_put_array(look->answer, "files");
    }
    cJSON *files = cJSON_GetObjectItemCaseSensitive(look->answer, "files");
    struct listing l = {path, files, cJSON_GetArraySize(files), look->budget, false};
    int bad_rc = entries_read(o->out, on_profile_entry, &l, &bad);
    look->budget = l.budget;
    look->cut |= l.full || o->end->truncated || o->out_bytes > o->out.len;
    if (bad_rc < 0) {
        runs_fail(call, list_failed, bad.text);
    } else if (first && is_root(path) && !call->cancelled) {
        list_at(call, ".");
    } else {
        if (look->cut) { /* that server shows all entries, so a partial list must say so */
            result_put_bool(look->answer, "truncated", true);
        }
        reply_json(call, REPLY_DUMPS, STEAL_PTR(look->answer));
    }
}

static void list_at(struct tool_call *call, const char *path)
{
    const struct fleet_op op = {
        .kind = OP_FILE_LIST,
        .path = path,
        .length = LIMIT_ENTRIES,
        .keep_bytes = ENTRIES_KEEP_BYTES,
    };
    tool_run_op(call, &op, on_profile_listed);
}

static void list_files(struct tool_call *call)
{
    if (ready(call, list_path(call), list_failed)) {
        look_begin(call);
        list_at(call, code_sandbox_inside(list_path(call)));
    }
}

/* ---- read ---- */

static const char read_failed[] = "Error reading file";

static void read_at(struct tool_call *call, const char *path);

static void on_profile_read(void *arg, int rc, const struct fleet_outcome *o, const struct err *err,
                            const char *hint)
{
    struct tool_call *call = arg;
    const char *path = file_argument(call, "file_path");
    (void)hint;
    if (look_elsewhere(call, path, rc, o)) {
        read_at(call, path);
    } else if (did_well(call, rc, o, err, read_failed)) {
        uint64_t size = o->end->file_size > o->out.len ? o->end->file_size : o->out.len;
        cJSON *answer = cJSON_CreateObject();
        result_put_text(answer, "path", path);
        result_put(answer, "content", reply_beginning(REPLY_DUMPS, o->out, size, REPLY_BYTES));
        reply_json(call, REPLY_DUMPS, answer);
    }
}

static void read_at(struct tool_call *call, const char *path)
{
    const struct fleet_op op = {
        .kind = OP_FILE_READ,
        .path = path,
        .length = REPLY_BYTES,
        .keep_bytes = REPLY_BYTES,
    };
    tool_run_op(call, &op, on_profile_read);
}

static void read_profile_file(struct tool_call *call)
{
    const char *path = file_argument(call, "file_path");
    if (ready(call, path, read_failed)) {
        look_begin(call);
        read_at(call, code_sandbox_inside(path));
    }
}

/* ---- write, upload ---- */

static const char write_failed[] = "Error writing file";
static const char upload_failed[] = "Error uploading file";

/* Joins the two arguments as that server does: an absolute name replaces the directory, and the
 * result is absolute. It is what the answer shows. */
static char *upload_path(const struct tool_call *call)
{
    const char *directory = file_argument(call, "destination_path");
    const char *name = file_argument(call, "file_name");
    directory = directory != NULL ? directory : "/";
    if (name[0] == '/') {
        return alloc_strdup(name);
    }
    size_t len = strlen(directory);
    bool slash = len == 0 || directory[len - 1] == '/';
    return alloc_printf("%s%s%s%s", directory[0] == '/' ? "" : "/", directory, slash ? "" : "/",
                        name);
}

static void write_to(struct tool_call *call, const char *path, const char *content,
                     fleet_outcome_fn done)
{
    const struct fleet_op op = {
        .kind = OP_FILE_WRITE,
        .path = code_sandbox_inside(path),
        .data = view_of(content),
    };
    tool_run_op(call, &op, done);
}

static void answer_written(struct tool_call *call, const char *path, const char *message)
{
    cJSON *answer = cJSON_CreateObject();
    result_put_text(answer, "path", path);
    result_put_text(answer, "message", message);
    reply_json(call, REPLY_DUMPS, answer);
}

static void on_profile_written(void *arg, int rc, const struct fleet_outcome *o,
                               const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (did_well(call, rc, o, err, write_failed)) {
        answer_written(call, file_argument(call, "file_path"), "File written successfully");
    }
}

static bool fits_upload(struct tool_call *call, const char *content, const char *prefix)
{
    struct err err = ERR_INIT;
    if (args_check_size("content", content, LIMIT_CODE, &err) < 0) {
        runs_fail(call, prefix, err.text);
        return false;
    }
    return true;
}

static void write_file(struct tool_call *call)
{
    const char *path = file_argument(call, "file_path");
    const char *content = file_argument(call, "content");
    if (ready(call, path, write_failed) && fits_upload(call, content, write_failed)) {
        write_to(call, path, content, on_profile_written);
    }
}

static void on_profile_uploaded(void *arg, int rc, const struct fleet_outcome *o,
                                const struct err *err, const char *hint)
{
    struct tool_call *call = arg;
    (void)hint;
    if (did_well(call, rc, o, err, upload_failed)) {
        CLEANUP_FREE char *path = upload_path(call);
        answer_written(call, path, "File uploaded successfully");
    }
}

static void upload_file(struct tool_call *call)
{
    CLEANUP_FREE char *path = upload_path(call);
    const char *content = file_argument(call, "file_content");
    if (ready(call, path, upload_failed) && fits_upload(call, content, upload_failed)) {
        write_to(call, path, content, on_profile_uploaded);
    }
}

/* clang-format off */
const struct tool code_sandbox_list_files = {
    .name = "list_files",
    .title = "List files",
    .description = "Lists a directory of a sandbox.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "path": {"type": "string", "minLength": 1, "default": "/", "description": "Directory in the sandbox; code runs in /workspace."}
        },
        "required": ["session_id"]
    }),
    .read_only = true,
    .idempotent = true,
    .run = list_files,
};

const struct tool code_sandbox_read_file = {
    .name = "read_file",
    .title = "Read a file",
    .description = "Returns the content of a text file of a sandbox.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {"session_id": {"type": "string", "maxLength": 1024}, "file_path": {"type": "string"}},
        "required": ["session_id", "file_path"]
    }),
    .read_only = true,
    .idempotent = true,
    .run = read_profile_file,
};

const struct tool code_sandbox_write_file = {
    .name = "write_file",
    .title = "Write a file",
    .description =
        "Creates or replaces a text file in a sandbox, with the directories that it needs. Code finds /data.csv as data.csv in "
        "its working directory, /workspace.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "file_path": {"type": "string"},
            "content": {"type": "string"}
        },
        "required": ["session_id", "file_path", "content"]
    }),
    .destructive = true,
    .idempotent = true,
    .run = write_file,
};

const struct tool code_sandbox_upload_file = {
    .name = "upload_file",
    .title = "Upload a file",
    .description =
        "Puts a text file into a directory of a sandbox. Code finds /data.csv, as which a file goes by default, as data.csv in "
        "its working directory, /workspace.",
    .input_schema = JSON_TEXT({
        "type": "object",
        "properties": {
            "session_id": {"type": "string", "maxLength": 1024},
            "file_name": {"type": "string"},
            "file_content": {"type": "string"},
            "destination_path": {"type": "string", "minLength": 1, "default": "/"}
        },
        "required": ["session_id", "file_name", "file_content"]
    }),
    .destructive = true,
    .idempotent = true,
    .run = upload_file,
};
/* clang-format on */
