/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates made on the spot, in a directory of the test's own, and a client
 * that speaks TLS to the server of echo.h in pieces of any size.
 */
#ifndef RN_TESTS_NET_TLS_CLIENT_H
#define RN_TESTS_NET_TLS_CLIENT_H

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "echo.h"

/* --- certificates ----------------------------------------------------------- */

/* A key and a certificate; an authority is one that signed itself. */
struct identity {
    EVP_PKEY *key;
    X509 *cert;
};

static inline void add_extension(X509 *cert, int kind, const char *text)
{
    X509_EXTENSION *extension = X509V3_EXT_nconf_nid(NULL, NULL, kind, text);

    assert_non_null(extension);
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
}

/* `alternatives` as in openssl.cnf, "DNS:a,URI:b"; may be NULL. Valid from
 * yesterday for `days`. */
static inline struct identity make_identity(const struct identity *by, const char *common_name,
                                            const char *alternatives, int days)
{
    struct identity made = {.key = EVP_EC_gen("P-256"), .cert = X509_new()};
    X509_NAME *name = X509_get_subject_name(made.cert);
    static _Atomic long serial = 1;

    X509_set_version(made.cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.cert), serial++);
    X509_time_adj_ex(X509_getm_notBefore(made.cert), -1, 0, NULL);
    X509_time_adj_ex(X509_getm_notAfter(made.cert), days - 1, 0, NULL);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1,
                               -1, 0);
    X509_set_issuer_name(made.cert, by ? X509_get_subject_name(by->cert) : name);
    X509_set_pubkey(made.cert, made.key);
    if (!by)
        add_extension(made.cert, NID_basic_constraints, "critical,CA:TRUE");
    if (alternatives)
        add_extension(made.cert, NID_subject_alt_name, alternatives);
    assert_true(X509_sign(made.cert, by ? by->key : made.key, EVP_sha256()) > 0);
    return made;
}

static inline void free_identity(struct identity *identity)
{
    EVP_PKEY_free(identity->key);
    X509_free(identity->cert);
}

/* A test's directory with the server's files. */
struct folder {
    char path[64], cert[80], key[80], ca[80];
};

static inline void make_folder(struct folder *folder)
{
    strcpy(folder->path, "/tmp/rn_tls_XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    snprintf(folder->cert, sizeof folder->cert, "%s/cert.pem", folder->path);
    snprintf(folder->key, sizeof folder->key, "%s/key.pem", folder->path);
    snprintf(folder->ca, sizeof folder->ca, "%s/ca.pem", folder->path);
}

static inline void remove_folder(const struct folder *folder)
{
    unlink(folder->cert);
    unlink(folder->key);
    unlink(folder->ca);
    assert_int_equal(rmdir(folder->path), 0);
}

/* Both by rename, so that no process reads half a file. */
static inline void write_cert(const char *path, X509 *cert)
{
    char aside[96];

    snprintf(aside, sizeof aside, "%s.new", path);
    FILE *file = fopen(aside, "w");
    assert_int_equal(PEM_write_X509(file, cert), 1);
    fclose(file);
    assert_int_equal(rename(aside, path), 0);
}

static inline void write_key(const char *path, EVP_PKEY *key, const char *password)
{
    char aside[96];

    snprintf(aside, sizeof aside, "%s.new", path);
    FILE *file = fopen(aside, "w");
    assert_int_equal(PEM_write_PKCS8PrivateKey(file, key, password ? EVP_aes_128_cbc() : NULL, NULL,
                                               0, NULL, (void *)(uintptr_t)password),
                     1);
    fclose(file);
    assert_int_equal(rename(aside, path), 0);
}

static inline void write_identity(const struct folder *folder, const struct identity *identity)
{
    write_cert(folder->cert, identity->cert);
    write_key(folder->key, identity->key, NULL);
}

/* --- servers ---------------------------------------------------------------- */

/* A running server with a TLS listener "tcp", its files and its authority. */
struct tls_running {
    struct running r;
    struct folder folder;
    struct identity authority, server;
    struct rn_tls_files files;
};

/* Between this and start_tls the protocol and the files may be changed. */
static inline void prepare_tls(struct tls_running *t)
{
    make_folder(&t->folder);
    t->authority = make_identity(NULL, "authority", NULL, 30);
    t->server = make_identity(&t->authority, "server", "DNS:localhost", 30);
    write_identity(&t->folder, &t->server);
    write_cert(t->folder.ca, t->authority.cert);
    t->files = (struct rn_tls_files){.cert = t->folder.cert, .key = t->folder.key};
    prepare_server(&t->r, (struct rn_server_options){0});
}

static inline void start_tls(struct tls_running *t)
{
    struct ration_error error = {0};

    if (rn_server_tls_load(t->r.server, &t->files, &error) != 0)
        fail_msg("%s", error.text);
    listen_on(&t->r, "tcp", "127.0.0.1:0");
    rn_server_tls_enable(t->r.server, "tcp");
    start_server(&t->r);
}

static inline void stop_tls(struct tls_running *t)
{
    stop_server(&t->r);
    free_identity(&t->authority);
    free_identity(&t->server);
    remove_folder(&t->folder);
}

/* --- clients ---------------------------------------------------------------- */

struct client {
    int fd;
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
    size_t piece; /* bytes sent at once; 0: any */
};

/* `identity` may be NULL. The server must be signed by the authority. */
static inline void client_init(struct client *c, const struct tls_running *t,
                               const struct identity *identity)
{
    *c = (struct client){.context = SSL_CTX_new(TLS_client_method()), .fd = dial(&t->r, "tcp")};
    X509_STORE_add_cert(SSL_CTX_get_cert_store(c->context), t->authority.cert);
    SSL_CTX_set_verify(c->context, SSL_VERIFY_PEER, NULL);
    if (identity) {
        SSL_CTX_use_certificate(c->context, identity->cert);
        SSL_CTX_use_PrivateKey(c->context, identity->key);
    }
    c->ssl = SSL_new(c->context);
    c->in = BIO_new(BIO_s_mem());
    c->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(c->in, -1);
    SSL_set_bio(c->ssl, c->in, c->out);
    SSL_set_connect_state(c->ssl);
}

/* Sends all records that wait; the caller checks later whether they arrived. */
static inline void client_send(struct client *c)
{
    char *data;
    size_t len = (size_t)BIO_get_mem_data(c->out, &data);

    while (len > 0) {
        size_t n = c->piece > 0 && c->piece < len ? c->piece : len;
        ssize_t sent = deliver(c->fd, data, n, 0);
        if (sent <= 0)
            break;
        data += sent;
        len -= (size_t)sent;
    }
    (void)BIO_reset(c->out);
}

/* Takes records in; false at the end. */
static inline bool client_receive(struct client *c)
{
    char data[16384];
    ssize_t n = receive(c->fd, data, sizeof data, 0);

    if (n <= 0) {
        BIO_set_mem_eof_return(c->in, 0);
        return false;
    }
    BIO_write(c->in, data, (int)n);
    return true;
}

/* False: the handshake failed. */
static inline bool client_shake(struct client *c)
{
    for (;;) {
        ERR_clear_error();
        int done = SSL_do_handshake(c->ssl);
        int error = SSL_get_error(c->ssl, done);
        client_send(c);
        if (done == 1)
            return true;
        if (error != SSL_ERROR_WANT_READ || !client_receive(c))
            return false;
    }
}

static inline void client_open(struct client *c, const struct tls_running *t)
{
    client_init(c, t, NULL);
    assert_true(client_shake(c));
}

static inline void client_say(struct client *c, const char *text)
{
    assert_int_equal(SSL_write(c->ssl, text, (int)strlen(text)), (int)strlen(text));
    client_send(c);
}

/* Some plain bytes; 0: the server said that it is done; -1: anything else. */
static inline int client_read(struct client *c, char *to, int size)
{
    for (;;) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, to, size);
        if (n > 0)
            return n;
        int error = SSL_get_error(c->ssl, n);
        client_send(c);
        if (error == SSL_ERROR_ZERO_RETURN)
            return 0;
        if (error != SSL_ERROR_WANT_READ || !client_receive(c))
            return -1;
    }
}

static inline void client_expect(struct client *c, const char *text)
{
    char got[4096] = "";
    int want = (int)strlen(text), have = 0;

    while (have < want) {
        int n = client_read(c, got + have, want - have);
        if (n <= 0)
            fail_msg("expected \"%s\", got \"%s\" and then %d", text, got, n);
        have += n;
    }
    assert_string_equal(got, text);
}

/* An orderly end, with close_notify. */
static inline void client_expect_end(struct client *c)
{
    char byte;

    assert_int_equal(client_read(c, &byte, 1), 0);
}

static inline void client_done(struct client *c)
{
    close(c->fd);
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
}

#endif
