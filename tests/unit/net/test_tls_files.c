/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates: those that cannot be used, those of clients, and changing them. */
#include <signal.h>
#include <sys/stat.h>

#include "tls_client.h"

/* --- reading -------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    fputs(text, file);
    fclose(file);
}

/* The message, with the directory taken out. */
static void assert_refused(const struct folder *folder, const struct rn_tls_files *files,
                           const char *expected)
{
    struct ration_error error;
    struct rn_tls *tls;
    char text[sizeof error.text], *at = text;

    assert_int_equal(rn_tls_new(files, &tls, &error), RATION_EIO);
    assert_int_equal(ERR_peek_error(), 0);
    strcpy(text, error.text);
    while ((at = strstr(at, folder->path)))
        memmove(at, at + strlen(folder->path), strlen(at + strlen(folder->path)) + 1);
    assert_string_equal(text, expected);
}

static void errors_in_files_are_explained(void **state)
{
    struct folder folder;
    struct identity one = make_identity(NULL, "one", NULL, 30);
    struct identity other = make_identity(NULL, "other", NULL, 30);

    (void)state;
    make_folder(&folder);
    struct rn_tls_files files = {.cert = folder.cert, .key = folder.key};
    assert_refused(&folder, &files, "cannot read /cert.pem: No such file or directory");
    write_text(folder.cert, "not a certificate\n");
    assert_refused(&folder, &files, "cannot read /key.pem: No such file or directory");
    write_text(folder.key, "");
    assert_refused(&folder, &files, "/cert.pem is not a certificate in PEM (no start line)");
    write_cert(folder.cert, one.cert);
    assert_refused(&folder, &files, "/key.pem is not a private key in PEM (unsupported)");
    write_key(folder.key, other.key, NULL);
    assert_refused(&folder, &files, "/key.pem is not the key of the certificate in /cert.pem");
    write_key(folder.key, one.key, "secret");
    assert_refused(&folder, &files,
                   "/key.pem is encrypted, and a daemon cannot ask for its password; store the key "
                   "unencrypted, readable only by the daemon's user");
    write_key(folder.key, one.key, NULL);
    files.client_ca = folder.ca;
    assert_refused(&folder, &files, "cannot read /ca.pem: No such file or directory");
    write_text(folder.ca, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert_int_equal(rn_tls_new(&files, &(struct rn_tls *){NULL}, NULL), RATION_EIO);
    free_identity(&one);
    free_identity(&other);
    remove_folder(&folder);
}

static void the_expiry_of_a_certificate_is_known(void **state)
{
    struct folder folder;
    struct identity good = make_identity(NULL, "good", NULL, 30);
    struct identity ended = make_identity(NULL, "ended", NULL, 0);
    struct rn_tls *tls;

    (void)state;
    make_folder(&folder);
    struct rn_tls_files files = {.cert = folder.cert, .key = folder.key};
    write_identity(&folder, &good);
    assert_int_equal(rn_tls_new(&files, &tls, NULL), 0);
    assert_false(rn_tls_is_outdated(tls));
    assert_int_equal(strlen(rn_tls_ends(tls)), strlen("2026-12-14T12:00:00Z"));
    rn_tls_unref(tls);
    ASN1_TIME_set_string_X509(X509_getm_notAfter(ended.cert), "20260102030405Z");
    X509_sign(ended.cert, ended.key, EVP_sha256());
    write_identity(&folder, &ended);
    assert_int_equal(rn_tls_new(&files, &tls, NULL), 0);
    assert_true(rn_tls_is_outdated(tls));
    assert_string_equal(rn_tls_ends(tls), "2026-01-02T03:04:05Z");
    rn_tls_unref(tls);
    free_identity(&good);
    free_identity(&ended);
    remove_folder(&folder);
}

/* --- certificates of clients ---------------------------------------------------- */

/* "accepted: NAMES", or the reason that the client gets. */
static void knock(const struct tls_running *t, const struct identity *identity, int version,
                  char *answer, size_t size)
{
    struct client c;
    bool refused = true;

    client_init(&c, t, identity);
    SSL_set_max_proto_version(c.ssl, version);
    if (client_shake(&c)) { /* with 1.3 the client learns of the refusal when it reads */
        client_say(&c, "cert\n");
        strcpy(answer, "accepted: ");
        int n = client_read(&c, answer + 10, (int)size - 11);
        refused = n <= 0;
        answer[10 + (refused ? 0 : n - 1)] = '\0';
    }
    if (refused)
        snprintf(answer, size, "%s", ERR_reason_error_string(ERR_peek_error()));
    client_done(&c);
}

static void assert_knock(const struct tls_running *t, const struct identity *identity,
                         const char *expected)
{
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        char answer[256];
        const char *missing =
            version == TLS1_2_VERSION ? "alert handshake failure" : "alert certificate required";
        const char *found;

        knock(t, identity, version, answer, sizeof answer);
        if (expected) {
            assert_string_equal(answer, expected);
            continue;
        }
        found = strstr(answer, "alert "); /* what is before differs between versions of OpenSSL */
        assert_non_null(found);
        assert_string_equal(found, missing);
    }
}

static void prepare_mutual(struct tls_running *t)
{
    prepare_tls(t);
    t->files.client_ca = t->folder.ca;
    start_tls(t);
}

static void clients_are_known_by_their_certificate(void **state)
{
    struct tls_running t;

    (void)state;
    prepare_mutual(&t);
    struct identity alice = make_identity(&t.authority, "alice", NULL, 30);
    struct identity many = make_identity(&t.authority, "many names",
                                         "DNS:a.example,URI:spiffe://x/y,email:m@a.example", 30);
    struct identity sly = make_identity(&t.authority, "x,DNS:root\\", NULL, 30);
    assert_knock(&t, &alice, "accepted: CN:alice");
    assert_knock(&t, &many,
                 "accepted: CN:many\\x20names,DNS:a.example,URI:spiffe://x/y,EMAIL:m@a.example");
    assert_knock(&t, &sly, "accepted: CN:x\\x2cDNS:root\\x5c");
    free_identity(&alice);
    free_identity(&many);
    free_identity(&sly);
    stop_tls(&t);
}

static void clients_of_other_authorities_are_refused(void **state)
{
    struct tls_running t;

    (void)state;
    prepare_mutual(&t);
    struct identity false_authority = make_identity(NULL, "authority", NULL, 30);
    struct identity forged = make_identity(&false_authority, "alice", NULL, 30);
    struct identity self = make_identity(NULL, "alice", NULL, 30);
    struct identity late = make_identity(&t.authority, "alice", NULL, 0);
    assert_knock(&t, NULL, NULL);
    assert_knock(&t, &forged, "tlsv1 alert decrypt error");
    assert_knock(&t, &self, "tlsv1 alert unknown ca");
    assert_knock(&t, &late, "sslv3 alert certificate expired");
    assert_int_equal(t.r.seen.opened, 0);
    wait_for(counts_of(&t.r, "tcp").open == 0);
    free_identity(&false_authority);
    free_identity(&forged);
    free_identity(&self);
    free_identity(&late);
    stop_tls(&t);
}

/* Whether a second connection may go on with the session of the first. */
static bool resumes(const struct tls_running *t, const struct identity *identity)
{
    struct client first, second;

    client_init(&first, t, identity);
    assert_true(client_shake(&first));
    client_say(&first, "hello\n");
    client_expect(&first, "hello\n"); /* and the ticket came before it */
    SSL_SESSION *session = SSL_get1_session(first.ssl);
    client_init(&second, t, identity);
    SSL_set_session(second.ssl, session);
    assert_true(client_shake(&second));
    client_say(&second, "hello\n");
    client_expect(&second, "hello\n");
    bool resumed = SSL_session_reused(second.ssl);
    SSL_SESSION_free(session);
    client_done(&first);
    client_done(&second);
    return resumed;
}

static void sessions_are_resumed_unless_clients_are_verified(void **state)
{
    struct tls_running t;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    assert_true(resumes(&t, NULL));
    stop_tls(&t);

    prepare_mutual(&t);
    struct identity alice = make_identity(&t.authority, "alice", NULL, 30);
    assert_false(resumes(&t, &alice));
    free_identity(&alice);
    stop_tls(&t);
}

/* --- another certificate -------------------------------------------------------- */

static void reload_at_hangup(void *arg)
{
    struct running *r = arg;

    r->result = rn_server_tls_reload(r->server);
    r->hangups++;
}

static bool reload_by_signal(struct running *r)
{
    int before = r->hangups;

    kill(getpid(), SIGHUP);
    wait_for(r->hangups > before);
    return r->result;
}

/* The name in the certificate that a new connection is shown. */
static void ask_name(const struct tls_running *t, char name[64])
{
    struct client c;

    client_open(&c, t);
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(c.ssl)),
                              NID_commonName, name, 64);
    client_done(&c);
}

static bool is_shown(const struct tls_running *t, const char *expected)
{
    char name[64] = "";

    ask_name(t, name);
    return strcmp(name, expected) == 0;
}

static void a_new_certificate_is_for_new_connections(void **state)
{
    struct tls_running t;
    struct client old;

    (void)state;
    prepare_tls(&t);
    t.r.calls.hangup = reload_at_hangup;
    start_tls(&t);
    struct identity next = make_identity(&t.authority, "next", "DNS:localhost", 30);
    client_open(&old, &t);
    write_identity(&t.folder, &next);
    assert_true(reload_by_signal(&t.r));
    assert_true(is_shown(&t, "next"));
    client_say(&old, "hello\n");
    client_expect(&old, "hello\n");

    write_key(t.folder.key, t.server.key, NULL); /* that of the former */
    assert_false(reload_by_signal(&t.r));
    assert_true(is_shown(&t, "next"));
    write_text(t.folder.cert, "half a fi");
    assert_false(reload_by_signal(&t.r));
    assert_true(is_shown(&t, "next"));
    unlink(t.folder.cert);
    assert_false(reload_by_signal(&t.r));
    assert_true(is_shown(&t, "next"));

    write_identity(&t.folder, &t.server);
    assert_true(reload_by_signal(&t.r));
    assert_true(is_shown(&t, "server"));
    client_say(&old, "again\n");
    client_expect(&old, "again\n");
    client_done(&old);
    t.r.result = 0;
    free_identity(&next);
    stop_tls(&t);
}

static void changed_files_are_noticed(void **state)
{
    struct tls_running t;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    struct identity next = make_identity(&t.authority, "next", "DNS:localhost", 30);
    assert_true(is_shown(&t, "server"));
    write_key(t.folder.key, next.key, NULL); /* for a while the two do not fit */
    assert_true(is_shown(&t, "server"));
    write_cert(t.folder.cert, next.cert);
    wait_for(is_shown(&t, "next"));
    free_identity(&next);
    stop_tls(&t);
}

struct caller {
    const struct tls_running *t;
    _Atomic bool stop;
    _Atomic int calls;
    pthread_t thread;
};

static void *call_again_and_again(void *arg)
{
    struct caller *caller = arg;

    while (!caller->stop) {
        struct client c;
        client_open(&c, caller->t);
        client_say(&c, "hello\n");
        client_expect(&c, "hello\n");
        client_done(&c);
        caller->calls++;
    }
    return NULL;
}

static void no_client_is_refused_while_certificates_change(void **state)
{
    struct tls_running t;
    struct caller callers[2];

    (void)state;
    prepare_tls(&t);
    t.r.calls.hangup = reload_at_hangup;
    start_tls(&t);
    for (int i = 0; i < 2; i++) {
        callers[i] = (struct caller){.t = &t};
        pthread_create(&callers[i].thread, NULL, call_again_and_again, &callers[i]);
    }
    for (int i = 0; i < 50; i++)
        assert_true(reload_by_signal(&t.r));
    wait_for(callers[0].calls > 20 && callers[1].calls > 20);
    for (int i = 0; i < 2; i++) {
        callers[i].stop = true;
        pthread_join(callers[i].thread, NULL);
    }
    t.r.result = 0;
    stop_tls(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_in_files_are_explained),
        cmocka_unit_test(the_expiry_of_a_certificate_is_known),
        cmocka_unit_test(clients_are_known_by_their_certificate),
        cmocka_unit_test(clients_of_other_authorities_are_refused),
        cmocka_unit_test(sessions_are_resumed_unless_clients_are_verified),
        cmocka_unit_test(a_new_certificate_is_for_new_connections),
        cmocka_unit_test(changed_files_are_noticed),
        cmocka_unit_test(no_client_is_refused_while_certificates_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
