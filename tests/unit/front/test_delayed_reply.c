/* SPDX-License-Identifier: Apache-2.0 */
/* The delay of a reply begins at the decision, not when the round of the loop began, which may be
 * a while ago, and is here. */
#include "unit/net/echo.h"

#include "base/clock.h"
#include "front/await/delayed_reply.h"
#include "front/front.h"

#define ROUND_NS (200 * MS) /* before the decision */
#define DELAY_NS (150 * MS) /* after it */

struct delayer {
    struct rn_delayed_reply *delayed;
    int64_t due_ns;
};

static void write_reply(struct rn_delayed_reply *delayed, const struct rn_decision *decision)
{
    const struct delayer *delayer = rn_conn_state(delayed->conn);
    bool early = rn_clock_read_ns(CLOCK_MONOTONIC) < delayer->due_ns;

    assert_int_equal(decision->at_ns, 17);
    rn_buf_put_slice(rn_conn_out(delayed->conn), early ? RN_SLICE("early\n") : RN_SLICE("later\n"));
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    static const struct rn_decision decision = {.at_ns = 17};
    static const struct rn_decision_format format;
    struct delayer *delayer = rn_conn_state(conn);

    (void)data;
    usleep(ROUND_NS / 1000);
    delayer->due_ns = rn_clock_read_ns(CLOCK_MONOTONIC) + DELAY_NS;
    assert_true(
        rn_delayed_reply_start(&delayer->delayed, conn, &decision, DELAY_NS, &format, write_reply));
    return len;
}

static void start_delayers(struct running *r, struct rn_front *front)
{
    struct ration_error error = {0};

    prepare_server(r, (struct rn_server_options){.workers = 1});
    r->protocol = (struct rn_protocol){.name = "delayer",
                                       .state_bytes = sizeof(struct delayer),
                                       .message_max = 4096,
                                       .received = received};
    assert_int_equal(rn_server_listen(r->server, "tcp", "127.0.0.1:0", RN_ON_WORKERS, &r->protocol,
                                      front, &error),
                     0);
    start_server(r);
}

static void a_reply_never_leaves_early_after_a_long_round(void **state)
{
    static struct rn_front_loop loops[2];
    struct rn_front front = {.loops = loops, .loop_count = 2};
    struct running r;

    (void)state;
    start_delayers(&r, &front);
    int fd = dial(&r, "tcp");
    say(fd, "?");
    expect(fd, "later\n");
    close(fd);
    stop_server(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_never_leaves_early_after_a_long_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
