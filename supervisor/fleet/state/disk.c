/*
 * The runtime directory is nearly always on a tmpfs, where all this takes microseconds. But it may
 * be on a disk, where a sync can take a second, and a blocked loop answers nobody. So writes with
 * sync and removals of trees run in libuv's thread pool, with copies of everything they need, and
 * call back on the loop.
 */
#include "supervisor/fleet/state/disk.h"

#include <stdlib.h>
#include <uv.h>

#include "common/alloc.h"
#include "common/fd.h"
#include "supervisor/fleet/host/host.h"

struct disk_job {
    uv_work_t work;
    struct fleet_host *host;
    char *path;
    void *data; /* NULL: remove */
    size_t len;
    disk_done_fn done;
    void *arg;
    int rc;
    struct err err;
};

/* Runs on a thread of the pool. */
static void on_disk_work(uv_work_t *work)
{
    struct disk_job *job = work->data;
    if (job->data == NULL) {
        job->rc = dir_remove(job->path, &job->err);
    } else {
        job->rc = file_replace(job->path, job->data, job->len, 0600, &job->err);
    }
}

static void on_disk_worked(uv_work_t *work, int status)
{
    struct disk_job *job = work->data;
    (void)status; /* a request of the pool is never cancelled */
    job->done(job->arg, job->rc, &job->err);
    fleet_host_release(job->host);
    free(job->path);
    free(job->data);
    free(job);
}

static void submit(struct fleet_host *host, const char *path, void *data, size_t len,
                   disk_done_fn done, void *arg)
{
    struct disk_job *job = alloc_one(struct disk_job);
    job->work.data = job;
    job->host = host;
    job->path = alloc_strdup(path);
    job->data = data;
    job->len = len;
    job->done = done;
    job->arg = arg;
    fleet_host_hold(host);
    /* Fails only without a callback. */
    (void)uv_queue_work(host->loop, &job->work, on_disk_work, on_disk_worked);
}

void disk_write(struct fleet_host *host, const char *path, struct view data, disk_done_fn done,
                void *arg)
{
    void *copy = alloc_array(data.len + 1, 1);
    memcpy(copy, data.data, data.len);
    submit(host, path, copy, data.len, done, arg);
}

void disk_remove(struct fleet_host *host, const char *path, disk_done_fn done, void *arg)
{
    submit(host, path, NULL, 0, done, arg);
}
