/* One fault at a time, under a lock; the header says how calls are redirected. */
#include "tests/lib/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    enum fault_call call;
    int sys;
    size_t skip, times, hits;
} fault;

int __real_open64(const char *path, int flags, mode_t mode);
ssize_t __real_write(int fd, const void *data, size_t len);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_uv_pipe(uv_file fds[2], int read_flags, int write_flags);
int __real_uv_spawn(uv_loop_t *loop, uv_process_t *process, const uv_process_options_t *options);

/* Names of the linker's --wrap. */
int __wrap_open64(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *data, size_t len);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_uv_pipe(uv_file fds[2], int read_flags, int write_flags);
int __wrap_uv_spawn(uv_loop_t *loop, uv_process_t *process, const uv_process_options_t *options);

void fault_set(enum fault_call call, int sys, size_t nth, size_t times)
{
    pthread_mutex_lock(&lock);
    fault.call = call;
    fault.sys = sys;
    fault.skip = nth;
    fault.times = times;
    fault.hits = 0;
    pthread_mutex_unlock(&lock);
}

size_t fault_end(void)
{
    pthread_mutex_lock(&lock);
    fault.call = FAULT_NONE;
    size_t hits = fault.hits;
    pthread_mutex_unlock(&lock);
    return hits;
}

/* The errno to fail with, or 0. */
static int hit(enum fault_call call)
{
    int sys = 0;
    pthread_mutex_lock(&lock);
    if (fault.call == call && fault.skip > 0) {
        fault.skip--;
    } else if (fault.call == call && fault.hits < fault.times) {
        fault.hits++;
        sys = fault.sys;
    }
    pthread_mutex_unlock(&lock);
    return sys;
}

static int failed_by(int sys)
{
    errno = sys;
    return -1;
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    int sys = hit(FAULT_OPEN);
    return sys != 0 ? failed_by(sys) : __real_open64(path, flags, mode);
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    int sys = hit(FAULT_WRITE);
    if (sys != 0) {
        ssize_t half = __real_write(fd, data, len / 2);
        (void)half;
        return failed_by(sys);
    }
    return __real_write(fd, data, len);
}

int __wrap_fsync(int fd)
{
    int sys = hit(FAULT_SYNC);
    return sys != 0 ? failed_by(sys) : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    int sys = hit(FAULT_RENAME);
    return sys != 0 ? failed_by(sys) : __real_rename(from, to);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    int sys = hit(FAULT_MKDIR);
    return sys != 0 ? failed_by(sys) : __real_mkdir(path, mode);
}

int __wrap_uv_pipe(uv_file fds[2], int read_flags, int write_flags)
{
    int sys = hit(FAULT_PIPE);
    return sys != 0 ? -sys : __real_uv_pipe(fds, read_flags, write_flags);
}

/* A real uv_spawn() whose fork fails has registered the handle with the loop, so this does it
 * too. */
int __wrap_uv_spawn(uv_loop_t *loop, uv_process_t *process, const uv_process_options_t *options)
{
    int sys = hit(FAULT_SPAWN);
    if (sys == 0) {
        return __real_uv_spawn(loop, process, options);
    }
    uv_process_options_t none = *options;
    none.file = "/nowhere/to/be/found"; /* registers the handle, and fails before anything runs */
    (void)__real_uv_spawn(loop, process, &none);
    return -sys;
}
