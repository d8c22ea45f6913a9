/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a line against a plain sorted list. */
#include "fixture.h"

#include "limiter/line/order.h"
#include "model/random.h"

#define MOST 200
#define STEPS 40000

static struct rn_waiter waiters[MOST];
static struct rn_waiter *sorted[MOST];
static unsigned count;

static void insert_sorted(struct rn_waiter *w)
{
    unsigned at = count++;

    for (; at > 0 && !rn_order_is_before(sorted[at - 1], w->rank, w->arrival); at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = w;
}

static void remove_sorted(unsigned at)
{
    for (count--; at < count; at++)
        sorted[at] = sorted[at + 1];
}

/* Depth is a matter of luck, but not of bad luck. */
static unsigned depth_of(const struct rn_waiter *w)
{
    if (!w)
        return 0;
    unsigned left = depth_of(w->left), right = depth_of(w->right);

    return 1 + (left > right ? left : right);
}

static void compare(struct rn_waiter *root, const struct rn_estimate *estimate)
{
    struct rn_waiter *standing = NULL, *late = NULL;
    uint64_t units = 0;

    assert_ptr_equal(rn_order_first(root), count ? sorted[0] : NULL);
    assert_ptr_equal(rn_order_last(root), count ? sorted[count - 1] : NULL);
    assert_int_equal(root ? root->count : 0, count);
    for (unsigned i = 0; i < count; i++) {
        struct rn_waiter *w = sorted[i];
        struct rn_order_ahead ahead = rn_order_ahead(root, w->rank, w->arrival);

        assert_int_equal(ahead.count, i);
        assert_int_equal(ahead.units, units);
        units += w->units;
        standing = standing == NULL && w->state == RN_WAITER_STANDS ? w : standing;
        if (!late && w->state == RN_WAITER_STANDS && rn_estimate_at(estimate, units) > w->until_ns)
            late = w;
        assert_ptr_equal(rn_order_next(root, w), i + 1 < count ? sorted[i + 1] : NULL);
    }
    assert_ptr_equal(rn_order_first_standing(root), standing);
    assert_ptr_equal(rn_order_find_late(root, estimate), late);
    assert_int_equal(root ? root->sum : 0, units);
    assert_true(depth_of(root) <= 40);
}

static void an_order_is_that_of_a_sorted_list(void **state)
{
    struct rn_waiter *root = NULL;
    uint64_t arrival = 0;

    (void)state;
    random_init();
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned what = (unsigned)(random_next() % 8), at = 0;
        unsigned few = step / 2000 % 2 ? MOST : 8;

        if (count)
            at = (unsigned)(random_next() % count);
        if (what < 4 && count < few) {
            struct rn_waiter *w = waiters;

            while (w->line)
                w++;
            *w = (struct rn_waiter){.line = (struct rn_line *)(void *)w,
                                    .arrival = ++arrival,
                                    .rank = (uint32_t)(random_next() % 3),
                                    .units = random_next() % 5,
                                    .until_ns = (int64_t)(random_next() % 1000),
                                    .state = RN_WAITER_STANDS};
            rn_order_insert(&root, w);
            insert_sorted(w);
        } else if (what < 6 && count) {
            rn_order_remove(&root, sorted[at]);
            sorted[at]->line = NULL;
            remove_sorted(at);
        } else if (count) {
            sorted[at]->state = what == 6 ? RN_WAITER_TURN : RN_WAITER_STANDS;
            sorted[at]->until_ns = (int64_t)(random_next() % 1000);
            rn_order_update(root, sorted[at]);
        }
        struct rn_estimate estimate = {.at_ns = (int64_t)(random_next() % 500),
                                       .refill_ns = 500,
                                       .room = random_next() % 50,
                                       .amount = 3,
                                       .period_ns = 10,
                                       .whole = step % 2};

        if (count < 20 || step % 16 == 0)
            compare(root, &estimate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_order_is_that_of_a_sorted_list)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
