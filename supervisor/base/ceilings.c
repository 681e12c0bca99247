/*
 * The operator's defaults come first: a ceiling that nobody has chosen is never below them, so that
 * --memory-mb alone works on any machine. A ceiling that was chosen and is below a default is a
 * mistake, and the server does not start.
 *
 * Memory is what a machine runs out of for everybody at once: the kernel then ends programs as it
 * likes, perhaps ours. So all sandboxes together get an eighth less than there is, however many
 * they are. Files count as memory, so there is no budget of disk beside it.
 */
#include "supervisor/base/ceilings.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/room.h"
#include "common/str.h"
#include "supervisor/base/config.h"

#define UNKNOWN_MEMORY_MB 1048576 /* as much as one may ask for anywhere */
#define UNKNOWN_CPU_MILLI 1024000
/* --max-sandboxes of these, by default 32, have as many processes as kernels allow by default */
#define PIDS_DEFAULT 1024
#define HELD_BACK    8 /* this part of the memory is for all that is no sandbox */

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- the machine ---------------------------------------------------------------------------- */

/* The memory limit in the file of a control group, in bytes; UINT64_MAX if there is none. */
static uint64_t group_limit(const char *path)
{
    CLEANUP_BUF struct buf text;
    uint64_t bytes = UINT64_MAX;
    buf_init(&text, 64);
    if (file_read(path, &text, NULL) < 0) { /* another version of control groups, or none */
        return UINT64_MAX;
    }
    while (text.len > 0 && text.data[text.len - 1] == '\n') {
        text.len--;
    }
    const char *word = buf_cstr(&text);
    if (word == NULL || str_to_u64(word, 1, UINT64_MAX, &bytes, NULL) < 0) {
        return UINT64_MAX; /* "max" */
    }
    return bytes;
}

struct ceilings_machine ceilings_machine(void)
{
    /* In a container these are its own; elsewhere the root group has no limit. */
    static const char *const groups[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    struct ceilings_machine m = {0, 0};
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (pages > 0 && page > 0) {
        uint64_t bytes = (uint64_t)pages * (uint64_t)page;
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
            uint64_t limit = group_limit(groups[i]);
            bytes = limit < bytes ? limit : bytes;
        }
        m.memory_mb = max(bytes >> 20, 1);
    }
    m.cpu_milli = processors > 0 ? (uint64_t)processors * 1000 : 0;
    return m;
}

/* ---- the configuration ---------------------------------------------------------------------- */

static int too_low(const char *ceiling, double given, const char *option, double needed,
                   struct err *err)
{
    return err_set(err, ERR_CONFIG,
                   "--%s (%.15g) is less than --%s (%.15g), which a sandbox gets that asks for "
                   "nothing: raise the first, or lower the second",
                   ceiling, given, option, needed);
}

/* A ceiling that is 0 becomes `otherwise`, or the default of sandboxes if that is more. */
static int settle_one(uint64_t *ceiling, const char *name, uint64_t floor, const char *option,
                      uint64_t otherwise, double unit, struct err *err)
{
    if (*ceiling == 0) {
        *ceiling = max(otherwise, floor);
    }
    return *ceiling < floor
               ? too_low(name, (double)*ceiling / unit, option, (double)floor / unit, err)
               : 0;
}

/* The budget and the ceiling of one sandbox: each follows the other if only one was chosen. */
static int settle_memory(struct config *c, uint64_t machine_mb, struct err *err)
{
    uint64_t all_mb = machine_mb != 0 ? machine_mb - machine_mb / HELD_BACK : UNKNOWN_MEMORY_MB;
    bool both = c->max_memory_mb != 0 && c->memory_budget_mb != 0;
    int rc = settle_one(&c->memory_budget_mb, "memory-budget-mb", c->memory_mb, "memory-mb",
                        max(all_mb, c->max_memory_mb), 1, err);
    if (rc == 0) {
        rc = settle_one(&c->max_memory_mb, "max-memory-mb", c->memory_mb, "memory-mb",
                        c->memory_budget_mb, 1, err);
    }
    if (rc == 0 && both && c->max_memory_mb > c->memory_budget_mb) {
        rc = err_set(err, ERR_CONFIG,
                     "--max-memory-mb (%" PRIu64 ") is more than --memory-budget-mb (%" PRIu64
                     "), which all sandboxes have together: lower the first, or raise the second",
                     c->max_memory_mb, c->memory_budget_mb);
    }
    return rc;
}

int ceilings_settle(struct config *c, const struct ceilings_machine *machine, struct err *err)
{
    uint64_t milli = machine->cpu_milli != 0 ? machine->cpu_milli : UNKNOWN_CPU_MILLI;
    int rc = settle_memory(c, machine->memory_mb, err);
    if (rc == 0) {
        rc = settle_one(&c->max_cpu_milli, "max-cpus", c->cpu_milli, "cpus", milli, 1000, err);
    }
    if (rc == 0) {
        rc = settle_one(&c->max_pids, "max-pids", c->pids, "pids", PIDS_DEFAULT, 1, err);
    }
    if (rc == 0) {
        uint64_t fits_mb = max(room_disk_max(c->max_memory_mb << 20) >> 20, 1);
        rc = settle_one(&c->max_disk_mb, "max-disk-mb", c->disk_mb, "disk-mb", fits_mb, 1, err);
    }
    return rc;
}

/* ---- what clients ask for ------------------------------------------------------------------- */

int ceilings_check(const struct config *c, const struct ceilings_asked *asked, struct err *err)
{
    const struct {
        const char *argument, *option;
        double asked, most;
    } rows[] = {
        {"memory_mb", "max-memory-mb", asked->memory_mb, (double)c->max_memory_mb},
        {"cpus", "max-cpus", asked->cpus, (double)c->max_cpu_milli / 1000.0},
        {"pids", "max-pids", asked->pids, (double)c->max_pids},
        {"disk_mb", "max-disk-mb", asked->disk_mb, (double)c->max_disk_mb},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].asked > rows[i].most) {
            return err_set(err, ERR_INVALID,
                           "%s %.15g is more than this server gives one sandbox: at most %.15g "
                           "(--%s)",
                           rows[i].argument, rows[i].asked, rows[i].most, rows[i].option);
        }
    }
    return 0;
}
