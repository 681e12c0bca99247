/*
 * The same over TLS: a GnuTLS client on the thread of the loop that serves it, with certificates
 * that are made here.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "common/alloc.h"
#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"
#include "tests/unit/supervisor/web/lab.h"

struct tls_lab {
    struct lab lab;
    char dir[32];
    char *cert, *key, *other_key;
};

static void write_file(const char *path, const gnutls_datum_t *text, mode_t mode)
{
    struct err err = ERR_INIT;
    if (file_replace(path, text->data, text->size, mode, &err) < 0) {
        fail_msg("%s", err.text);
    }
    chmod(path, mode);
}

static gnutls_x509_privkey_t make_key(const char *path)
{
    gnutls_x509_privkey_t key;
    gnutls_datum_t text;
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(
                         key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    write_file(path, &text, 0600);
    gnutls_free(text.data);
    return key;
}

/* Makes a key and a self-signed certificate for a name of its own. */
static void make_pair(const char *cert_path, const char *key_path, const char *name)
{
    gnutls_x509_privkey_t key = make_key(key_path);
    gnutls_x509_crt_t cert;
    gnutls_datum_t text;
    assert_int_equal(gnutls_x509_crt_init(&cert), 0);
    gnutls_x509_crt_set_version(cert, 3);
    gnutls_x509_crt_set_serial(cert, "\1", 1);
    gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600);
    gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                  (unsigned)strlen(name));
    gnutls_x509_crt_set_key(cert, key);
    assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &text), 0);
    write_file(cert_path, &text, 0644);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

static int setup(void **state)
{
    struct tls_lab *t = alloc_one(struct tls_lab);
    lab_init(&t->lab);
    memcpy(t->dir, "/tmp/cloister-tls-XXXXXX", sizeof("/tmp/cloister-tls-XXXXXX"));
    assert_non_null(mkdtemp(t->dir));
    t->cert = alloc_printf("%s/cert.pem", t->dir);
    t->key = alloc_printf("%s/key.pem", t->dir);
    t->other_key = alloc_printf("%s/other.pem", t->dir);
    make_pair(t->cert, t->key, "first");
    t->lab.config.cert_file = t->cert;
    t->lab.config.key_file = t->key;
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct tls_lab *t = *state;
    struct err err = ERR_INIT;
    lab_close(&t->lab);
    assert_int_equal(dir_remove(t->dir, &err), 0);
    free(t->cert);
    free(t->key);
    free(t->other_key);
    free(t);
    return 0;
}

/* ---- a client ---- */

struct client {
    struct lab *lab;
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
};

/* Result of the handshake. */
static int client_open(struct client *c, struct lab *lab, const char *priorities)
{
    c->lab = lab;
    c->fd = lab_connect(lab);
    assert_int_equal(gnutls_init(&c->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL),
                     0);
    assert_int_equal(gnutls_certificate_allocate_credentials(&c->credentials), 0);
    gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->credentials);
    assert_int_equal(gnutls_priority_set_direct(c->session, priorities, NULL), 0);
    gnutls_transport_set_int(c->session, c->fd);
    uint64_t since = uv_hrtime();
    int rc;
    while ((rc = gnutls_handshake(c->session)) != 0 && gnutls_error_is_fatal(rc) == 0) {
        lab_turn(lab, c->fd);
        assert_true((uv_hrtime() - since) / 1000000 < LAB_DEADLINE_MS);
    }
    return rc;
}

static void client_close(struct client *c)
{
    gnutls_deinit(c->session);
    gnutls_certificate_free_credentials(c->credentials);
    if (c->fd >= 0) {
        close(c->fd);
    }
}

static void client_send(struct client *c, const char *text)
{
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t n = gnutls_record_send(c->session, text, len);
        if (n < 0 && n != GNUTLS_E_AGAIN) {
            return;
        }
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        } else {
            lab_turn(c->lab, -1);
        }
    }
}

static bool client_read_until(struct client *c, struct buf *in, const char *text)
{
    uint64_t since = uv_hrtime();
    while (text == NULL || !lab_has(in, text)) {
        char piece[16384];
        ssize_t n = gnutls_record_recv(c->session, piece, sizeof(piece));
        if (n == 0 || (n < 0 && gnutls_error_is_fatal((int)n) != 0)) {
            return false;
        }
        if (n > 0) {
            struct err err = ERR_INIT;
            assert_int_equal(buf_add(in, piece, (size_t)n, &err), 0);
        } else {
            lab_turn(c->lab, c->fd);
            assert_true((uv_hrtime() - since) / 1000000 < LAB_DEADLINE_MS);
        }
    }
    return true;
}

static char *client_peer_name(struct client *c)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(c->session, &count);
    assert_true(chain != NULL && count == 1);
    gnutls_x509_crt_t cert;
    char name[64];
    size_t size = sizeof(name);
    gnutls_x509_crt_init(&cert);
    assert_int_equal(gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER), 0);
    assert_int_equal(
        gnutls_x509_crt_get_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &size), 0);
    gnutls_x509_crt_deinit(cert);
    return alloc_strdup(name);
}

static void presents(struct lab *lab, const char *name)
{
    struct client c;
    assert_int_equal(client_open(&c, lab, "NORMAL"), 0);
    char *got = client_peer_name(&c);
    assert_string_equal(got, name);
    free(got);
    client_close(&c);
}

/* ---- tests ---- */

static void tls_1_2_and_1_3_are_served_and_older_ones_refused(void **state)
{
    struct lab *lab = &((struct tls_lab *)*state)->lab;
    lab_open(lab);
    assert_memory_equal(web_listener_url(lab->listener), "https://127.0.0.1:", 18);
    static const char *const good[] = {"NORMAL:-VERS-ALL:+VERS-TLS1.3",
                                       "NORMAL:-VERS-ALL:+VERS-TLS1.2"};
    for (size_t i = 0; i < 2; i++) {
        struct client c;
        CLEANUP_BUF struct buf in;
        buf_init(&in, 65536);
        assert_int_equal(client_open(&c, lab, good[i]), 0);
        client_send(&c, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_true(client_read_until(&c, &in, "\r\n\r\nhello\n"));
        client_send(&c, "GET /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_false(client_read_until(&c, &in, NULL));
        assert_true(lab_has(&in, "0 bytes\n"));
        client_close(&c);
    }
    struct client old;
    assert_true(client_open(&old, lab, "NORMAL:-VERS-ALL:+VERS-TLS1.1:%VERIFY_ALLOW_BROKEN") < 0);
    client_close(&old);
    /* a client that does not know that this is TLS */
    CLEANUP_BUF struct buf in = lab_request(lab, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_false(lab_has(&in, "HTTP/1.1"));
}

static void streams_and_late_answers_arrive_over_tls_at_once(void **state)
{
    struct lab *lab = &((struct tls_lab *)*state)->lab;
    lab_open(lab);
    struct client c;
    CLEANUP_BUF struct buf in;
    buf_init(&in, 64 << 20);
    assert_int_equal(client_open(&c, lab, "NORMAL"), 0);
    client_send(&c, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(client_read_until(&c, &in, "\r\n\r\n"));
    for (int i = 0; i < 5; i++) {
        char *text = alloc_printf("event %d\n", i);
        web_stream_write(lab->held[0], alloc_strdup(text), strlen(text));
        while (web_stream_queued(lab->held[0]) > 0) {
            lab_turn(lab, -1);
        }
        assert_int_equal(lab_held_back(c.fd), 0); /* no event waits for an acknowledgement */
        assert_true(client_read_until(&c, &in, text));
        free(text);
    }
    web_stream_write(lab->held[0], alloc_array(1, 4 << 20), 4 << 20);
    web_stream_end(lab->held[0]);
    assert_true(client_read_until(&c, &in, "\r\n0\r\n\r\n"));
    assert_true(in.len > 4 << 20);
    /* two requests in one record, of which the first is answered late */
    client_send(&c, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n"
                    "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecond"
                    "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    lab_until_count(lab, &lab->held_count, 2);
    web_respond(lab->held[1], 200, "text/plain", view_of("first\n"));
    assert_false(client_read_until(&c, &in, NULL));
    assert_true(lab_has(&in, "first\n") && lab_has(&in, "second") && lab_has(&in, "hello\n"));
    assert_int_equal(lab->gone, 0);
    client_close(&c);
}

static void a_handler_is_told_that_its_client_is_gone_over_tls(void **state)
{
    struct lab *lab = &((struct tls_lab *)*state)->lab;
    lab_open(lab);
    static const char *const requests[] = {"GET /later HTTP/1.1\r\nHost: a\r\n\r\n",
                                           "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n"};
    enum { CLOSE, SHUTDOWN, BYE_AND_CLOSE, WAYS };
    size_t count = 0;
    for (size_t i = 0; i < 2; i++) {
        for (int way = 0; way < WAYS; way++) {
            struct client c;
            assert_int_equal(client_open(&c, lab, "NORMAL"), 0);
            client_send(&c, requests[i]);
            lab_until_count(lab, &lab->held_count, ++count);
            if (way == SHUTDOWN) {
                shutdown(c.fd, SHUT_WR);
            } else {
                if (way == BYE_AND_CLOSE) {
                    gnutls_bye(c.session, GNUTLS_SHUT_WR);
                }
                close(c.fd);
                c.fd = -1;
            }
            lab_until_count(lab, &lab->gone, count);
            client_close(&c);
        }
    }
}

static void large_bodies_arrive_over_tls_or_are_refused(void **state)
{
    struct lab *lab = &((struct tls_lab *)*state)->lab;
    lab_open(lab);
    struct client c;
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    assert_int_equal(client_open(&c, lab, "NORMAL"), 0);
    CLEANUP_FREE char *body = alloc_array(1, 1000001);
    memset(body, 'x', 1000000);
    client_send(&c, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    client_send(&c, body);
    assert_true(client_read_until(&c, &in, "1000000 bytes\n"));
    /* a response before the body, which the client sends nevertheless */
    client_send(&c, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n");
    client_send(&c, body);
    assert_false(client_read_until(&c, &in, NULL));
    assert_true(lab_has(&in, "HTTP/1.1 413 "));
    client_close(&c);
}

/* A handshake has the timeout of a request. */
static void a_handshake_must_be_done_in_time(void **state)
{
    struct lab *lab = &((struct tls_lab *)*state)->lab;
    lab->config.input_ms = 300;
    lab_open(lab);
    CLEANUP_FD int fd = lab_connect(lab);
    CLEANUP_BUF struct buf in;
    buf_init(&in, 4096);
    lab_send_bytes(lab, fd, "\x16\x03\x01\x02\x00\x01", 6); /* the beginning of a ClientHello */
    uint64_t since = uv_hrtime();
    assert_false(lab_read_until(lab, fd, &in, NULL));
    assert_true((uv_hrtime() - since) / 1000000 >= 200);
}

static void a_new_certificate_is_presented_on_request_only(void **state)
{
    struct tls_lab *t = *state;
    struct lab *lab = &t->lab;
    struct err err = ERR_INIT;
    lab_open(lab);
    struct client old;
    CLEANUP_BUF struct buf in;
    buf_init(&in, 65536);
    assert_int_equal(client_open(&old, lab, "NORMAL"), 0);
    presents(lab, "first");
    make_pair(t->cert, t->key, "second");
    presents(lab, "first"); /* the certificate is only replaced on request */
    assert_int_equal(web_listener_reload(lab->listener, &err), 0);
    presents(lab, "second");
    client_send(&old, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(client_read_until(&old, &in, "hello\n"));
    client_close(&old);
    /* an unusable file changes nothing */
    unlink(t->key);
    assert_true(web_listener_reload(lab->listener, &err) < 0);
    assert_non_null(strstr(err.text, t->key));
    presents(lab, "second");
}

static void fails(struct tls_lab *t, const char *why)
{
    struct err err = ERR_INIT;
    struct web_listener *l = NULL;
    assert_true(web_listener_open(&t->lab.loop, &t->lab.config, &l, &err) < 0);
    if (strstr(err.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", err.text, why);
    }
}

static void files_that_are_no_pair_are_refused_and_say_why(void **state)
{
    struct tls_lab *t = *state;
    gnutls_x509_privkey_deinit(make_key(t->other_key));
    t->lab.config.key_file = t->other_key;
    fails(t, "does not belong to the certificate");
    t->lab.config.key_file = t->cert;
    chmod(t->cert, 0600);
    fails(t, "must be PEM");
    t->lab.config.key_file = "/nonexistent/key.pem";
    fails(t, "TLS: key: ");
    t->lab.config.key_file = t->key;
    t->lab.config.cert_file = "/nonexistent/cert.pem";
    fails(t, "TLS: certificate: ");
    t->lab.config.cert_file = t->key;
    fails(t, "must be PEM");
}

/* Captures the log, which goes to standard error, during one call. */
static char *log_of(struct tls_lab *t)
{
    CLEANUP_FREE char *path = alloc_printf("%s/log", t->dir);
    CLEANUP_FD int kept = dup(STDERR_FILENO);
    CLEANUP_FD int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    log_set_level(LOG_WARN);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    lab_open(&t->lab);
    dup2(kept, STDERR_FILENO);
    CLEANUP_BUF struct buf text;
    struct err err = ERR_INIT;
    buf_init(&text, 65536);
    assert_int_equal(file_read(path, &text, &err), 0);
    return alloc_strdup(buf_cstr(&text));
}

static void a_key_that_everybody_can_read_or_write_is_refused(void **state)
{
    struct tls_lab *t = *state;
    chmod(t->key, 0604);
    fails(t, "everybody may read the key");
    fails(t, t->key);
    fails(t, "chmod 600");
    chmod(t->key, 0602);
    fails(t, "everybody may write");
    fails(t, "TLS: key: ");
}

static void a_key_that_has_become_readable_replaces_none(void **state)
{
    struct tls_lab *t = *state;
    struct err err = ERR_INIT;
    lab_open(&t->lab);
    make_pair(t->cert, t->key, "second");
    chmod(t->key, 0644);
    assert_true(web_listener_reload(t->lab.listener, &err) < 0);
    assert_non_null(strstr(err.text, "everybody may read the key"));
    presents(&t->lab, "first");
    chmod(t->key, 0600);
    assert_int_equal(web_listener_reload(t->lab.listener, &err), 0);
    presents(&t->lab, "second");
}

static void a_key_of_somebody_else_is_refused(void **state)
{
    struct tls_lab *t = *state;
    if (geteuid() != 0) {
        print_message("# needs root, nobody else gives files away: not tested\n");
        return;
    }
    assert_int_equal(chown(t->key, 65534, 0), 0);
    fails(t, "belongs to user 65534");
    fails(t, "chown 0 ");
}

static void a_key_that_is_no_file_is_refused(void **state)
{
    struct tls_lab *t = *state;
    t->lab.config.key_file = t->dir;
    fails(t, "is not a file");
}

/* Services often read their secrets as member of a group. */
static void a_key_of_our_own_or_our_group_is_taken(void **state)
{
    struct tls_lab *t = *state;
    chmod(t->key, 0640);
    char *log = log_of(t);
    assert_string_equal(log, "");
    free(log);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(tls_1_2_and_1_3_are_served_and_older_ones_refused),
        CASE(streams_and_late_answers_arrive_over_tls_at_once),
        CASE(a_handler_is_told_that_its_client_is_gone_over_tls),
        CASE(large_bodies_arrive_over_tls_or_are_refused),
        CASE(a_handshake_must_be_done_in_time),
        CASE(a_new_certificate_is_presented_on_request_only),
        CASE(files_that_are_no_pair_are_refused_and_say_why),
        CASE(a_key_that_everybody_can_read_or_write_is_refused),
        CASE(a_key_that_has_become_readable_replaces_none),
        CASE(a_key_of_somebody_else_is_refused),
        CASE(a_key_that_is_no_file_is_refused),
        CASE(a_key_of_our_own_or_our_group_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
