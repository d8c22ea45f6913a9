/* SPDX-License-Identifier: Apache-2.0 */
/* The async backend in front of a fake one: what it answers itself, what it passes on and in which
 * order, and that each batch is answered once. Without Redis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/server.h"
#include "redis/async/async.h"

#define MS INT64_C(1000000)
#define HELD 50 /* c, of a limit of 1000 */

/* The store behind: notes what it is asked, and answers at once or when told to. */
struct behind {
    struct rn_backend backend; /* first */
    bool pends;
    size_t calls, charges;
    struct {
        struct rn_charge *batch;
        size_t n;
        rn_backend_done *done;
        void *arg;
    } asked[RN_BACKEND_JOBS];
};

static void answer_all(struct rn_charge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        batch[i].error = 0;
        batch[i].answer = (struct rn_answer){.allowed = true, .remaining = 777};
    }
}

static enum rn_progress begin_behind(struct rn_backend *backend, struct rn_charge *batch, size_t n,
                                     rn_backend_done *done, void *arg)
{
    struct behind *b = (struct behind *)(void *)backend;
    size_t at = b->calls++;

    b->charges += n;
    b->asked[at].batch = batch;
    b->asked[at].n = n;
    b->asked[at].done = done;
    b->asked[at].arg = arg;
    if (b->pends)
        return RN_PENDING;
    answer_all(batch, n);
    return RN_DONE;
}

static const struct rn_backend_ops behind_ops = {.begin = begin_behind};

static void answer_call(struct behind *b, size_t at)
{
    answer_all(b->asked[at].batch, b->asked[at].n);
    b->asked[at].done(b->asked[at].arg, b->asked[at].batch, b->asked[at].n);
}

/* --- a worker that runs a test; it asserts nothing itself, being another thread ---------- */

static struct {
    struct rn_server *server;
    struct rn_timer timer;
    struct rn_redis *redis;
    struct rn_async *async;
    struct behind behind;
    struct rn_limit limit;
    void (*test)(void);
    int wrong_line; /* of the first expectation that was not met */
    size_t done;    /* calls of done */
} run;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition) && run.wrong_line == 0)                                                   \
            run.wrong_line = __LINE__;                                                             \
    } while (0)

static void on_done(void *arg, struct rn_charge *batch, size_t n)
{
    (void)arg, (void)batch, (void)n;
    run.done++;
}

static void begin_test(struct rn_timer *timer)
{
    (void)timer;
    run.test();
    rn_server_stop(run.server);
}

static void worker_begins(void *arg, struct rn_loop *loop)
{
    static struct rn_url url;
    struct ration_error error;

    (void)arg;
    rn_backend_init(&run.behind.backend, &behind_ops);
    EXPECT(rn_url_parse("redis+unix:///nonexistent/redis.sock", &url, &error) == 0);
    EXPECT(rn_redis_new(loop, &url, 0, &run.redis, &error) == 0);
    EXPECT(rn_async_new(loop, run.redis, &run.behind.backend, &(struct rn_async_options){0},
                        &run.async, &error) == 0);
    run.timer.fire = begin_test;
    /* By then the worker has settled, and takes up keys as if nothing were spent. */
    rn_timer_set(rn_loop_wheel(loop), &run.timer, rn_wheel_now(rn_loop_wheel(loop)) + 5 * MS);
}

static void worker_ends(void *arg, struct rn_loop *loop)
{
    (void)arg, (void)loop;
    rn_async_stop(run.async);
    rn_redis_free(run.redis);
    rn_async_free(run.async);
}

static void run_in_worker(void (*test)(void))
{
    struct rn_server_calls calls = {.worker_begins = worker_begins, .worker_ends = worker_ends};
    struct ration_error error;

    memset(&run, 0, sizeof run);
    run.test = test;
    rn_limit_init(
        &run.limit,
        &(struct ration_limit){.algorithm = RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = MS});
    assert_int_equal(rn_server_new(&(struct rn_server_options){.workers = 1}, &run.server, &error),
                     0);
    assert_int_equal(rn_server_run(run.server, &calls, &error), 0);
    rn_server_free(run.server);
    assert_int_equal(run.wrong_line, 0);
}

/* --- what is asked ---------------------------------------------------------------------- */

static struct rn_charge own(uint64_t key, enum rn_op op, uint64_t cost)
{
    return (struct rn_charge){.limit = &run.limit,
                              .key = key,
                              .flags = RN_CHARGE_ASYNC,
                              .ask = {.op = op, .cost = cost, .now_ns = 1000}};
}

static struct rn_charge strict(uint64_t key)
{
    struct rn_charge charge = own(key, RN_TAKE, 1);

    charge.flags = 0;
    return charge;
}

static enum rn_progress ask(struct rn_charge *batch, size_t n)
{
    return rn_backend_begin(rn_async_backend(run.async), batch, n, on_done, NULL);
}

static void until_as_much_is_held_as_may_be(void)
{
    for (int i = 0; i < HELD + 5; i++) {
        struct rn_charge take = own(1, RN_TAKE, 1);

        EXPECT(ask(&take, 1) == RN_DONE);
        EXPECT(take.error == 0 && take.answer.allowed);
        EXPECT((take.answer.remaining == 777) == (i >= HELD));
    }
    EXPECT(run.behind.calls == 5);
    EXPECT(rn_async_counts(run.async)->decided == HELD);
    EXPECT(rn_async_counts(run.async)->passed == 5);
    EXPECT(rn_async_counts(run.async)->unreported == HELD);
}

static void with_more_nodes_each_holds_less(void)
{
    rn_async_set_nodes(run.async, 10);
    for (int i = 0; i < 6; i++) {
        struct rn_charge take = own(1, RN_TAKE, 1);

        EXPECT(ask(&take, 1) == RN_DONE);
    }
    EXPECT(rn_async_counts(run.async)->decided == 5);
}

static void a_mixed_batch_is_passed_on_in_stretches_and_done_once(void)
{
    struct rn_charge batch[] = {strict(1), strict(2), own(3, RN_TAKE, 1), strict(4),
                                own(5, RN_PEEK, 1)};

    run.behind.pends = true;
    EXPECT(ask(batch, 5) == RN_PENDING);
    EXPECT(run.behind.calls == 2 && run.behind.asked[0].n == 2 && run.behind.asked[1].n == 1);
    EXPECT(batch[2].error == 0 && batch[4].error == 0);
    answer_call(&run.behind, 1);
    EXPECT(run.done == 0);
    answer_call(&run.behind, 0);
    EXPECT(run.done == 1);
    EXPECT(batch[0].answer.remaining == 777 && batch[2].answer.remaining == 999);
}

static void a_mixed_batch_that_is_answered_at_once_is_done_at_once(void)
{
    struct rn_charge batch[] = {strict(1), own(3, RN_TAKE, 1), strict(4)};

    EXPECT(ask(batch, 3) == RN_DONE);
    EXPECT(run.done == 0);
    EXPECT(batch[0].error == 0 && batch[1].error == 0 && batch[2].error == 0);
}

static void charges_of_one_key_keep_their_order(void)
{
    struct rn_charge batch[] = {own(1, RN_TAKE, HELD + 1), own(2, RN_TAKE, 1), own(1, RN_PEEK, 1),
                                own(1, RN_TAKE, 1)};

    EXPECT(ask(batch, 4) == RN_DONE);
    EXPECT(run.behind.charges == 3);
    EXPECT(batch[1].answer.remaining == 999 && batch[3].answer.remaining == 777);
}

static void what_is_not_ours_goes_as_it_is(void)
{
    struct rn_charge batch[] = {strict(1), strict(2)};

    run.behind.pends = true;
    EXPECT(ask(batch, 2) == RN_PENDING);
    EXPECT(run.behind.asked[0].batch == batch && run.behind.asked[0].n == 2);
    EXPECT(run.behind.asked[0].done == on_done);
}

static void a_reset_is_passed_on_and_then_nothing_is_believed(void)
{
    struct rn_charge take = own(1, RN_TAKE, 1), reset = own(1, RN_RESET, 0);

    EXPECT(ask(&take, 1) == RN_DONE && run.behind.calls == 0);
    EXPECT(ask(&reset, 1) == RN_DONE && run.behind.calls == 1);
    EXPECT(ask(&take, 1) == RN_DONE && run.behind.calls == 2);
}

static void one_batch_too_many_is_turned_away(void)
{
    static struct rn_charge batch[RN_BACKEND_JOBS + 1];

    run.behind.pends = true;
    for (size_t i = 0; i < RN_BACKEND_JOBS; i++) {
        batch[i] = own(1, RN_TAKE, HELD + 1);
        EXPECT(ask(&batch[i], 1) == RN_PENDING);
    }
    batch[RN_BACKEND_JOBS] = own(1, RN_TAKE, HELD + 1);
    EXPECT(ask(&batch[RN_BACKEND_JOBS], 1) == RN_DONE);
    EXPECT(batch[RN_BACKEND_JOBS].error == RATION_ESTORE);
    for (size_t i = 0; i < RN_BACKEND_JOBS; i++)
        answer_call(&run.behind, i);
    EXPECT(run.done == RN_BACKEND_JOBS);
}

static void another_amount_is_learnt_anew(void)
{
    struct rn_charge take = own(1, RN_TAKE, 1), after = take;
    struct rn_limit larger = run.limit;

    larger.amount = larger.cap = 2000;
    after.limit = &larger;
    EXPECT(ask(&take, 1) == RN_DONE && run.behind.calls == 0);
    EXPECT(ask(&after, 1) == RN_DONE && run.behind.calls == 1);
}

static void after_the_stop_everything_is_passed_on(void)
{
    struct rn_charge take = own(1, RN_TAKE, 1);

    rn_async_stop(run.async);
    EXPECT(ask(&take, 1) == RN_DONE && run.behind.calls == 1);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        run_in_worker(name);                                                                       \
    }
TEST(until_as_much_is_held_as_may_be)
TEST(with_more_nodes_each_holds_less)
TEST(a_mixed_batch_is_passed_on_in_stretches_and_done_once)
TEST(a_mixed_batch_that_is_answered_at_once_is_done_at_once)
TEST(charges_of_one_key_keep_their_order)
TEST(what_is_not_ours_goes_as_it_is)
TEST(a_reset_is_passed_on_and_then_nothing_is_believed)
TEST(one_batch_too_many_is_turned_away)
TEST(another_amount_is_learnt_anew)
TEST(after_the_stop_everything_is_passed_on)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_until_as_much_is_held_as_may_be),
        cmocka_unit_test(test_with_more_nodes_each_holds_less),
        cmocka_unit_test(test_a_mixed_batch_is_passed_on_in_stretches_and_done_once),
        cmocka_unit_test(test_a_mixed_batch_that_is_answered_at_once_is_done_at_once),
        cmocka_unit_test(test_charges_of_one_key_keep_their_order),
        cmocka_unit_test(test_what_is_not_ours_goes_as_it_is),
        cmocka_unit_test(test_a_reset_is_passed_on_and_then_nothing_is_believed),
        cmocka_unit_test(test_one_batch_too_many_is_turned_away),
        cmocka_unit_test(test_another_amount_is_learnt_anew),
        cmocka_unit_test(test_after_the_stop_everything_is_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
