/*
 * libuv closes descriptors by syscall(SYS_close) unless it was itself built for ThreadSanitizer, so
 * the sanitizer does not notice that a number is free again: the next owner of that number, on
 * another thread, then seems to race with the last one. This file, linked into the programs of a
 * build with -Db_sanitize=thread, replaces syscall() and closes descriptors by close(), which the
 * sanitizer sees.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long (*syscall_fn)(long number, ...);

/* Declared as in libc, for libuv and for us. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static syscall_fn real;
    long args[6];
    va_list list;
    va_start(list, number);
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
        args[i] = va_arg(list, long); /* the kernel ignores those not passed */
    }
    va_end(list);
    if (number == SYS_close) {
        return close((int)args[0]);
    }
    if (real == NULL) {
        real = (syscall_fn)dlsym(RTLD_NEXT, "syscall");
    }
    return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}
