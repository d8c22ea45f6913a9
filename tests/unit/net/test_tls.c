/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations over TLS, with clients that behave and others. */
#include <malloc.h>

#include "tls_client.h"

static void echo_with_version(int version, bool only_13)
{
    struct tls_running t;
    struct client c;

    prepare_tls(&t);
    t.files.only_13 = only_13;
    start_tls(&t);
    client_init(&c, &t, NULL);
    SSL_set_max_proto_version(c.ssl, version);
    assert_true(client_shake(&c));
    assert_int_equal(SSL_version(c.ssl), version);
    client_say(&c, "hello\n");
    client_expect(&c, "hello\n");
    client_say(&c, "one\ntwo\ncert\n");
    client_expect(&c, "one\ntwo\nnone\n");
    client_say(&c, "peer\n");
    client_expect(&c, "127.0.0.1:");
    client_done(&c);
    wait_for(t.r.seen.closed == 1);
    stop_tls(&t);
}

static void lines_are_echoed_over_tls_1_3(void **state)
{
    (void)state;
    echo_with_version(TLS1_3_VERSION, false);
    echo_with_version(TLS1_3_VERSION, true);
}

static void lines_are_echoed_over_tls_1_2(void **state)
{
    (void)state;
    echo_with_version(TLS1_2_VERSION, false);
}

static void tls_1_2_can_be_ruled_out(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    t.files.only_13 = true;
    start_tls(&t);
    client_init(&c, &t, NULL);
    SSL_set_max_proto_version(c.ssl, TLS1_2_VERSION);
    assert_false(client_shake(&c));
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
    assert_int_equal(t.r.seen.opened, 0);
    client_done(&c);
    stop_tls(&t);
}

static void a_unix_socket_stays_plain(void **state)
{
    struct tls_running t;
    char address[96];

    (void)state;
    prepare_tls(&t);
    snprintf(address, sizeof address, "unix:%s/sock", t.folder.path);
    listen_on(&t.r, "local", address);
    assert_int_equal(rn_server_tls(t.r.server, &t.files, NULL), 0);
    rn_server_secure(t.r.server, "local");
    start_server(&t.r);
    int fd = dial(&t.r, "local");
    say(fd, "hello\n");
    expect(fd, "hello\n");
    close(fd);
    stop_tls(&t);
}

static void records_may_come_byte_by_byte(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        client_init(&c, &t, NULL);
        SSL_set_max_proto_version(c.ssl, version);
        c.piece = 1;
        assert_true(client_shake(&c));
        client_say(&c, "one byte at a time\nand another line\n");
        client_expect(&c, "one byte at a time\nand another line\n");
        client_done(&c);
    }
    stop_tls(&t);
}

/* Records of all sizes up to the largest, in pieces that end anywhere. */
static void pipelines_are_answered_in_order(void **state)
{
    enum { LINES = 20000, WIDTH = 8 };
    struct tls_running t;
    struct client c;
    static char text[LINES * WIDTH + 1], got[LINES * WIDTH];

    (void)state;
    for (int i = 0; i < LINES; i++)
        snprintf(text + i * WIDTH, WIDTH + 1, "%07d\n", i);
    prepare_tls(&t);
    start_tls(&t);
    for (size_t piece = 0; piece < 50000; piece = piece * 3 + 101) {
        client_open(&c, &t);
        c.piece = piece;
        for (size_t at = 0, size = 1; at < sizeof text - 1; at += size, size = size * 2 % 32749) {
            size_t left = sizeof text - 1 - at;
            size = size < left ? size : left;
            assert_int_equal(SSL_write(c.ssl, text + at, (int)size), (int)size);
        }
        client_send(&c);
        for (int have = 0, n; have < (int)sizeof got; have += n) {
            n = client_read(&c, got + have, (int)sizeof got - have);
            assert_true(n > 0);
        }
        assert_memory_equal(got, text, sizeof got);
        client_done(&c);
    }
    stop_tls(&t);
}

static void a_slow_reader_gets_a_huge_answer(void **state)
{
    enum { SIZE = 6000000 };
    struct tls_running t;
    struct client c;
    static char part[1501];
    int got = 0, n = 0;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&c, &t);
    setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &(int){65536}, sizeof(int));
    client_say(&c, "big 6000000\nafter\n");
    wait_for(t.r.seen.received >= 1);
    while (got < SIZE) {
        n = client_read(&c, part, SIZE - got < 1500 ? SIZE - got : 1500);
        assert_true(n > 0);
        got += n;
        part[n] = '\0';
        assert_int_equal(strspn(part, "x"), got < SIZE ? n : n - 1);
    }
    assert_int_equal(part[n - 1], '\n');
    client_expect(&c, "after\n");
    client_done(&c);
    stop_tls(&t);
}

/* Answers are much longer than questions, and nobody reads: the server stops
 * reading, too, and nothing is lost when the client does read. */
static void who_does_not_read_is_not_read(void **state)
{
    struct tls_running t;
    struct client c;
    char part[8192];
    int64_t left = INT64_C(60) * 200000;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&c, &t);
    for (int i = 0; i < 60; i++)
        client_say(&c, "big 200000\n");
    while (left > 0) {
        int n = client_read(&c, part, sizeof part);
        assert_true(n > 0);
        left -= n;
    }
    assert_int_equal(left, 0);
    client_done(&c);
    stop_tls(&t);
}

static void a_held_connection_is_answered_later_and_goes_on(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&c, &t);
    client_say(&c, "hold 20\nnext\nhold 1\n");
    client_say(&c, "last\n");
    client_expect(&c, "held\nnext\nheld\nlast\n");
    client_say(&c, "hold 3600000\n");
    wait_for(t.r.seen.received >= 2);
    client_done(&c);
    wait_for(t.r.seen.closed_held == 1);
    stop_tls(&t);
}

static void a_client_that_half_closes_gets_its_answers(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&c, &t);
    client_say(&c, "hello\nbig 300\n");
    client_say(&c, "last\nhal");
    SSL_shutdown(c.ssl); /* close_notify: the client says nothing more, and reads on */
    client_send(&c);
    client_expect(&c, "hello\nxxxx");
    for (char byte = 'x'; byte == 'x';)
        assert_int_equal(client_read(&c, &byte, 1), 1);
    client_expect(&c, "last\n");
    client_expect_end(&c);
    client_done(&c);

    client_open(&c, &t); /* without close_notify: whole messages count all the same */
    client_say(&c, "hello\nhal");
    shutdown(c.fd, SHUT_WR);
    client_expect(&c, "hello\n");
    client_expect_end(&c);
    client_done(&c);
    wait_for(t.r.seen.closed == 2);
    stop_tls(&t);
}

static void the_end_is_announced(void **state)
{
    struct tls_running t;
    struct client quits, waits;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&quits, &t);
    client_say(&quits, "quit\nunread\n");
    client_expect(&quits, "bye\n");
    client_expect_end(&quits);
    client_done(&quits);
    client_open(&waits, &t);
    client_say(&waits, "hello\n");
    client_expect(&waits, "hello\n");
    rn_server_stop(t.r.server);
    client_expect(&waits, "draining\n");
    client_expect_end(&waits);
    client_done(&waits);
    stop_tls(&t);
}

/* Who has begun to shake hands may finish. */
static void a_stop_waits_for_a_handshake(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    int silent = dial(&t.r, "tcp");
    client_init(&c, &t, NULL);
    SSL_do_handshake(c.ssl);
    client_send(&c);
    wait_for(counts_of(&t.r, "tcp").bytes_in > 0);
    rn_server_stop(t.r.server);
    expect_end(silent); /* by now the stop is under way */
    assert_true(client_shake(&c));
    client_expect(&c, "draining\n");
    client_expect_end(&c);
    close(silent);
    client_done(&c);
    stop_tls(&t);
}

/* --- those who do not behave ---------------------------------------------------- */

static void a_handshake_that_never_ends_is_cut(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    t.r.protocol.message_ns = 200 * MS;
    start_tls(&t);
    int silent = dial(&t.r, "tcp"), half = dial(&t.r, "tcp");
    say_bytes(half, "\x16\x03\x01\x02\x00\x01\x00", 7);
    client_init(&c, &t, NULL); /* leaves after the server's answer */
    SSL_do_handshake(c.ssl);
    client_send(&c);
    while (client_receive(&c))
        ;
    expect_end(silent);
    expect_end(half);
    wait_for(counts_of(&t.r, "tcp").open == 0);
    assert_int_equal(counts_of(&t.r, "tcp").timed_out, 3);
    assert_int_equal(t.r.seen.opened, 0);
    assert_int_equal(t.r.seen.limited[RN_CONN_TOO_SLOW], 0);
    close(silent);
    close(half);
    client_done(&c);
    stop_tls(&t);
}

/* A record that trickles in is a message that trickles in, whatever its length,
 * also while the protocol has not seen a byte of it. */
static void half_a_record_is_half_a_message(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    t.r.protocol.message_ns = 200 * MS;
    start_tls(&t);
    for (size_t bytes = 1; bytes <= 9; bytes += 4) { /* of the head; just the head; of the body */
        client_open(&c, &t);
        SSL_write(c.ssl, "whole\n", 6);
        BIO_write(c.out, "\x17\x03\x03\x40\x00zzzz", (int)bytes); /* at once, behind it */
        client_send(&c);
        client_expect(&c, "whole\ntoo slow\n");
        client_expect_end(&c);
        client_done(&c);
    }
    assert_int_equal(counts_of(&t.r, "tcp").timed_out, 3);
    stop_tls(&t);
}

static void idle_connections_are_not_slow(void **state)
{
    struct tls_running t;
    struct client c;

    (void)state;
    prepare_tls(&t);
    t.r.protocol.message_ns = 200 * MS;
    t.r.protocol.idle_ns = 1000 * MS;
    start_tls(&t);
    client_open(&c, &t);
    client_expect(&c, "idle\n");
    client_expect_end(&c);
    client_done(&c);
    stop_tls(&t);
}

static void expect_alert_and_end(int fd)
{
    static const char alert[] = {21, 3, 1, 0, 2, 2, 10};
    char got[sizeof alert + 1];

    assert_int_equal(recv(fd, got, sizeof alert, MSG_WAITALL), sizeof alert);
    assert_memory_equal(got, alert, sizeof alert);
    assert_int_equal(recv(fd, got, 1, 0), 0); /* not a reset */
}

static void plain_text_is_answered_with_an_alert(void **state)
{
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PING\r\n",
                                        "*1\r\n$4\r\nPING\r\n", "CONNECT a:1 HTTP/1.1\r\n\r\n"};
    struct tls_running t;
    static char much[200000]; /* more than the server reads at once */

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    memset(much, 'm', sizeof much);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int fd = dial(&t.r, "tcp");
        memcpy(much, texts[i], strlen(texts[i]));
        say_bytes(fd, much, sizeof much);
        expect_alert_and_end(fd);
        close(fd);
    }
    assert_int_equal(t.r.seen.opened, 0);
    wait_for(counts_of(&t.r, "tcp").open == 0);
    stop_tls(&t);
}

static void a_damaged_record_ends_the_connection(void **state)
{
    struct tls_running t;
    struct client c;
    char *data, byte;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&c, &t);
    client_say(&c, "half a line");
    wait_for(t.r.seen.received == 1);
    SSL_write(c.ssl, "hello\n", 6);
    size_t len = (size_t)BIO_get_mem_data(c.out, &data);
    data[len - 1] ^= 1;
    client_send(&c);
    assert_int_equal(client_read(&c, &byte, 1), -1);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
    wait_for(t.r.seen.closed == 1);
    assert_int_equal(t.r.seen.received, 1);
    client_done(&c);
    stop_tls(&t);
}

static void renegotiation_is_refused(void **state)
{
    struct tls_running t;
    struct client c;
    char byte;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_init(&c, &t, NULL);
    SSL_set_max_proto_version(c.ssl, TLS1_2_VERSION);
    assert_true(client_shake(&c));
    SSL_renegotiate(c.ssl);
    SSL_do_handshake(c.ssl);
    client_send(&c);
    assert_int_equal(client_read(&c, &byte, 1), -1);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    client_done(&c);
    stop_tls(&t);
}

/* Each asks for an answer; nobody reads them. */
static void a_flood_of_key_updates_is_survived(void **state)
{
    struct tls_running t;
    struct client c, other;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    client_open(&c, &t);
    client_say(&c, "hello\n");
    client_expect(&c, "hello\n");
    for (int i = 0; i < 3000; i++) {
        SSL_key_update(c.ssl, SSL_KEY_UPDATE_REQUESTED);
        SSL_do_handshake(c.ssl);
    }
    client_say(&c, "still\n");
    client_expect(&c, "still\n");
    client_open(&other, &t);
    client_say(&other, "hello\n");
    client_expect(&other, "hello\n");
    client_done(&other);
    client_done(&c);
    stop_tls(&t);
}

/* --- what is agreed upon -------------------------------------------------------- */

static bool shakes_with_alpn(const struct tls_running *t, const char *offered, char chosen[16])
{
    struct client c;
    const unsigned char *name;
    unsigned len;

    client_init(&c, t, NULL);
    if (offered)
        SSL_set_alpn_protos(c.ssl, (const unsigned char *)offered, (unsigned)strlen(offered));
    bool ok = client_shake(&c);
    SSL_get0_alpn_selected(c.ssl, &name, &len);
    snprintf(chosen, 16, "%.*s", (int)len, name ? (const char *)name : "");
    client_done(&c);
    return ok;
}

static void the_listener_chooses_the_protocol(void **state)
{
    struct tls_running t;
    char chosen[16];

    (void)state;
    prepare_tls(&t);
    t.r.protocol.alpn = "h2";
    start_tls(&t);
    assert_true(shakes_with_alpn(&t, "\x08http/1.1\x02h2", chosen));
    assert_string_equal(chosen, "h2");
    assert_true(shakes_with_alpn(&t, NULL, chosen));
    assert_string_equal(chosen, "");
    assert_false(shakes_with_alpn(&t, "\x08http/1.1\x03h2c", chosen));
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
    stop_tls(&t);

    prepare_tls(&t);
    start_tls(&t);
    assert_true(shakes_with_alpn(&t, "\x08http/1.1\x02h2", chosen));
    assert_string_equal(chosen, "");
    stop_tls(&t);
}

/* --- memory --------------------------------------------------------------------- */

#define CROWD 200

static size_t allocated(void)
{
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* Under sanitizers allocations are not counted, and nothing is checked here. What
 * the clients have allocated is freed before anything is measured. */
static void an_idle_connection_has_no_buffers(void **state)
{
    struct tls_running t;
    struct client c;
    static int fds[CROWD];
    size_t start = 0;

    (void)state;
    prepare_tls(&t);
    start_tls(&t);
    for (int i = -1; i < CROWD; i++) { /* the first makes what all share */
        client_open(&c, &t);
        client_say(&c, "hello\n");
        client_expect(&c, "hello\n");
        int fd = dup(c.fd);
        client_done(&c);
        if (i < 0) {
            close(fd);
            wait_for(t.r.seen.closed == 1);
            start = allocated();
        } else {
            fds[i] = fd;
        }
    }
    size_t each = (allocated() - start) / CROWD;
    print_message("# bytes of an idle TLS connection: %zu\n", each);
    assert_true(allocated() < start || each < 24 << 10);
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    stop_tls(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_echoed_over_tls_1_3),
        cmocka_unit_test(lines_are_echoed_over_tls_1_2),
        cmocka_unit_test(tls_1_2_can_be_ruled_out),
        cmocka_unit_test(a_unix_socket_stays_plain),
        cmocka_unit_test(records_may_come_byte_by_byte),
        cmocka_unit_test(pipelines_are_answered_in_order),
        cmocka_unit_test(a_slow_reader_gets_a_huge_answer),
        cmocka_unit_test(who_does_not_read_is_not_read),
        cmocka_unit_test(a_held_connection_is_answered_later_and_goes_on),
        cmocka_unit_test(a_client_that_half_closes_gets_its_answers),
        cmocka_unit_test(the_end_is_announced),
        cmocka_unit_test(a_stop_waits_for_a_handshake),
        cmocka_unit_test(a_handshake_that_never_ends_is_cut),
        cmocka_unit_test(half_a_record_is_half_a_message),
        cmocka_unit_test(idle_connections_are_not_slow),
        cmocka_unit_test(plain_text_is_answered_with_an_alert),
        cmocka_unit_test(a_damaged_record_ends_the_connection),
        cmocka_unit_test(renegotiation_is_refused),
        cmocka_unit_test(a_flood_of_key_updates_is_survived),
        cmocka_unit_test(the_listener_chooses_the_protocol),
        cmocka_unit_test(an_idle_connection_has_no_buffers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
