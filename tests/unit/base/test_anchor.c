/* SPDX-License-Identifier: Apache-2.0 */
/* The time line of a table, with clocks that the test makes: a read takes a moment, and the
 * process may lose its processor before any of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/anchor.h"

#define MILLISECOND_NS INT64_C(1000000)
#define READ_NS 100
#define NEVER 1000
#define READS 12 /* more than one measurement makes */

static int64_t boot_ns, wall_ns;
static unsigned reads, preempted_before;

/* The library reads its clocks with this function, not with that of the C library. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    int64_t passed_ns = reads++ == preempted_before ? 50 * MILLISECOND_NS : READ_NS;

    boot_ns += passed_ns;
    wall_ns += passed_ns;
    int64_t ns = id == CLOCK_REALTIME ? wall_ns : boot_ns;

    *t = (struct timespec){.tv_sec = ns / RN_SECOND_NS, .tv_nsec = ns % RN_SECOND_NS};
    return 0;
}

static int set_clocks(void **state)
{
    (void)state;
    boot_ns = 5000 * RN_SECOND_NS;
    wall_ns = 1800000000 * RN_SECOND_NS;
    preempted_before = NEVER;
    return 0;
}

static void preempt_before(unsigned read)
{
    reads = 0;
    preempted_before = read;
}

static void pass(int64_t ns)
{
    boot_ns += ns;
    wall_ns += ns;
}

/* The calendar time of the line, less that of the wall clock. */
static int64_t error_of(struct rn_anchor *a)
{
    preempt_before(NEVER);
    int64_t now_ns = rn_anchor_now(a);

    return now_ns + rn_anchor_wall_offset(a, now_ns) - wall_ns;
}

static void assert_exact(struct rn_anchor *a)
{
    assert_in_range(error_of(a) + 10 * READ_NS, 0, 20 * READ_NS);
}

static void a_new_line_agrees_with_the_wall_clock_after_any_pause(void **state)
{
    (void)state;
    for (unsigned read = 0; read < READS; read++) {
        struct rn_anchor a = {.turn = 0};

        preempt_before(read);
        rn_anchor_init(&a);
        assert_exact(&a);
    }
}

static void a_line_resumed_after_a_reboot_agrees_with_the_wall_clock(void **state)
{
    (void)state;
    for (unsigned read = 0; read < READS; read++) {
        struct rn_anchor a = {.turn = 0};

        set_clocks(NULL);
        rn_anchor_init(&a);
        boot_ns = 7 * RN_SECOND_NS;
        wall_ns += 60 * RN_SECOND_NS;
        preempt_before(read);
        assert_int_equal(rn_anchor_resume(&a), RN_RESUMED);
        assert_exact(&a);
    }
}

static void a_pause_while_the_offset_is_measured_does_not_change_it(void **state)
{
    struct rn_anchor a = {.turn = 0};

    (void)state;
    rn_anchor_init(&a);
    int64_t offset_ns = rn_anchor_wall_offset(&a, rn_anchor_now(&a));

    for (unsigned read = 0; read < READS; read++) {
        pass(2 * RN_SECOND_NS);
        preempt_before(read);
        assert_int_equal(rn_anchor_wall_offset(&a, rn_anchor_now(&a)), offset_ns);
    }
}

static void a_wall_clock_that_is_set_forward_is_followed_at_once(void **state)
{
    struct rn_anchor a = {.turn = 0};

    (void)state;
    rn_anchor_init(&a);
    pass(2 * RN_SECOND_NS);
    wall_ns += 3600 * RN_SECOND_NS;
    assert_exact(&a);
}

static void a_wall_clock_that_is_set_back_is_followed_at_half_speed(void **state)
{
    struct rn_anchor a = {.turn = 0};

    (void)state;
    rn_anchor_init(&a);
    wall_ns -= 10 * RN_SECOND_NS;
    for (int64_t left_s = 9; left_s > 0; left_s--) {
        pass(2 * RN_SECOND_NS);
        assert_in_range(error_of(&a) - left_s * RN_SECOND_NS + MILLISECOND_NS, 0,
                        2 * MILLISECOND_NS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_line_agrees_with_the_wall_clock_after_any_pause, set_clocks),
        cmocka_unit_test_setup(a_line_resumed_after_a_reboot_agrees_with_the_wall_clock,
                               set_clocks),
        cmocka_unit_test_setup(a_pause_while_the_offset_is_measured_does_not_change_it, set_clocks),
        cmocka_unit_test_setup(a_wall_clock_that_is_set_forward_is_followed_at_once, set_clocks),
        cmocka_unit_test_setup(a_wall_clock_that_is_set_back_is_followed_at_half_speed, set_clocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
