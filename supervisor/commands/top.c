/*
 * `top`: what sandboxes use. A share of a CPU takes two looks at the time that was used, so the
 * first table comes after a second. On a terminal it is drawn again every two seconds until the
 * command is interrupted; elsewhere, once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/io/json.h"
#include "supervisor/commands/internal.h"

#define FIRST_MS 1000
#define EVERY_MS 2000
#define MIB      1048576.0
#define TOP_ONCE 1
#define CLEAR    "\033[H\033[J"

/* One look at all servers. */
struct sight {
    uint64_t at_ms;
    cJSON **answers; /* by the server's place; NULL: it did not answer */
};

static void look_at_all(const struct servers *servers, struct sight *ret)
{
    struct err err = ERR_INIT;
    ret->answers = alloc_array(servers->count + 1, sizeof(cJSON *));
    for (size_t i = 0; i < servers->count; i++) {
        if (server_ask(&servers->items[i], "GET", "/v1/sandboxes?usage=1", &ret->answers[i], &err) <
            0) {
            (void)command_fail(&err);
        }
    }
    ret->at_ms = clock_ms();
}

static void free_sight(struct sight *sight, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cJSON_Delete(sight->answers[i]);
    }
    free(sight->answers);
}

static const cJSON *find_seen(const cJSON *answer, const char *id)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, json_get(answer, "sandboxes"))
    {
        if (strcmp(member_text(row, "sandbox_id"), id) == 0) {
            return row;
        }
    }
    return NULL;
}

/* In percent of one CPU; negative: unknown. */
static double cpu_share(const cJSON *before, const cJSON *now, uint64_t passed_ms)
{
    const cJSON *old = json_get(before, "usage"), *fresh = json_get(now, "usage");
    double used = member_number(fresh, "cpu_ms") - member_number(old, "cpu_ms");
    return old != NULL && fresh != NULL && passed_ms > 0 && used >= 0
               ? 100.0 * used / (double)passed_ms
               : -1;
}

static void add_top_row(struct table *t, const struct server *server, const cJSON *row,
                        double share)
{
    const cJSON *usage = json_get(row, "usage"), *limits = json_get(row, "limits");
    CLEANUP_FREE char *cpu = share >= 0 ? alloc_printf("%.1f%%", share) : alloc_strdup("-");
    CLEANUP_FREE char *memory =
        alloc_printf("%.1f / %.0f MiB", member_number(usage, "memory_bytes") / MIB,
                     member_number(limits, "memory_mb"));
    CLEANUP_FREE char *pids = alloc_printf("%.0f", member_number(usage, "processes"));
    CLEANUP_FREE char *disk = alloc_printf("%.1f MiB", member_number(usage, "disk_bytes") / MIB);
    const char *const cells[] = {member_text(row, "sandbox_id"),
                                 member_text(row, "name"),
                                 member_text(row, "owner"),
                                 member_text(row, "state"),
                                 cpu,
                                 memory,
                                 pids,
                                 disk,
                                 server->name};
    table_add(t, cells);
}

static void show_sight(const struct steer *s, const struct servers *servers,
                       const struct sight *before, const struct sight *now)
{
    static const char *const heads[] = {"SANDBOX ID", "NAME", "OWNER", "STATE",  "CPU",
                                        "MEMORY",     "PIDS", "DISK",  "SERVER", NULL};
    struct table *t = table_create(heads);
    for (size_t i = 0; i < servers->count; i++) {
        cJSON *row;
        cJSON_ArrayForEach(row, json_get(now->answers[i], "sandboxes"))
        {
            const cJSON *old = find_seen(before->answers[i], member_text(row, "sandbox_id"));
            double share = cpu_share(old, row, now->at_ms - before->at_ms);
            if (s->json) {
                if (share >= 0) {
                    cJSON_AddNumberToObject(row, "cpu_percent", share);
                }
                print_object(&servers->items[i], row);
            } else {
                add_top_row(t, &servers->items[i], row, share);
            }
        }
    }
    table_end(t, !s->json);
    fflush(stdout);
}

int command_top(const struct steer *s)
{
    bool again = s->values[TOP_ONCE] == NULL && !s->json && isatty(STDOUT_FILENO);
    struct servers servers;
    struct sight before, now;
    servers_find(s->config, &servers);
    look_at_all(&servers, &before);
    server_pause(FIRST_MS);
    do {
        look_at_all(&servers, &now);
        printf("%s", again ? CLEAR : "");
        show_sight(s, &servers, &before, &now);
        free_sight(&before, servers.count);
        before = now;
        if (again) {
            server_pause(EVERY_MS);
        }
    } while (again);
    free_sight(&before, servers.count);
    servers_finish(&servers);
    return 0;
}
