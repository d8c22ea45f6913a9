/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations over TLS, with clients that behave. */
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
    assert_int_equal(rn_server_tls_load(t.r.server, &t.files, NULL), 0);
    rn_server_tls_enable(t.r.server, "local");
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

/* Answers are much longer than questions, and the client reads nothing: the server stops
 * reading, too, and nothing is lost when the client does read. */
static void input_of_a_peer_that_does_not_read_waits(void **state)
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

static void a_paused_connection_is_answered_later_and_goes_on(void **state)
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

static void close_notify_is_sent(void **state)
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
        cmocka_unit_test(input_of_a_peer_that_does_not_read_waits),
        cmocka_unit_test(a_paused_connection_is_answered_later_and_goes_on),
        cmocka_unit_test(a_client_that_half_closes_gets_its_answers),
        cmocka_unit_test(close_notify_is_sent),
        cmocka_unit_test(a_stop_waits_for_a_handshake),
        cmocka_unit_test(the_listener_chooses_the_protocol),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
