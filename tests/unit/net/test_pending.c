/* SPDX-License-Identifier: Apache-2.0 */
/* A protocol that is not done with what it was given when it returns: it answers each
 * line by a timer, from where the line was. */
#include "echo.h"

#define LATER_NS (20 * MS)

struct slow {
    struct rn_timer timer; /* first */
    struct rn_conn *conn;
    const char *data;
    size_t len;
    bool waiting;
};

/* Everything that has come must still be there. */
static void answer_line(struct rn_timer *timer)
{
    struct slow *slow = (struct slow *)timer;
    const char *end = memchr(slow->data, '\n', slow->len);
    size_t used = (size_t)(end + 1 - slow->data);

    slow->waiting = false;
    rn_buf_put(rn_conn_out(slow->conn), slow->data, used);
    rn_conn_consumed(slow->conn, used);
    rn_conn_resume(slow->conn);
    rn_conn_unref(slow->conn);
}

static void go_on_early(struct rn_timer *timer)
{
    struct slow *slow = (struct slow *)timer;
    struct rn_wheel *wheel = rn_conn_wheel(slow->conn);

    rn_conn_resume(slow->conn);
    slow->timer.fire = answer_line;
    rn_timer_set(wheel, &slow->timer, rn_wheel_now(wheel) + LATER_NS);
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    struct echo_seen *seen = rn_conn_context(conn);
    struct slow *slow = rn_conn_state(conn);
    struct rn_wheel *wheel = rn_conn_wheel(conn);

    assert_false(slow->waiting);
    if (!memchr(data, '\n', len))
        return 0;
    seen->received++;
    *slow = (struct slow){
        .timer = {.fire = answer_line}, .conn = conn, .data = data, .len = len, .waiting = true};
    if (strncmp(data, "go on", 5) == 0)
        slow->timer.fire = go_on_early;
    rn_conn_ref(conn);
    rn_conn_pause(conn);
    rn_timer_set(wheel, &slow->timer, rn_wheel_now(wheel) + LATER_NS);
    return RN_CONN_PENDING;
}

static void opened(struct rn_conn *conn)
{
    ((struct echo_seen *)rn_conn_context(conn))->opened++;
}

static void closed(struct rn_conn *conn)
{
    struct echo_seen *seen = rn_conn_context(conn);
    struct slow *slow = rn_conn_state(conn);

    seen->closed_held += slow->waiting;
    seen->closed++;
}

static void start_slow(struct running *r, int64_t drain_ns)
{
    prepare_server(r, (struct rn_server_options){.may_pend = true, .drain_ns = drain_ns});
    r->protocol.state_bytes = sizeof(struct slow);
    r->protocol.opened = opened;
    r->protocol.received = received;
    r->protocol.closed = closed;
    listen_on(r, "tcp", "127.0.0.1:0");
    start_server(r);
}

static void a_line_is_answered_from_where_it_was(void **state)
{
    struct running r;

    (void)state;
    start_slow(&r, 0);
    int fd = dial(&r, "tcp"), other = dial(&r, "tcp");
    say(fd, "one\ntwo\nthr");
    say(other, "another\n");
    expect(other, "another\n");
    expect(fd, "one\ntwo\n");
    say(fd, "ee\n");
    expect(fd, "three\n");
    close(fd);
    close(other);
    stop_server(&r);
    assert_int_equal(r.seen.received, 4);
}

/* More input arrives while the line is pending, and the connection is resumed too early. */
static void pending_input_stays_in_place_despite_a_resume(void **state)
{
    struct running r;

    (void)state;
    start_slow(&r, 0);
    int fd = dial(&r, "tcp");
    say(fd, "go on\n");
    wait_for(r.seen.received == 1);
    for (int i = 0; i < 8; i++)
        say(fd, "and so forth\n");
    expect(fd, "go on\n");
    for (int i = 0; i < 8; i++)
        expect(fd, "and so forth\n");
    close(fd);
    stop_server(&r);
}

static void many_connections_take_turns(void **state)
{
    struct running r;
    int fds[50];

    (void)state;
    start_slow(&r, 0);
    for (int i = 0; i < 50; i++)
        say(fds[i] = dial(&r, "tcp"), "a\nb\nc\n");
    for (int i = 0; i < 50; i++) {
        expect(fds[i], "a\nb\nc\n");
        close(fds[i]);
    }
    stop_server(&r);
}

/* The state that the timer needs must not go with the peer. */
static void a_client_that_leaves_meanwhile_is_closed_afterwards(void **state)
{
    struct running r;

    (void)state;
    start_slow(&r, 0);
    for (int i = 0; i < 20; i++) {
        int fd = dial(&r, "tcp");

        say(fd, "hello\nagain\n");
        wait_for(r.seen.received > i);
        close(fd);
    }
    wait_for(r.seen.closed == 20);
    stop_server(&r);
    assert_int_equal(r.seen.closed_held, 0);
}

static void a_stop_waits_for_pending_input(void **state)
{
    struct running r;

    (void)state;
    start_slow(&r, 0);
    int fd = dial(&r, "tcp");
    say(fd, "last\n");
    wait_for(r.seen.received == 1);
    rn_server_stop(r.server);
    expect(fd, "last\ndraining\n");
    close(fd);
    join_server(&r);
}

/* Two requests to stop: the second does not wait for peers, but for what it must. */
static void a_cut_waits_for_pending_input(void **state)
{
    struct running r;

    (void)state;
    start_slow(&r, 1);
    int fd = dial(&r, "tcp");
    say(fd, "last\n");
    wait_for(r.seen.received == 1);
    stop_server(&r);
    assert_int_equal(r.seen.closed_held, 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_answered_from_where_it_was),
        cmocka_unit_test(pending_input_stays_in_place_despite_a_resume),
        cmocka_unit_test(many_connections_take_turns),
        cmocka_unit_test(a_client_that_leaves_meanwhile_is_closed_afterwards),
        cmocka_unit_test(a_stop_waits_for_pending_input),
        cmocka_unit_test(a_cut_waits_for_pending_input),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
