/*
 * The endpoint of a Docker Engine (or Podman's compatible socket), as text and parsed.
 *
 * People write it as text, which says all of it; values are percent-encoded:
 *     unix:///run/docker.sock
 *     tcp://host:2375
 *     tcp://host:2376?tls=1&verify=1&ca=/p/ca.pem&cert=/p/cert.pem&key=/p/key.pem
 * What another worker is to use later, whatever the environment is then, is a struct place.
 *
 * Thread: any. No file is touched.
 */
#ifndef CLOISTER_WORKER_BACKEND_DOCKER_ENDPOINT_H
#define CLOISTER_WORKER_BACKEND_DOCKER_ENDPOINT_H

#include <stdbool.h>

#include "common/err.h"
#include "common/io/http_client.h"
#include "common/place.h"

#define DOCKER_SOCKET_USUAL "/var/run/docker.sock"

struct docker_endpoint {
    char *text;     /* the text form */
    char *origin;   /* for people: "DOCKER_HOST", "the usual socket of OrbStack"; may be NULL */
    char *base_url; /* as in http_endpoint, also what follows; NULL: none */
    char *unix_socket;
    char *ca_file, *cert_file, *key_file;
    bool verify;
};

/* From the text form or a DOCKER_HOST value (bare "h:port" is tcp; ssh, npipe, fd are refused with
 * a hint in the text). -ERR_CONFIG. */
int docker_endpoint_parse(const char *text, struct docker_endpoint *ret,
                          struct err *err) WARN_UNUSED;
void docker_endpoint_finish(struct docker_endpoint *e);

/* What Docker keeps apart from an address. Paths are absolute and owned; NULL: none. */
struct docker_tls {
    bool on, verify;
    char *ca_file, *cert_file, *key_file;
};

/* As parse, with TLS settings for an address without a query. `tls` may be NULL, is ignored for
 * sockets, and remains the caller's. */
int docker_endpoint_make(const char *text, const struct docker_tls *tls,
                         struct docker_endpoint *ret, struct err *err) WARN_UNUSED;
void docker_tls_finish(struct docker_tls *tls);

/* Borrows from e. */
void docker_endpoint_http(const struct docker_endpoint *e, struct http_endpoint *ret);

/* The same as a place, which is a socket or a URL and borrows from e; and back from one that is not
 * PLACE_NONE. -ERR_CONFIG for what no engine can be at. */
struct place docker_endpoint_place(const struct docker_endpoint *e);
int docker_endpoint_of(const struct place *place, struct docker_endpoint *ret,
                       struct err *err) WARN_UNUSED;

#endif
