/* SPDX-License-Identifier: Apache-2.0 */
/* A reply is held from when it was decided, not from when the round of its loop began: that may
 * be a while ago, and here it is. */
#include "unit/net/echo.h"

#include "base/clock.h"
#include "front/await/delayed_reply.h"
#include "front/front.h"

#define ROUND_NS (200 * MS) /* before the decision */
#define HOLD_NS (150 * MS)  /* after it */

struct speaker {
    struct rn_delayed_reply *held;
    int64_t due_ns;
};

static void tell(struct rn_delayed_reply *held)
{
    const struct speaker *speaker = rn_conn_state(held->conn);
    bool early = rn_clock_read_ns(CLOCK_MONOTONIC) < speaker->due_ns;

    rn_buf_put_slice(rn_conn_out(held->conn), early ? RN_SLICE("early\n") : RN_SLICE("later\n"));
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    static const struct rn_decision decided;
    static const struct rn_decision_format telling;
    struct speaker *speaker = rn_conn_state(conn);

    (void)data;
    usleep(ROUND_NS / 1000);
    speaker->due_ns = rn_clock_read_ns(CLOCK_MONOTONIC) + HOLD_NS;
    assert_true(rn_delayed_reply_start(&speaker->held, conn, &decided, HOLD_NS, &telling, tell));
    return len;
}

static void start_speakers(struct running *r, struct rn_front *front)
{
    struct ration_error error = {0};

    prepare_server(r, (struct rn_server_options){.workers = 1});
    r->protocol = (struct rn_protocol){.name = "speaker",
                                       .state_bytes = sizeof(struct speaker),
                                       .message_max = 4096,
                                       .received = received};
    assert_int_equal(rn_server_listen(r->server, "tcp", "127.0.0.1:0", RN_ON_WORKERS, &r->protocol,
                                      front, &error),
                     0);
    start_server(r);
}

static void a_reply_never_leaves_early_however_long_the_round_was(void **state)
{
    struct rn_front front = {0};
    struct running r;

    (void)state;
    start_speakers(&r, &front);
    int fd = dial(&r, "tcp");
    say(fd, "?");
    expect(fd, "later\n");
    close(fd);
    stop_server(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_never_leaves_early_however_long_the_round_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
