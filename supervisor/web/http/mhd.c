/*
 * Loading libmicrohttpd and GnuTLS (see common/dynlib.h).
 *
 * libmicrohttpd is linked with the same GnuTLS, so objects of the one (a session) can be passed to
 * functions of the other. The numbers in the names are the versions of their interfaces; neither
 * has changed for ten years. Filling a table costs a few lookups of names, which is why tables are
 * not shared.
 *
 * The library must have been built with epoll. This is checked here, so that the error says so.
 */
#include "supervisor/web/http/mhd.h"

#include <stddef.h>

#include "common/dynlib.h"

static const struct dynlib_symbol mhd_symbols[] = {
#define X(name) {"MHD_" #name, offsetof(struct mhd_lib, name)},
    MHD_LIB_LIST(X)
#undef X
};

static const struct dynlib_symbol tls_symbols[] = {
#define X(name) {"gnutls_" #name, offsetof(struct tls_lib, name)},
    TLS_LIB_LIST(X)
#undef X
};

int mhd_lib_open(struct mhd_lib *ret, struct err *err)
{
    static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so", NULL};
    struct mhd_lib lib = {0};
    struct err why = ERR_INIT;
    if (dynlib_open(names, mhd_symbols, sizeof(mhd_symbols) / sizeof(mhd_symbols[0]), &lib,
                    "libmicrohttpd", "libmicrohttpd12", &lib.handle, &why) < 0) {
        return err_set(err, ERR_CONFIG, "HTTP: %s", why.text);
    }
    if (lib.is_feature_supported(MHD_FEATURE_EPOLL) != MHD_YES) {
        dynlib_close(lib.handle);
        return err_set(err, ERR_CONFIG,
                       "HTTP: libmicrohttpd on this machine was built without "
                       "epoll; please install another build of it");
    }
    *ret = lib;
    return 0;
}

int tls_lib_open(struct tls_lib *ret, struct err *err)
{
    static const char *const names[] = {"libgnutls.so.30", "libgnutls.so", NULL};
    struct tls_lib lib = {0};
    struct err why = ERR_INIT;
    if (dynlib_open(names, tls_symbols, sizeof(tls_symbols) / sizeof(tls_symbols[0]), &lib,
                    "GnuTLS", "libgnutls30", &lib.handle, &why) < 0) {
        return err_set(err, ERR_CONFIG, "HTTP: %s", why.text);
    }
    *ret = lib;
    return 0;
}
