/* SPDX-License-Identifier: Apache-2.0 */
/* A server and clients that do not behave: slow, silent, greedy, too many. */
#include <fcntl.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <time.h>

#include "echo.h"

/* A server whose protocol is changed before it starts. */
static void start_with(struct running *r, struct rn_server_options options, int64_t idle_ms,
                       int64_t message_ms, int64_t stall_ms)
{
    prepare_server(r, options);
    r->protocol.idle_ns = idle_ms * MS;
    r->protocol.message_ns = message_ms * MS;
    r->protocol.stall_ns = stall_ms * MS;
    listen_on(r, "tcp", "127.0.0.1:0");
    start_server(r);
}

static void a_silent_connection_is_closed(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 500, 0, 0);
    int silent = dial(&r, "tcp"), fd = dial(&r, "tcp");
    say(fd, "hello\n");
    expect(fd, "hello\nidle\n");
    expect_end(fd);
    expect(silent, "idle\n");
    expect_end(silent);
    assert_int_equal(r.seen.limited[RN_CONN_IDLE], 2);
    assert_int_equal(counts_of(&r, "tcp").timed_out, 0);
    close(fd);
    close(silent);
    stop_server(&r);
}

static void a_connection_that_sends_now_and_then_stays_open(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 2000, 0, 0);
    int fd = dial(&r, "tcp");
    for (int i = 0; i < 30; i++) { /* a second, and never 2 s between two lines */
        say(fd, "hello\n");
        expect(fd, "hello\n");
        usleep(30000);
    }
    assert_int_equal(r.seen.limited[RN_CONN_IDLE], 0);
    close(fd);
    stop_server(&r);
}

/* Bytes that trickle do not help: what counts is the first. */
static void a_slow_message_is_cut(void **state)
{
    struct running r;
    int i = 0;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 100, 0);
    int fd = dial(&r, "tcp");
    say(fd, "quick\n");
    expect(fd, "quick\n");
    while (deliver(fd, "s", 1, 0) == 1 && r.seen.closed == 0 && i++ < HANG_MS / 5)
        usleep(5000);
    assert_true(i < HANG_MS / 5);
    expect(fd, "too slow\n");
    expect_end(fd);
    assert_int_equal(counts_of(&r, "tcp").timed_out, 1);
    close(fd);
    stop_server(&r);
}

/* The time a connection was held is not the peer's. */
static void a_paused_connection_does_not_time_out(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 400, 400, 0);
    int fd = dial(&r, "tcp");
    say(fd, "hold 1200\nhello\nhal");
    expect(fd, "held\nhello\n");
    expect(fd, "too slow\n");
    close(fd);
    stop_server(&r);
}

static void a_message_without_end_is_cut(void **state)
{
    struct running r;
    char text[8192];

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 0, 0);
    int fd = dial(&r, "tcp");
    memset(text, 'l', sizeof text);
    say_bytes(fd, text, 4095);
    wait_for(counts_of(&r, "tcp").bytes_in == 4095);
    assert_int_equal(r.seen.limited[RN_CONN_TOO_LONG], 0);
    say_bytes(fd, text, sizeof text);
    expect(fd, "too long\n");
    expect_end(fd);
    assert_int_equal(counts_of(&r, "tcp").too_long, 1);
    close(fd);
    stop_server(&r);
}

/* The peer goes on sending, and gets the last words all the same. */
static void the_last_reply_arrives_although_the_peer_still_sends(void **state)
{
    struct running r;
    char text[65536];

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 0, 0);
    int fd = dial(&r, "tcp");
    memset(text, 'l', sizeof text);
    for (int i = 0; i < 16; i++)
        if (deliver(fd, text, sizeof text, 0) < 0)
            fail_msg("the connection was reset");
    expect(fd, "too long\n");
    assert_int_equal(receive(fd, text, 1, 0), 0); /* an orderly end */
    close(fd);
    wait_for(counts_of(&r, "tcp").open == 0);
    stop_server(&r);
}

/* Sends until the server reads nothing for a while; returns how much. */
static size_t stuff(int fd, const char *line)
{
    size_t len = strlen(line), total = 0, part = 0;
    int quiet = 0;

    while (quiet < 100) {
        ssize_t n = deliver(fd, line + part, len - part, MSG_DONTWAIT);
        if (n <= 0) {
            usleep(2000);
            quiet++;
            continue;
        }
        quiet = 0;
        part = (part + (size_t)n) % len;
        total += (size_t)n;
    }
    return total;
}

static void input_of_a_peer_that_does_not_read_waits(void **state)
{
    struct running r;
    static char line[1000];

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 0, 0);
    int fd = dial(&r, "tcp");
    memset(line, 'a', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    size_t sent = stuff(fd, line), whole = sent / strlen(line) * strlen(line), got = 0;
    uint64_t taken = counts_of(&r, "tcp").bytes_in;
    assert_true(taken < sent);
    /* Answers that wait in the server: no more than the mark and one buffer of input. */
    assert_true(taken - counts_of(&r, "tcp").bytes_out <
                RN_CONN_FULL_BYTES + 2 * ((size_t)64 << 10));
    while (got < whole) { /* and then everything is answered */
        char answer[65536];
        ssize_t n = receive(fd, answer, sizeof answer, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_int_equal(got, whole);
    close(fd);
    stop_server(&r);
}

static void a_peer_that_reads_nothing_for_too_long_is_cut(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 0, 200);
    int fd = dial(&r, "tcp");
    stuff(fd, "big 200000\n");
    wait_for(r.seen.closed == 1);
    assert_int_equal(counts_of(&r, "tcp").timed_out, 1);
    close(fd);
    stop_server(&r);
}

static void output_has_a_hard_limit(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 0, 0);
    int fd = dial(&r, "tcp");
    say(fd, "big 40000000\n"); /* more than kernels buffer, and 8 MiB */
    wait_for(r.seen.closed == 1);
    close(fd);
    stop_server(&r);
}

static void a_large_answer_reaches_a_peer_that_reads(void **state)
{
    struct running r;
    static char answer[1 << 16];
    size_t got = 0, size = 7000000;

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 0, 0, 0);
    int fd = dial(&r, "tcp");
    say(fd, "big 7000000\nafter\n");
    while (got < size) {
        ssize_t n = receive(fd, answer, size - got < sizeof answer ? size - got : sizeof answer, 0);
        assert_true(n > 0);
        got += (size_t)n;
    }
    expect(fd, "after\n");
    close(fd);
    stop_server(&r);
}

static void connections_beyond_the_cap_are_refused(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){.connections_max = 2}, 0, 0, 0);
    int a = dial(&r, "tcp"), b = dial(&r, "tcp");
    say(a, "a\nstop 60000\n");
    expect(a, "a\n");
    say(b, "b\nstop 60000\n");
    expect(b, "b\n");
    int c = dial(&r, "tcp"); /* both of the others are owed an answer */
    expect_end(c);
    assert_int_equal(counts_of(&r, "tcp").refused, 1);
    assert_int_equal(counts_of(&r, "tcp").crowded, 0);
    assert_int_equal(counts_of(&r, "tcp").open, 2);
    close(a);
    wait_for(counts_of(&r, "tcp").open == 1);
    close(c);
    c = dial(&r, "tcp");
    say(c, "c\n");
    expect(c, "c\n");
    close(b);
    close(c);
    stop_server(&r);
}

static void the_quietest_connection_makes_room(void **state)
{
    struct running r;
    int fds[3];

    (void)state;
    start_with(&r, (struct rn_server_options){.workers = 1, .connections_max = 3}, 0, 0, 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = dial(&r, "tcp");
        say(fds[i], "hello\n");
        expect(fds[i], "hello\n");
        usleep(20000); /* so that they differ in age: the loop's clock has milliseconds */
    }
    say(fds[0], "again\n");
    expect(fds[0], "again\n");
    int d = dial(&r, "tcp");
    say(d, "d\n");
    expect(d, "d\n");
    expect(fds[1], "crowded\n");
    expect_end(fds[1]);
    assert_int_equal(counts_of(&r, "tcp").crowded, 1);
    assert_int_equal(counts_of(&r, "tcp").refused, 0);
    say(fds[0], "still here\n");
    expect(fds[0], "still here\n");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    close(d);
    stop_server(&r);
}

/* A connection of this loop. The kernel chooses: others are closed. */
static int dial_loop(const struct running *r, char loop)
{
    char where[2] = "";

    for (;;) {
        int fd = dial(r, "tcp");

        say(fd, "where\n");
        assert_int_equal(receive(fd, where, 2, MSG_WAITALL), 2);
        if (where[0] == loop)
            return fd;
        close(fd);
    }
}

#define IDLE 18
#define NEWCOMERS 12

static void a_loop_with_few_connections_lets_those_in_use_stay(void **state)
{
    struct running r;
    int idle[IDLE], newcomers[NEWCOMERS];

    (void)state;
    start_with(&r, (struct rn_server_options){.connections_max = IDLE + 1}, 0, 0, 0);
    int used = dial_loop(&r, '0');
    for (int i = 0; i < IDLE; i++)
        idle[i] = dial_loop(&r, '1');
    usleep(300000); /* they are idle */
    for (int i = 0; i < NEWCOMERS; i++) {
        say(used, "in use\n");
        expect(used, "in use\n");
        newcomers[i] = dial(&r, "tcp"); /* every other one, about, comes to the loop of `used` */
        say(newcomers[i], "hello\n");
        expect(newcomers[i], "hello\n");
    }
    say(used, "still here\n");
    expect(used, "still here\n");
    assert_true(counts_of(&r, "tcp").crowded > 0);
    assert_int_equal(counts_of(&r, "tcp").refused, 0);
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
    for (int i = 0; i < NEWCOMERS; i++)
        close(newcomers[i]);
    close(used);
    stop_server(&r);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}

/* True: the machine was quick enough to show it. */
static bool keep_a_newcomer(void)
{
    struct running r;
    bool quick;

    start_with(&r, (struct rn_server_options){.workers = 1, .connections_max = 1}, 0, 0, 0);
    int64_t start_ns = now_ns();
    int a = dial(&r, "tcp");
    wait_for(counts_of(&r, "tcp").open == 1);
    int b = dial(&r, "tcp");
    usleep(2000); /* in which the server could make room */
    say(a, "a\nstop 60000\n");
    quick = now_ns() - start_ns < 9 * MS;
    if (quick) {
        expect(a, "a\n");
        expect_end(b);
        assert_int_equal(counts_of(&r, "tcp").crowded, 0);
    }
    close(a);
    close(b);
    stop_server(&r);
    return quick;
}

/* Its first message is on the way. */
static void a_connection_that_has_just_come_stays(void **state)
{
    int tries = 0;

    (void)state;
    while (!keep_a_newcomer())
        if (++tries == 50)
            skip();
}

static void a_connection_that_never_sends_makes_room(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){.workers = 1, .connections_max = 1}, 0, 0, 0);
    int a = dial(&r, "tcp");
    wait_for(counts_of(&r, "tcp").open == 1);
    for (unsigned came = 1; counts_of(&r, "tcp").crowded == 0; came++) {
        int b = dial(&r, "tcp");
        wait_for(counts_of(&r, "tcp").refused + counts_of(&r, "tcp").crowded == came);
        close(b);
    }
    expect(a, "crowded\n");
    expect_end(a);
    close(a);
    stop_server(&r);
}

static void a_large_unfinished_message_goes_when_there_are_too_many(void **state)
{
    struct running r;
    char text[3000];
    int fds[4];

    (void)state;
    memset(text, 'x', sizeof text);
    start_with(&r, (struct rn_server_options){.workers = 1, .input_max = 8000}, 0, 0, 0);
    int small = dial(&r, "tcp");
    say(small, "smal");
    for (int i = 0; i < 4; i++) {
        fds[i] = dial(&r, "tcp");
        say_bytes(fds[i], text, sizeof text);
    }
    wait_for(counts_of(&r, "tcp").swamped >= 1);
    wait_for(rn_server_unfinished(r.server) <= 8000);
    say(small, "l\n");
    expect(small, "small\n");
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(small);
    wait_for(counts_of(&r, "tcp").open == 0);
    assert_int_equal(rn_server_unfinished(r.server), 0);
    stop_server(&r);
}

/* The large ones belong to a loop that is busy. */
static void a_small_unfinished_message_stays_until_all_loops_have_looked(void **state)
{
    struct running r;
    char text[3900];
    int large[2], at_once = 1;

    (void)state;
    memset(text, 'x', sizeof text);
    start_with(&r, (struct rn_server_options){.workers = 2, .input_max = 8000}, 0, 0, 0);
    int busy = dial_loop(&r, '1'), small = dial_loop(&r, '0');
    assert_int_equal(setsockopt(small, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), 0);
    for (int i = 0; i < 2; i++) {
        large[i] = dial_loop(&r, '1');
        say_bytes(large[i], text, sizeof text);
    }
    wait_for(rn_server_unfinished(r.server) == 7800);
    say(busy, "sleep 60\n");
    say_bytes(small, text, 300);
    wait_for(rn_server_unfinished(r.server) != 7800); /* too much: the other loop is asked */
    say_bytes(small, text, 300);
    wait_for(counts_of(&r, "tcp").swamped >= 1);
    say(small, "\n");
    for (int i = 0; i < 600; i++)
        expect(small, "x");
    expect(small, "\n");
    wait_for(rn_server_unfinished(r.server) <= 8000);
    for (int i = 0; i < 2; i++)
        close(large[i]);
    close(small);
    close(busy);
    stop_server(&r);
}

static void one_address_cannot_take_all_connections(void **state)
{
    struct running r;

    (void)state;
    start_with(&r, (struct rn_server_options){.per_address_max = 1}, 0, 0, 0);
    int a = dial(&r, "tcp");
    say(a, "a\n");
    expect(a, "a\n");
    int b = dial(&r, "tcp");
    expect_end(b);
    assert_int_equal(counts_of(&r, "tcp").refused, 1);
    close(a);
    close(b);
    stop_server(&r);
}

static int64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}

enum { CLIENTS = 12, PLACES = 3 };

/* Room for `more` file descriptors than are open. */
static void leave_files(int more)
{
    struct rlimit files;
    int next = open("/dev/null", O_RDONLY);

    close(next);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = (rlim_t)(next + more);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void without_file_descriptors_accepting_waits(void **state)
{
    struct running r;
    struct rn_address to;
    struct rlimit before;
    int fds[CLIENTS], served = 0;

    (void)state;
    getrlimit(RLIMIT_NOFILE, &before);
    start_with(&r, (struct rn_server_options){0}, 0, 0, 0);
    assert_int_equal(rn_address_parse(rn_server_address(r.server, "tcp"), &to, NULL), 0);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    leave_files(PLACES);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(connect(fds[i], &to.to.any, to.len), 0);
        say(fds[i], "hello\nstop 60000\n"); /* it is owed an answer, and so not closed for others */
        if (i < PLACES)
            expect(fds[i], "hello\n");
    }
    wait_for(counts_of(&r, "tcp").open == PLACES);
    int64_t cpu = cpu_ns();
    usleep(400000);
    assert_true(cpu_ns() - cpu < 200 * MS); /* it does not spin */
    assert_int_equal(counts_of(&r, "tcp").open, PLACES);
    while (served < CLIENTS) /* clients that leave make room for others */
        for (int i = 0; i < CLIENTS; i++) {
            struct pollfd poll_fd = {.fd = fds[i], .events = POLLIN};
            if (fds[i] < 0 || (i >= PLACES && poll(&poll_fd, 1, 1) != 1))
                continue;
            if (i >= PLACES)
                expect(fds[i], "hello\n");
            shutdown(fds[i], SHUT_RDWR); /* the number stays taken */
            served++;
            fds[i] = -fds[i];
        }
    assert_int_equal(counts_of(&r, "tcp").crowded, 0);
    setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < CLIENTS; i++)
        close(-fds[i]);
    stop_server(&r);
}

enum { CROWD = 2000 };

/* Other C libraries do not count: nothing is checked there. */
static size_t allocated(void)
{
#ifdef __GLIBC__
    return mallinfo2().uordblks + mallinfo2().hblkhd;
#else
    return 0;
#endif
}

/* Under sanitizers allocations are not counted, and nothing is checked here. */
static void an_idle_connection_costs_little_memory(void **state)
{
    struct running r;
    struct rlimit files, before;
    static int fds[CROWD];

    (void)state;
    getrlimit(RLIMIT_NOFILE, &before);
    files = before;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * CROWD + 100)
        skip();
    start_with(&r, (struct rn_server_options){0}, 60000, 60000, 0);
    size_t start = allocated();
    for (int i = 0; i < CROWD; i++) {
        fds[i] = dial(&r, "tcp");
        say(fds[i], "partial");
    }
    wait_for(counts_of(&r, "tcp").bytes_in == 7 * CROWD);
    size_t talking = allocated();
    for (int i = 0; i < CROWD; i++) {
        say(fds[i], " line\n");
        expect(fds[i], "partial line\n");
    }
    size_t idle = allocated();
    printf("# bytes of a connection: idle %zu, with a partial message %zu\n",
           (idle - start) / CROWD, (talking - start) / CROWD);
    assert_true(idle - start < CROWD * (size_t)4096);
    assert_true(talking - start < CROWD * (size_t)4096);
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    stop_server(&r);
    setrlimit(RLIMIT_NOFILE, &before);
}

static void idle_connections_use_no_processor(void **state)
{
    struct running r;
    int fds[50];

    (void)state;
    start_with(&r, (struct rn_server_options){0}, 60000, 60000, 0);
    for (int i = 0; i < 50; i++) {
        fds[i] = dial(&r, "tcp");
        say(fds[i], "hello\n");
        expect(fds[i], "hello\n");
    }
    int64_t cpu = cpu_ns();
    usleep(500000);
    assert_true(cpu_ns() - cpu < 50 * MS);
    for (int i = 0; i < 50; i++)
        close(fds[i]);
    stop_server(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_connection_is_closed),
        cmocka_unit_test(a_connection_that_sends_now_and_then_stays_open),
        cmocka_unit_test(a_slow_message_is_cut),
        cmocka_unit_test(a_paused_connection_does_not_time_out),
        cmocka_unit_test(a_message_without_end_is_cut),
        cmocka_unit_test(the_last_reply_arrives_although_the_peer_still_sends),
        cmocka_unit_test(input_of_a_peer_that_does_not_read_waits),
        cmocka_unit_test(a_peer_that_reads_nothing_for_too_long_is_cut),
        cmocka_unit_test(output_has_a_hard_limit),
        cmocka_unit_test(a_large_answer_reaches_a_peer_that_reads),
        cmocka_unit_test(connections_beyond_the_cap_are_refused),
        cmocka_unit_test(the_quietest_connection_makes_room),
        cmocka_unit_test(a_loop_with_few_connections_lets_those_in_use_stay),
        cmocka_unit_test(a_connection_that_has_just_come_stays),
        cmocka_unit_test(a_connection_that_never_sends_makes_room),
        cmocka_unit_test(a_large_unfinished_message_goes_when_there_are_too_many),
        cmocka_unit_test(a_small_unfinished_message_stays_until_all_loops_have_looked),
        cmocka_unit_test(one_address_cannot_take_all_connections),
        cmocka_unit_test(without_file_descriptors_accepting_waits),
        cmocka_unit_test(an_idle_connection_costs_little_memory),
        cmocka_unit_test(idle_connections_use_no_processor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
