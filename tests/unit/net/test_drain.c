/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping: idle connections close first, busy ones may finish. */
#include <signal.h>

#include "echo.h"

static void idle_connections_are_notified_and_closed(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fresh = dial(&r, "tcp"), used = dial(&r, "tcp");
    say(used, "hello\n");
    expect(used, "hello\n");
    wait_for(r.seen.opened == 2);
    stop_server(&r);
    expect(fresh, "draining\n");
    expect_end(fresh);
    expect(used, "draining\n");
    expect_end(used);
    close(fresh);
    close(used);
}

static void a_message_in_progress_is_finished(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "first ");
    wait_for(counts_of(&r, "tcp").bytes_in == 6);
    rn_server_stop(r.server);
    wait_for(rn_server_stopping(r.server));
    say(fd, "half\n");
    expect(fd, "first half\ndraining\n");
    expect_end(fd);
    close(fd);
    join_server(&r);
    assert_int_equal(r.stops, 1);
}

static void a_paused_connection_gets_its_answer(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    int fd = dial(&r, "tcp");
    say(fd, "hold 200\n");
    wait_for(r.seen.received == 1);
    stop_server(&r);
    expect(fd, "held\ndraining\n");
    expect_end(fd);
    close(fd);
}

static _Atomic int times_asked;

/* Not before the peer has said something. */
static bool drains_at_the_second_time(struct rn_conn *conn)
{
    if (atomic_fetch_add(&times_asked, 1) > 0)
        return true;
    rn_buf_put_literal(rn_conn_out(conn), "please go\n");
    return false;
}

static void a_protocol_may_delay_the_close(void **state)
{
    struct running r;

    (void)state;
    times_asked = 0;
    prepare_server(&r, (struct rn_server_options){.drain_ns = 3600000 * MS});
    r.protocol.drains = drains_at_the_second_time;
    listen_on(&r, "tcp", "127.0.0.1:0");
    start_server(&r);
    int fd = dial(&r, "tcp");
    wait_for(r.seen.opened == 1);
    rn_server_stop(r.server);
    expect(fd, "please go\n");
    assert_false(r.ended);
    say(fd, "hello\n");
    expect(fd, "hello\ndraining\n");
    expect_end(fd);
    close(fd);
    join_server(&r);
    assert_int_equal(times_asked, 2);
}

static void what_was_sent_before_the_stop_is_answered(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct running r;
        start_echo(&r, (struct rn_server_options){0});
        int fd = dial(&r, "tcp"); /* perhaps not even accepted yet */
        say(fd, "hello\n");
        stop_server(&r);
        expect(fd, "hello\ndraining\n");
        expect_end(fd);
        close(fd);
    }
}

static void no_connection_is_accepted_during_a_drain(void **state)
{
    struct running r;
    int busy, fd = -1;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    busy = dial(&r, "tcp");
    say(busy, "hold 3600000\n");
    wait_for(r.seen.received == 1);
    rn_server_stop(r.server);
    wait_for((fd = try_dial(rn_server_address(r.server, "tcp"))) < 0 || close(fd) != 0);
    close(busy);
    join_server(&r);
}

static void a_drain_ends_at_its_deadline(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){.drain_ns = 50 * MS});
    int held = dial(&r, "tcp"), partial = dial(&r, "tcp");
    say(held, "hold 3600000\n");
    say(partial, "never finis");
    wait_for(counts_of(&r, "tcp").bytes_in == 24);
    stop_server(&r);
    expect_end(held);
    expect_end(partial);
    close(held);
    close(partial);
}

static void a_second_signal_ends_a_drain_at_once(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){.drain_ns = 3600000 * MS});
    int fd = dial(&r, "tcp");
    say(fd, "hold 3600000\n");
    wait_for(r.seen.received == 1);
    kill(getpid(), SIGTERM);
    wait_for(rn_server_stopping(r.server));
    assert_false(r.ended);
    kill(getpid(), SIGINT);
    join_server(&r);
    expect_end(fd);
    close(fd);
}

/* Health checks are to hear that a drain is going on. */
static void the_control_loop_answers_until_the_workers_are_done(void **state)
{
    struct running r;
    struct ration_error error;

    (void)state;
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "tcp", "127.0.0.1:0");
    assert_int_equal(rn_server_listen(r.server, "admin", "127.0.0.1:0", RN_ON_CONTROL, &r.protocol,
                                      &r.seen, &error),
                     0);
    start_server(&r);
    int busy = dial(&r, "tcp");
    say(busy, "hold 3600000\n");
    wait_for(r.seen.received == 1);
    rn_server_stop(r.server);
    wait_for(r.stops == 1);
    int admin = dial(&r, "admin");
    say(admin, "how are you\n");
    expect(admin, "how are you\n");
    close(busy);
    expect(admin, "draining\n");
    expect_end(admin);
    close(admin);
    join_server(&r);
}

static void stopping_twice_is_stopping_once(void **state)
{
    struct running r;

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    rn_server_stop(r.server);
    rn_server_stop(r.server);
    join_server(&r);
    assert_int_equal(r.stops, 1);
}

static void a_stop_before_the_start_is_kept(void **state)
{
    struct running r;

    (void)state;
    prepare_server(&r, (struct rn_server_options){0});
    listen_on(&r, "tcp", "127.0.0.1:0");
    rn_server_stop(r.server);
    start_server(&r);
    join_server(&r);
}

/* Clients that come and go while the server stops: nothing is left behind. */
struct storm {
    char address[64];
    _Atomic bool enough;
};

static void *hammer(void *arg)
{
    struct storm *storm = arg;

    while (!storm->enough) {
        int fd = try_dial(storm->address);
        char answer[32];
        if (fd < 0)
            continue;
        if (deliver(fd, "hello\nhold 1\n", 13, 0) == 13)
            (void)!receive(fd, answer, sizeof answer, 0);
        close(fd);
    }
    return NULL;
}

static void stopping_amid_a_storm_leaves_nothing(void **state)
{
    struct running r;
    struct storm storm = {.enough = false};
    pthread_t threads[4];

    (void)state;
    start_echo(&r, (struct rn_server_options){0});
    snprintf(storm.address, sizeof storm.address, "%s", rn_server_address(r.server, "tcp"));
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, hammer, &storm);
    wait_for(counts_of(&r, "tcp").accepted > 500);
    rn_server_stop(r.server);
    wait_for(r.ended);
    storm.enough = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counts_of(&r, "tcp").open, 0);
    join_server(&r);
}

/* --- a loop that goes on after its end ---------------------------------------------------- */

static struct {
    struct rn_timer timer; /* first */
    bool fired, outlived;
} after;

static void fire(struct rn_timer *timer)
{
    (void)timer;
    after.fired = true;
}

static bool until_the_timer_fires(const void *arg)
{
    (void)arg;
    return !after.fired;
}

static bool always(const void *arg)
{
    (void)arg;
    return true;
}

static void go_on(void *arg, struct rn_loop *loop)
{
    struct rn_wheel *wheel = rn_loop_wheel(loop);

    (void)arg;
    after.timer.fire = fire;
    rn_timer_set(wheel, &after.timer, rn_wheel_now(wheel) + 20 * MS);
    rn_loop_run_while(loop, until_the_timer_fires, NULL, HANG_MS * MS);
    rn_loop_run_while(loop, always, NULL, 20 * MS);
    after.outlived = true;
}

static void a_loop_goes_on_while_it_is_busy_and_no_longer_than_it_may(void **state)
{
    struct running r;

    (void)state;
    memset(&after, 0, sizeof after);
    prepare_server(&r, (struct rn_server_options){.workers = 1});
    r.calls.worker_ends = go_on;
    listen_on(&r, "tcp", "127.0.0.1:0");
    start_server(&r);
    stop_server(&r);
    assert_true(after.fired && after.outlived);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_connections_are_notified_and_closed),
        cmocka_unit_test(a_message_in_progress_is_finished),
        cmocka_unit_test(a_paused_connection_gets_its_answer),
        cmocka_unit_test(a_protocol_may_delay_the_close),
        cmocka_unit_test(what_was_sent_before_the_stop_is_answered),
        cmocka_unit_test(no_connection_is_accepted_during_a_drain),
        cmocka_unit_test(a_drain_ends_at_its_deadline),
        cmocka_unit_test(a_second_signal_ends_a_drain_at_once),
        cmocka_unit_test(the_control_loop_answers_until_the_workers_are_done),
        cmocka_unit_test(stopping_twice_is_stopping_once),
        cmocka_unit_test(a_stop_before_the_start_is_kept),
        cmocka_unit_test(stopping_amid_a_storm_leaves_nothing),
        cmocka_unit_test(a_loop_goes_on_while_it_is_busy_and_no_longer_than_it_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
