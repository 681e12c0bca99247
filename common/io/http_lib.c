/*
 * Loading libcurl (see dynlib.h).
 *
 * Debian and its relatives have two builds of it, with OpenSSL and with GnuTLS; both have the same
 * interface, and a machine may have either one. The file name contains the version of the interface
 * (4), which has not changed since 2006, so only functions that are newer than the library can be
 * missing. Each client has its own table; libcurl counts its initialisations.
 */
#include "common/io/http_lib.h"

#include <stddef.h>

#include "common/dynlib.h"

static const char *const library_names[] = {
#ifdef __APPLE__
    "libcurl.4.dylib",
    "/usr/lib/libcurl.4.dylib",
#else
    "libcurl.so.4",
    "libcurl-gnutls.so.4",
#endif
    NULL,
};

static const struct dynlib_symbol symbols[] = {
#define X(name) {"curl_" #name, offsetof(struct http_lib, name)},
    HTTP_LIB_LIST(X)
#undef X
};

int http_lib_open_from(const char *const *names, struct http_lib *ret, struct err *err)
{
    struct http_lib lib = {0};
    int rc = dynlib_open(names, symbols, sizeof(symbols) / sizeof(symbols[0]), &lib, "libcurl",
                         "libcurl4", &lib.handle, err);
    if (rc < 0) {
        return rc;
    }
    CURLcode code = lib.global_init(CURL_GLOBAL_DEFAULT);
    if (code != CURLE_OK) {
        rc = err_set(err, ERR_ENGINE, "libcurl does not start: %s", lib.easy_strerror(code));
        dynlib_close(lib.handle);
        return rc;
    }
    *ret = lib;
    return 0;
}

int http_lib_open(struct http_lib *ret, struct err *err)
{
    return http_lib_open_from(library_names, ret, err);
}

void http_lib_close(struct http_lib *lib)
{
    if (lib->handle != NULL) {
        lib->global_cleanup();
        dynlib_close(lib->handle);
        lib->handle = NULL;
    }
}
