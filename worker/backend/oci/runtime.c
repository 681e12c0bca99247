/*
 * The command line (create, run, delete, --root) is the interface that all OCI runtimes share
 * without a daemon or a library. Its errors are prose on stderr, which each runtime formats
 * differently. So the most informative line is picked by simple rules and passed on verbatim. Only
 * the hints depend on known phrases, and a wrong hint leaves the original text intact.
 */
#include "worker/backend/oci/runtime.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/str.h"

/* The system's directories come last: an ordinary user's PATH often lacks the sbin ones. */
#define SYSTEM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const char *oci_runtime_choice(unsigned n)
{
    static const char *const names[] = {"runc", "crun"};
    return n >= 1 && n <= sizeof(names) / sizeof(names[0]) ? names[n - 1] : NULL;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static char *search(const char *dirs, const char *name)
{
    while (dirs != NULL && *dirs != '\0') {
        size_t len = strcspn(dirs, ":");
        /* skips empty and relative parts of PATH, which depend on the working directory */
        if (len > 0 && dirs[0] == '/') {
            CLEANUP_FREE char *path = alloc_printf("%.*s/%s", (int)len, dirs, name);
            if (is_program(path)) {
                return STEAL_PTR(path);
            }
        }
        dirs += len;
        dirs += *dirs == ':' ? 1 : 0;
    }
    return NULL;
}

int oci_runtime_find(const char *name, char **ret_path, struct err *err)
{
    if (strchr(name, '/') != NULL) {
        CLEANUP_FREE char *cwd = name[0] == '/' ? NULL : getcwd(NULL, 0);
        /* links are not resolved, because some runtimes behave by the name that they are called
         * by */
        CLEANUP_FREE char *path =
            cwd != NULL ? alloc_printf("%s/%s", cwd, name) : alloc_strdup(name);
        if (!is_program(path)) {
            return err_set(err, ERR_ENGINE, "OCI runtime %.256s is not a program", name);
        }
        *ret_path = STEAL_PTR(path);
        return 0;
    }
    char *found = name[0] != '\0' ? search(getenv("PATH"), name) : NULL;
    if (found == NULL && name[0] != '\0') {
        found = search(SYSTEM_PATH, name);
    }
    if (found == NULL) {
        return err_set(err, ERR_ENGINE, "OCI runtime \"%.64s\" is not installed", name);
    }
    *ret_path = found;
    return 0;
}

void oci_args_add(struct oci_args *args, const char *item)
{
    assert(args->count < OCI_ARGS_MAX);
    args->items[args->count++] = item;
    args->items[args->count] = NULL;
}

void oci_args_begin(struct oci_args *args, const char *runtime, const struct oci_mode *mode,
                    const char *state_dir, const char *command)
{
    args->count = 0;
    oci_args_add(args, runtime);
    if (mode != NULL && mode->cgroups == OCI_CGROUPS_SYSTEMD) {
        oci_args_add(args, "--systemd-cgroup");
    } else if (mode != NULL && mode->cgroups == OCI_CGROUPS_NONE && mode->crun) {
        oci_args_add(args, "--cgroup-manager=disabled");
    } else if (mode != NULL && mode->cgroups == OCI_CGROUPS_NONE && mode->gvisor) {
        oci_args_add(args, "--ignore-cgroups");
    }
    if (mode != NULL && mode->gvisor) { /* its own network would want an interface of the host */
        oci_args_add(args, "--network=none");
    }
    oci_args_add(args, "--root");
    oci_args_add(args, state_dir);
    oci_args_add(args, command);
}

/* ---- a runtime's words ---------------------------------------------------------------------- */

static bool contains(struct view line, const char *needle)
{
    return line.data != NULL && memmem(line.data, line.len, needle, strlen(needle)) != NULL;
}

/* Rates how informative a line is; the last line of the best rating is used. */
static int weight(struct view line)
{
    if (line.len == 0) {
        return 0;
    }
    if (contains(line, "level=warn") || contains(line, "level=info") ||
        contains(line, "level=debug")) {
        return 1;
    }
    return contains(line, "rror") || contains(line, "ailed") || contains(line, "denied") ||
                   contains(line, "not ")
               ? 3
               : 2;
}

/* The text inside msg="..." of a log line, else the line. */
static struct view inner(struct view line)
{
    static const char key[] = "msg=\"";
    const char *start =
        line.data != NULL ? memmem(line.data, line.len, key, sizeof(key) - 1) : NULL;
    if (start == NULL) {
        return line;
    }
    start += sizeof(key) - 1;
    size_t len = (size_t)(line.data + line.len - start);
    for (size_t i = 0; i < len; i++) {
        if (start[i] == '\\') {
            i++;
        } else if (start[i] == '"') {
            len = i;
        }
    }
    return view_bytes(start, len);
}

void oci_runtime_words(struct view text, char out[OCI_WORDS_MAX])
{
    struct view best = {"", 0};
    int best_weight = 0;
    for (size_t at = 0; at < text.len;) {
        const char *start = text.data + at;
        const char *end = memchr(start, '\n', text.len - at);
        struct view line = view_bytes(start, end != NULL ? (size_t)(end - start) : text.len - at);
        at += line.len + 1;
        while (line.len > 0 && (unsigned char)line.data[line.len - 1] <= ' ') {
            line.len--;
        }
        int w = weight(line);
        if (w > 0 && w >= best_weight) {
            best = line;
            best_weight = w;
        }
    }
    best = inner(best);
    size_t n = 0;
    for (size_t i = 0; i < best.len && n < OCI_WORDS_MAX - 1; i++) {
        unsigned char c = (unsigned char)best.data[i];
        if (c == '\\' && i + 1 < best.len &&
            (best.data[i + 1] == '"' || best.data[i + 1] == '\\')) {
            continue;
        }
        out[n++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    out[utf8_valid_prefix(out, n)] = '\0';
}

void oci_runtime_hint(const char *words, const struct oci_host *host, char out[BACKEND_HINT_MAX])
{
    static const struct {
        const char *phrase, *hint;
    } rows[] = {
        {"newuidmap", "install newuidmap (apt install uidmap) and grant the user a range: usermod "
                      "--add-subuids 100000-165535 --add-subgids 100000-165535 NAME"},
        {"newgidmap", "install newgidmap (apt install uidmap) and grant the user a range: usermod "
                      "--add-subuids 100000-165535 --add-subgids 100000-165535 NAME"},
        {"hybrid mode",
         "this runtime does not support this host's mix of cgroup versions: use runc "
         "(apt install runc), or boot with systemd.unified_cgroup_hierarchy=1"},
        {"exec format error", "the agent was built for another architecture than this host"},
        {"no space left", OCI_HINT_SPACE},
        {"seccomp not supported",
         "this runtime seems to be built without seccomp: use another, e.g. apt install "
         "runc"},
        {"ermission denied", "the directories above the runtime directory and the agent must be "
                             "searchable for everybody (chmod o+x)"},
    };
    out[0] = '\0';
    if (host->userns_off[0] != '\0') {
        snprintf(out, BACKEND_HINT_MAX, "user namespaces are switched off on this host: %s",
                 host->userns_off);
        return;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strstr(words, rows[i].phrase) != NULL) {
            snprintf(out, BACKEND_HINT_MAX, "%s", rows[i].hint);
            return;
        }
    }
}

/* ---- versions with known flaws --------------------------------------------------------------- */

/* Of each row the first release of each minor version that is mended; later minors all are. */
static const struct flaw {
    const char *ids;
    unsigned mended[3][3];
} runc_flaws[] = {
    {"CVE-2024-21626", {{1, 1, 12}}},
    {"CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881", {{1, 2, 8}, {1, 3, 3}}},
};

static bool has_flaw(const struct flaw *flaw, const unsigned version[3])
{
    for (size_t i = 0; i < sizeof(flaw->mended) / sizeof(flaw->mended[0]); i++) {
        const unsigned *mended = flaw->mended[i];
        if (mended[0] == 0) {
            break;
        }
        if (version[0] == mended[0] && version[1] == mended[1]) {
            return version[2] < mended[2];
        }
        if (version[0] < mended[0] || (version[0] == mended[0] && version[1] < mended[1])) {
            return true;
        }
    }
    return false;
}

bool oci_runtime_flaws(const char *version, char out[OCI_WORDS_MAX])
{
    unsigned number[3];
    int end = 0;
    char known[128] = "";
    size_t len = 0;
    out[0] = '\0';
    if (sscanf(version, "runc version %5u.%5u.%5u%n", &number[0], &number[1], &number[2], &end) !=
        3) {
        return false;
    }
    for (size_t i = 0; i < sizeof(runc_flaws) / sizeof(runc_flaws[0]); i++) {
        if (has_flaw(&runc_flaws[i], number)) {
            len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len > 0 ? "; " : "",
                                    runc_flaws[i].ids);
        }
    }
    if (len == 0) {
        return false;
    }
    /* "-rc.1" and the like follow the number of a release of its authors, too */
    bool own = version[end] == '\0' || strncmp(version + end, "-rc", 3) == 0;
    snprintf(out, OCI_WORDS_MAX, "%.64s lets code out%s: %s", version,
             own ? "" : ", unless its distribution has mended", known);
    return own;
}
