/* SPDX-License-Identifier: Apache-2.0 */
/* A server and clients that behave: echo, pipelines, holding, half-closing. */
#include <signal.h>
#include <sys/stat.h>

#include "echo.h"

static void lines_are_echoed_over_tcp(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "hello\n");
    expect(fd, "hello\n");
    say(fd, "again\n");
    expect(fd, "again\n");
    close(fd);
    wait_for(r.seen.closed == 1);
    struct rn_server_counts counts = counts_of(&r, "tcp");
    assert_int_equal(counts.accepted, 1);
    assert_int_equal(counts.open, 0);
    assert_int_equal(counts.bytes_in, 12);
    assert_int_equal(counts.bytes_out, 12);
    stop_server(&r);
}

static void lines_are_echoed_over_a_unix_socket(void **state)
{
    struct running r;
    char path[64], address[80];
    struct stat is;

    (void)state;
    snprintf(path, sizeof path, "/tmp/rn_net_%d.sock", (int)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "local", address);
    start_server(&r);
    assert_string_equal(rn_server_address(r.server, "local"), address);
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0660);
    int fd = dial(&r, "local");
    say(fd, "hello\npeer\n");
    expect(fd, "hello\nunix\n");
    close(fd);
    stop_server(&r);
    assert_int_equal(stat(path, &is), -1); /* the file goes with the server */
}

static void everywhere_is_ipv4_and_ipv6(void **state)
{
    struct running r;
    char address[64];

    (void)state;
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "all", ":0");
    start_server(&r);
    const char *port = strrchr(rn_server_address(r.server, "all"), ':');
    snprintf(address, sizeof address, "127.0.0.1%s", port);
    int fd = try_dial(address);
    assert_true(fd >= 0);
    say(fd, "peer\n");
    expect(fd, "127.0.0.1:");
    close(fd);
    stop_server(&r);
}

static void bytes_may_come_one_by_one(void **state)
{
    struct running r;
    const char *text = "one byte at a time\nand another line\n";

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    for (const char *byte = text; *byte; byte++) {
        say_bytes(fd, byte, 1);
        wait_for(counts_of(&r, "tcp").bytes_in == (uint64_t)(byte + 1 - text));
    }
    expect(fd, text);
    close(fd);
    stop_server(&r);
}

struct pipeline {
    int fd;
    int lines;
};

static void *send_pipeline(void *arg)
{
    struct pipeline *p = arg;
    char *text = malloc((size_t)p->lines * 8), *end = text;

    for (int i = 0; i < p->lines; i++)
        end += sprintf(end, "%07d", i), *end++ = '\n';
    say_bytes(p->fd, text, (size_t)(end - text));
    free(text);
    return NULL;
}

static void pipelines_are_answered_in_order(void **state)
{
    struct running r;
    struct pipeline p = {.lines = 200000};
    pthread_t thread;
    char line[16];

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    p.fd = dial(&r, "tcp");
    pthread_create(&thread, NULL, send_pipeline, &p);
    FILE *answers = fdopen(dup(p.fd), "r");
    for (int i = 0; i < p.lines; i++) {
        assert_non_null(fgets(line, sizeof line, answers));
        assert_int_equal(atoi(line), i);
    }
    pthread_join(thread, NULL);
    fclose(answers);
    close(p.fd);
    stop_server(&r);
}

static void answers_to_one_read_are_one_write(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "a\nb\nc\n");
    expect(fd, "a\nb\nc\n");
    assert_int_equal(r.seen.received, 1);
    close(fd);
    stop_server(&r);
}

static void every_worker_accepts(void **state)
{
    struct running r;
    bool seen[2] = {false, false};

    (void)state;
    start_echo(&r, (struct rn_server_options){.workers = 2});
    for (int i = 0; i < 1000 && !(seen[0] && seen[1]); i++) {
        char answer[3] = "";
        int fd = dial(&r, "tcp");
        say(fd, "where\n");
        assert_int_equal(receive(fd, answer, 2, MSG_WAITALL), 2);
        seen[answer[0] - '0'] = true;
        close(fd);
    }
    assert_true(seen[0] && seen[1]);
    stop_server(&r);
}

static void the_control_loop_has_its_own_listeners(void **state)
{
    struct running r;
    struct ration_error error;

    (void)state;
    prepare_server(&r, (struct rn_server_options){.workers = 3});
    assert_int_equal(rn_server_listen(r.server, "admin", "127.0.0.1:0", RN_ON_CONTROL, &r.protocol,
                                      &r.seen, &error),
                     0);
    start_server(&r);
    for (int i = 0; i < 10; i++) {
        int fd = dial(&r, "admin");
        say(fd, "where\n");
        expect(fd, "3\n");
        close(fd);
    }
    assert_int_equal(rn_server_workers(r.server), 3);
    assert_null(rn_server_address(r.server, "other"));
    stop_server(&r);
}

static void a_paused_connection_is_answered_later_and_goes_on(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "hold 20\nnext\nhold 1\nlast\n");
    expect(fd, "held\nnext\nheld\nlast\n");
    say(fd, "stop 10\n"); /* go_on finds nothing */
    say(fd, "after\n");
    expect(fd, "after\n");
    close(fd);
    stop_server(&r);
}

static void input_while_paused_is_read_later(void **state)
{
    struct running r;
    char answer[8192];
    struct pipeline p = {.lines = 100000};
    pthread_t thread;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    p.fd = dial(&r, "tcp");
    say(p.fd, "hold 100\n");
    pthread_create(&thread, NULL, send_pipeline, &p);
    expect(p.fd, "held\n");
    for (size_t left = (size_t)p.lines * 8; left > 0;) {
        ssize_t n = receive(p.fd, answer, sizeof answer, 0);
        assert_true(n > 0);
        left -= (size_t)n;
    }
    pthread_join(thread, NULL);
    close(p.fd);
    stop_server(&r);
}

static void a_client_that_leaves_while_paused_is_noticed(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int alone = dial(&r, "tcp"), with_more = dial(&r, "tcp");
    say(alone, "hold 3600000\n");
    say(with_more, "hold 3600000\n");
    wait_for(r.seen.received == 2);
    say(with_more, "pipelined\n");
    close(alone);
    close(with_more);
    wait_for(r.seen.closed_held == 2);
    stop_server(&r);
}

static void a_client_that_half_closes_gets_its_answers(void **state)
{
    struct running r;
    struct pipeline p = {.lines = 20000};
    char answer[8192];
    size_t got = 0;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    p.fd = dial(&r, "tcp");
    send_pipeline(&p);
    shutdown(p.fd, SHUT_WR);
    for (ssize_t n = 1; n > 0; got += (size_t)n) {
        n = receive(p.fd, answer, sizeof answer, 0);
        assert_true(n >= 0);
    }
    assert_int_equal(got, (size_t)p.lines * 8);
    close(p.fd);
    stop_server(&r);
}

static void half_a_message_and_an_end_is_just_an_end(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "whole\nhalf");
    shutdown(fd, SHUT_WR);
    expect(fd, "whole\n");
    expect_end(fd);
    close(fd);
    wait_for(r.seen.closed == 1);
    stop_server(&r);
}

static void closing_comes_after_the_last_reply(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "one\nquit\nnot read any more\n");
    expect(fd, "one\nbye\n");
    expect_end(fd);
    close(fd);
    wait_for(counts_of(&r, "tcp").open == 0);
    stop_server(&r);
}

static void signals_arrive_in_the_control_thread(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    kill(getpid(), SIGHUP);
    wait_for(r.hangups == 1);
    kill(getpid(), SIGHUP);
    wait_for(r.hangups == 2);
    assert_false(rn_server_stopping(r.server));
    kill(getpid(), SIGTERM);
    join_server(&r);
    assert_int_equal(r.stops, 1);
}

static void count_tick(void *arg, int64_t now_ns)
{
    assert_true(now_ns > 0);
    ((struct running *)arg)->ticks++;
}

static void the_control_thread_ticks(void **state)
{
    struct running r;

    (void)state;
    prepare_server(&r, (struct rn_server_options){0});
    r.calls.tick = count_tick;
    start_server(&r);
    wait_for(r.ticks >= 3);
    stop_server(&r);
}

static void a_server_that_never_ran_can_be_freed(void **state)
{
    struct running r;

    (void)state;
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "tcp", "127.0.0.1:0");
    rn_server_free(r.server);
    rn_server_free(NULL);
}

static void a_server_can_accept_later(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){.workers = 2, .accept_later = true});
    int fd = dial(&r, "tcp"), other = dial(&r, "tcp");
    say(fd, "early\n");
    assert_int_equal(counts_of(&r, "tcp").accepted, 0);
    rn_server_accept(r.server);
    expect(fd, "early\n");
    say(other, "as well\n");
    expect(other, "as well\n");
    close(fd);
    close(other);
    stop_server(&r);
}

static void a_server_that_has_not_accepted_can_be_stopped(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){.accept_later = true});
    stop_server(&r);
    assert_int_equal(r.stops, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_can_accept_later),
        cmocka_unit_test(a_server_that_has_not_accepted_can_be_stopped),
        cmocka_unit_test(lines_are_echoed_over_tcp),
        cmocka_unit_test(lines_are_echoed_over_a_unix_socket),
        cmocka_unit_test(everywhere_is_ipv4_and_ipv6),
        cmocka_unit_test(bytes_may_come_one_by_one),
        cmocka_unit_test(pipelines_are_answered_in_order),
        cmocka_unit_test(answers_to_one_read_are_one_write),
        cmocka_unit_test(every_worker_accepts),
        cmocka_unit_test(the_control_loop_has_its_own_listeners),
        cmocka_unit_test(a_paused_connection_is_answered_later_and_goes_on),
        cmocka_unit_test(input_while_paused_is_read_later),
        cmocka_unit_test(a_client_that_leaves_while_paused_is_noticed),
        cmocka_unit_test(a_client_that_half_closes_gets_its_answers),
        cmocka_unit_test(half_a_message_and_an_end_is_just_an_end),
        cmocka_unit_test(closing_comes_after_the_last_reply),
        cmocka_unit_test(signals_arrive_in_the_control_thread),
        cmocka_unit_test(the_control_thread_ticks),
        cmocka_unit_test(a_server_that_never_ran_can_be_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
