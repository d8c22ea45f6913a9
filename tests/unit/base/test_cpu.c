/* SPDX-License-Identifier: Apache-2.0 */
/* The share of processors in use, read from made-up trees of /proc and /sys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cpu.h"

#define SECOND INT64_C(1000000000)

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/ration-cpu-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Writes root/path, with its folders. */
static void put(const char *path, const char *text)
{
    char whole[512];
    FILE *file;

    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct rn_cpu_reading reading_at(int64_t second)
{
    struct rn_cpu_reading reading;

    assert_true(rn_cpu_read(root, second * SECOND, &reading));
    return reading;
}

static void put_stat(unsigned busy, unsigned idle)
{
    char text[256];

    snprintf(text, sizeof text,
             "cpu  %u 0 0 %u 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\n"
             "intr 1 2 3\n",
             busy, idle);
    put("/proc/stat", text);
}

static void without_a_quota_the_machine_counts(void **state)
{
    (void)state;
    put_stat(1000, 9000);
    put("/proc/self/cgroup", "0::/user.slice\n");
    put("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    struct rn_cpu_reading before = reading_at(1);

    put_stat(1150, 9050);
    struct rn_cpu_reading after = reading_at(2);

    assert_false(after.of_cgroup);
    assert_int_equal(rn_cpu_share(&before, &after), 750000);
    assert_int_equal(rn_cpu_share(&after, &after), -1);
    assert_int_equal(rn_cpu_share(&after, &before), -1);
}

static void waiting_for_disks_is_not_busy(void **state)
{
    (void)state;
    put("/proc/stat", "cpu  10 10 10 100 100 5 5 0 7 7\n");
    struct rn_cpu_reading before = reading_at(1);

    put("/proc/stat", "cpu  20 20 20 120 150 5 5 0 99 99\n");
    struct rn_cpu_reading after = reading_at(2);

    assert_int_equal(rn_cpu_share(&before, &after), 300000);
}

static void a_quota_of_version_2_counts_in_place_of_the_machine(void **state)
{
    (void)state;
    put_stat(1000, 9000);
    put("/proc/self/cgroup", "0::/shop/web\n");
    put("/sys/fs/cgroup/shop/web/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/shop/web/cpu.stat", "usage_usec 1000000\nuser_usec 7\n");
    struct rn_cpu_reading before = reading_at(1);

    put("/sys/fs/cgroup/shop/web/cpu.stat", "usage_usec 1400000\nuser_usec 7\n");
    struct rn_cpu_reading after = reading_at(2);

    assert_true(after.of_cgroup);
    assert_int_equal(rn_cpu_share(&before, &after), 800000);
}

static void the_quota_of_a_group_above_counts(void **state)
{
    (void)state;
    put_stat(1000, 9000);
    put("/proc/self/cgroup", "0::/shop/web/worker/\n");
    put("/sys/fs/cgroup/shop/web/worker/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/shop/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/shop/cpu.stat", "usage_usec 0\n");
    put("/sys/fs/cgroup/shop/web/cpu.max", "max 100000\n");
    struct rn_cpu_reading before = reading_at(1);

    put("/sys/fs/cgroup/shop/cpu.stat", "usage_usec 250000\n");
    struct rn_cpu_reading after = reading_at(2);

    assert_int_equal(rn_cpu_share(&before, &after), 250000);
}

static void a_quota_of_version_1_counts(void **state)
{
    (void)state;
    put_stat(1000, 9000);
    put("/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "25000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpuacct.usage", "5000000000\n");
    struct rn_cpu_reading before = reading_at(10);

    put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpuacct.usage", "5500000000\n");
    struct rn_cpu_reading after = reading_at(14);

    assert_true(after.of_cgroup);
    assert_int_equal(rn_cpu_share(&before, &after), 500000);
}

static void version_1_in_a_container_sees_its_own_group_as_the_root(void **state)
{
    (void)state;
    put_stat(1000, 9000);
    put("/proc/self/cgroup", "4:cpu:/docker/0123\n3:cpuacct:/docker/0123\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/cpuacct.usage", "0\n");
    struct rn_cpu_reading before = reading_at(0);

    put("/sys/fs/cgroup/cpu/cpuacct.usage", "2000000000\n");
    struct rn_cpu_reading after = reading_at(1);

    assert_int_equal(rn_cpu_share(&before, &after), 1000000); /* never more than all */
}

static void a_quota_larger_than_the_machine_is_none(void **state)
{
    (void)state;
    put_stat(1000, 9000);
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "800000 100000\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 0\n");
    assert_false(reading_at(1).of_cgroup);
}

static void garbage_and_missing_files_are_no_reading(void **state)
{
    static const char *const texts[] = {"", "cpu\n", "cpu a b c d\n", "cpu  1 2\n",
                                        "zzz 1 2 3 4\n"};
    struct rn_cpu_reading reading;

    (void)state;
    assert_false(rn_cpu_read(root, 0, &reading));
    put("/proc/self/cgroup", "::::\n0\n0:\n0::\n:,,,:\n4:cpu:\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("/proc/stat", texts[i]);
        assert_false(rn_cpu_read(root, 0, &reading));
    }
    put_stat(1, 1);
    put("/proc/self/cgroup", "0::/x\n");
    put("/sys/fs/cgroup/x/cpu.max", "-5 0\n");
    put("/sys/fs/cgroup/x/cpu.stat", "usage_usec x\n");
    assert_true(rn_cpu_read(root, 0, &reading) && !reading.of_cgroup);
}

static void this_machine_can_be_read(void **state)
{
    struct rn_cpu_reading reading;

    (void)state;
    assert_true(rn_cpu_read("", SECOND, &reading));
    assert_true(reading.total > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_quota_the_machine_counts),
        TEST(waiting_for_disks_is_not_busy),
        TEST(a_quota_of_version_2_counts_in_place_of_the_machine),
        TEST(the_quota_of_a_group_above_counts),
        TEST(a_quota_of_version_1_counts),
        TEST(version_1_in_a_container_sees_its_own_group_as_the_root),
        TEST(a_quota_larger_than_the_machine_is_none),
        TEST(garbage_and_missing_files_are_no_reading),
        TEST(this_machine_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
