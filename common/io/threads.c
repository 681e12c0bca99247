/*
 * Rlimits, cgroups and the kernel all limit threads, so the only reliable check is to start them.
 * All must exist at the same time, so each waits for the lock that the starter holds.
 */
#include "common/io/threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/alloc.h"

#define STACK_BYTES (64u << 10)
#define OWN_THREADS 24 /* threads that do not depend on the number of CPUs */

unsigned threads_needed(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return OWN_THREADS + 2 * (unsigned)(cpus > 0 ? cpus : 1);
}

static void *wait_for_lock(void *arg)
{
    pthread_mutex_t *gate = arg;
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

int threads_check(unsigned count, struct err *err)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_t *threads = alloc_array(count, sizeof(threads[0]));
    pthread_mutex_lock(&gate);
    unsigned started = 0;
    int sys = 0;
    while (started < count && sys == 0) {
        sys = pthread_create(&threads[started], &attr, wait_for_lock, &gate);
        started += sys == 0;
    }
    pthread_mutex_unlock(&gate);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_mutex_destroy(&gate);
    pthread_attr_destroy(&attr);
    free(threads);
    if (sys != 0) {
        return err_sys(err, ERR_NO_MEMORY, sys, "cannot start %u threads, only %u", count, started);
    }
    return 0;
}
