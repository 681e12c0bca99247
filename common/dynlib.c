/*
 * The table of function pointers has the types of the library's own header, so the compiler checks
 * every call. At run time the library may be missing, or older than a function that we need; both
 * errors say what to install.
 *
 * The code stays in the process for good (RTLD_NODELETE), because libraries that it depends on
 * register exit handlers. So no use count is needed here.
 */
#include "common/dynlib.h"

#include <dlfcn.h>
#include <string.h>

static const char *loader_error(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "unknown error";
}

static void *load_first(const char *const *names, const char *what, const char *package,
                        struct err *err)
{
    err_set(err, ERR_ENGINE, "no name of %s to try", what);
    for (const char *const *name = names; *name != NULL; name++) {
        void *handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (handle != NULL) {
            return handle;
        }
        const char *why = loader_error();
        if (name == names) { /* the error names the first, usual name */
            err_set(err, ERR_ENGINE,
                    "%s cannot be loaded (%s); please install it (Debian, Ubuntu: %s)", what, why,
                    package);
        }
    }
    return NULL;
}

int dynlib_open(const char *const *names, const struct dynlib_symbol *symbols, size_t count,
                void *table, const char *what, const char *package, void **ret_handle,
                struct err *err)
{
    struct err why = ERR_INIT;
    void *handle = load_first(names, what, package, &why);
    if (handle == NULL) {
        return err_set(err, ERR_ENGINE, "%s", why.text);
    }
    for (size_t i = 0; i < count; i++) {
        if (dlsym(handle, symbols[i].name) == NULL) {
            err_set(err, ERR_ENGINE,
                    "%s on this machine has no %s; please install a newer one (Debian, Ubuntu: %s)",
                    what, symbols[i].name, package);
            dlclose(handle);
            return -ERR_ENGINE;
        }
    }
    for (size_t i = 0; i < count; i++) {
        /* Copied as bytes: C has no cast from a data pointer to a function pointer. */
        void *found = dlsym(handle, symbols[i].name);
        memcpy((char *)table + symbols[i].offset, &found, sizeof(found));
    }
    *ret_handle = handle;
    return 0;
}

void dynlib_close(void *handle)
{
    if (handle != NULL) {
        dlclose(handle);
    }
}
