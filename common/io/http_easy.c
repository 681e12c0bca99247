/*
 * The options that all requests to one endpoint share: its address, the trusted certificates, and
 * the features of libcurl that are off.
 *
 * These are off: redirects (following one would send requests and secrets elsewhere), all protocols
 * but two, HTTP/2 (a tunnel needs 1.1, and one kind of connection is easier to reason about), path
 * normalisation, signals. The environment's proxy is used for other machines, and never for a unix
 * socket or this machine. Certificates given with an endpoint replace the system's.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/io/http_internal.h"
#include "config.h"

#define KEEPALIVE_SECONDS     30L
#define IDLE_CONNECTION_MAX_S 60L

static char *copy_or_null(const char *text)
{
    return text != NULL ? alloc_strdup(text) : NULL;
}

static struct view copy_pem(struct view pem)
{
    return pem.len > 0 ? view_bytes(alloc_viewdup(pem), pem.len) : pem;
}

/* A key is not left in memory that is given back. */
static void forget_pem(struct view pem)
{
    if (pem.len > 0) {
        char *own = (char *)(uintptr_t)pem.data; /* see copy_pem() */
        explicit_bzero(own, pem.len);
        free(own);
    }
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncasecmp(text, beginning, strlen(beginning)) == 0;
}

static bool is_this_machine(const char *authority)
{
    return begins_with(authority, "127.") || begins_with(authority, "[::1]") ||
           strcasecmp(authority, "localhost") == 0 || begins_with(authority, "localhost:");
}

/* Printable, without blanks. */
static bool is_plain_text(const char *text)
{
    const char *p = text;
    while (*p > ' ' && *p < 0x7f) {
        p++;
    }
    return *p == '\0';
}

int http_site_init(struct http_site *site, const struct http_endpoint *endpoint, struct err *err)
{
    const char *url = endpoint->base_url;
    bool tls = begins_with(url, "https://");
    if ((!tls && !begins_with(url, "http://")) || !is_plain_text(url)) {
        return err_set(err, ERR_INVALID, "%s: not an address of HTTP: \"%s\"", endpoint->name, url);
    }
    size_t host_at = tls ? strlen("https://") : strlen("http://");
    size_t host_len = strcspn(url + host_at, "/");
    if (host_len == 0 || strcspn(url + host_at, "?#@") < strlen(url + host_at)) {
        return err_set(err, ERR_INVALID, "%s: only host, port and path may be in \"%s\"",
                       endpoint->name, url);
    }
    *site = (struct http_site){
        .name = alloc_strdup(endpoint->name),
        .base_url = alloc_strdup(url),
        .unix_socket = copy_or_null(endpoint->unix_socket),
        .ca_file = copy_or_null(endpoint->ca_file),
        .cert_file = copy_or_null(endpoint->cert_file),
        .key_file = copy_or_null(endpoint->key_file),
        .ca_pem = copy_pem(endpoint->ca_pem),
        .cert_pem = copy_pem(endpoint->cert_pem),
        .key_pem = copy_pem(endpoint->key_pem),
        .proxy = copy_or_null(endpoint->proxy),
        .connect_to =
            endpoint->connect_to != NULL ? alloc_printf("::%s", endpoint->connect_to) : NULL,
        .authority = alloc_viewdup(view_bytes(url + host_at, host_len)),
        .verify = endpoint->verify,
        .tls = tls,
        .idle_s = endpoint->idle_s > 0 ? (long)endpoint->idle_s : IDLE_CONNECTION_MAX_S,
    };
    site->root = site->base_url + host_at + host_len;
    site->direct = site->unix_socket != NULL || is_this_machine(site->authority);
    return 0;
}

void http_site_finish(struct http_site *site)
{
    free(site->name);
    free(site->base_url);
    free(site->unix_socket);
    free(site->ca_file);
    free(site->cert_file);
    free(site->key_file);
    forget_pem(site->ca_pem);
    forget_pem(site->cert_pem);
    forget_pem(site->key_pem);
    free(site->proxy);
    free(site->connect_to);
    free(site->authority);
}

static CURLcode set_transport(const struct http_call *call, CURL *easy)
{
    const struct http_lib *lib = &call->client->lib;
    const struct http_site *site = &call->client->site;
    CURLcode rc = CURLE_OK;
    long connect_ms = call->connect_ms < INT_MAX ? (long)call->connect_ms : INT_MAX;
    CLEANUP_FREE char *url = alloc_printf("%s%s", site->base_url, call->path);
    HTTP_SET(CURLOPT_URL, url);
    HTTP_SET(CURLOPT_PATH_AS_IS, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    HTTP_SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    HTTP_SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    HTTP_SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    HTTP_SET(CURLOPT_FOLLOWLOCATION, 0L);
    HTTP_SET(CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    HTTP_SET(CURLOPT_MAXAGE_CONN, site->idle_s);
    HTTP_SET(CURLOPT_TCP_KEEPALIVE, 1L);
    HTTP_SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_SECONDS);
    HTTP_SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_SECONDS);
    HTTP_SET(CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
    if (site->unix_socket != NULL) {
        HTTP_SET(CURLOPT_UNIX_SOCKET_PATH, site->unix_socket);
    }
    if (site->proxy != NULL) {
        HTTP_SET(CURLOPT_PROXY, site->proxy);
        HTTP_SET(CURLOPT_NOPROXY, "");
    } else if (site->direct) {
        HTTP_SET(CURLOPT_PROXY, "");
    }
    if (call->client->connect_to != NULL) {
        HTTP_SET(CURLOPT_CONNECT_TO, call->client->connect_to);
    }
    return rc;
}

/* The site outlives each of its handles, so libcurl needs no copy. */
static struct curl_blob borrow_pem(struct view pem)
{
    return (struct curl_blob){(char *)(uintptr_t)pem.data, pem.len, CURL_BLOB_NOCOPY};
}

static CURLcode set_trust(const struct http_call *call, CURL *easy)
{
    const struct http_lib *lib = &call->client->lib;
    const struct http_site *site = &call->client->site;
    CURLcode rc = CURLE_OK;
    HTTP_SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    HTTP_SET(CURLOPT_SSL_VERIFYPEER, site->verify ? 1L : 0L);
    HTTP_SET(CURLOPT_SSL_VERIFYHOST, site->verify ? 2L : 0L);
    if (site->ca_file != NULL) {
        HTTP_SET(CURLOPT_CAINFO, site->ca_file);
        HTTP_SET(CURLOPT_CAPATH, NULL);
    }
    if (site->ca_pem.len > 0) {
        struct curl_blob blob = borrow_pem(site->ca_pem);
        HTTP_SET(CURLOPT_CAINFO_BLOB, &blob);
        HTTP_SET(CURLOPT_CAPATH, NULL);
    }
    if (site->cert_pem.len > 0) {
        struct curl_blob blob = borrow_pem(site->cert_pem);
        HTTP_SET(CURLOPT_SSLCERT_BLOB, &blob);
    }
    if (site->key_pem.len > 0) {
        struct curl_blob blob = borrow_pem(site->key_pem);
        HTTP_SET(CURLOPT_SSLKEY_BLOB, &blob);
    }
    if (site->cert_file != NULL) {
        HTTP_SET(CURLOPT_SSLCERT, site->cert_file);
    }
    if (site->key_file != NULL) {
        HTTP_SET(CURLOPT_SSLKEY, site->key_file);
    }
    return rc;
}

int http_easy_create(const struct http_call *call, char *error, CURL **ret, struct err *err)
{
    const struct http_lib *lib = &call->client->lib;
    CURL *easy = lib->easy_init();
    if (easy == NULL) {
        return err_set(err, ERR_ENGINE, "libcurl is out of memory");
    }
    CURLcode rc = CURLE_OK;
    HTTP_SET(CURLOPT_ERRORBUFFER, error);
    HTTP_SET(CURLOPT_NOSIGNAL, 1L);
    rc = rc == CURLE_OK ? set_transport(call, easy) : rc;
    rc = rc == CURLE_OK && call->client->site.tls ? set_trust(call, easy) : rc;
    if (rc != CURLE_OK) {
        lib->easy_cleanup(easy);
        return err_set(err, ERR_ENGINE, "%s: %s refuses an option that is needed: %s",
                       call->client->site.name, lib->version(), lib->easy_strerror(rc));
    }
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Removing a call must not wait for the resolver's thread. Older libraries do not have this
     * option. */
    lib->easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    *ret = easy;
    return 0;
}

static const char *connect_hint(long sys)
{
    switch (sys) {
    case ENOENT:
    case ECONNREFUSED:
        return "; is it running?";
    case EACCES:
    case EPERM:
        return "; may this user use it?";
    default:
        return "";
    }
}

int http_easy_error(const struct http_call *call, CURL *easy, CURLcode result, const char *detail,
                    struct err *err)
{
    const struct http_lib *lib = &call->client->lib;
    const char *name = call->client->site.name;
    long sys = 0;
    if (result == CURLE_OPERATION_TIMEDOUT) {
        return err_set(err, ERR_TIMEOUT, "%s: no connection within %llu ms", name,
                       (unsigned long long)call->connect_ms);
    }
    if (lib->easy_getinfo(easy, CURLINFO_OS_ERRNO, &sys) != CURLE_OK) {
        sys = 0;
    }
    if (result == CURLE_COULDNT_CONNECT && sys > 0 && sys < INT_MAX) {
        err_set(err, ERR_ENGINE, "%s: cannot connect: %s%s", name, strerror((int)sys),
                connect_hint(sys));
        err->sys = (int)sys;
        return -ERR_ENGINE;
    }
    const char *why = detail[0] != '\0' ? detail : lib->easy_strerror(result);
    const struct http_site *site = &call->client->site;
    if (result == CURLE_SSL_CACERT_BADFILE && site->ca_file != NULL) {
        return err_set(err, ERR_ENGINE, "%s: cannot use %s: %s", name, site->ca_file, why);
    }
    if (result == CURLE_SSL_CERTPROBLEM && site->cert_file != NULL) {
        return err_set(err, ERR_ENGINE, "%s: cannot use %s: %s", name, site->cert_file, why);
    }
    return err_set(err, ERR_ENGINE, "%s: %s: %s", name, call->what, why);
}

char *http_escape(const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *escaped = alloc_array(3 * strlen(text) + 1, 1);
    char *out = escaped;
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            strchr("-._~", c) != NULL) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    *out = '\0';
    return escaped;
}
