/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a process, its boot-time clock and its wall clock stand still
 * at what the file STILLCLOCK says: boot time, wall time. The monotonic clock goes
 * on: it is what event loops wait by.
 */
#include <sys/syscall.h>

#include "clock_file.h"
#include "wall_calls.h"

static const int64_t *clocks; /* boot time, wall time */

__attribute__((constructor)) static void find_file(void)
{
    clocks = map_clock_file("STILLCLOCK", 2);
}

static int still(int which, struct timespec *t)
{
    int64_t ns = __atomic_load_n(&clocks[which], __ATOMIC_SEQ_CST);

    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return 0;
}

SHOWN int clock_gettime(clockid_t id, struct timespec *t)
{
    if (clocks && id == CLOCK_BOOTTIME)
        return still(0, t);
    if (clocks && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        return still(1, t);
    return (int)syscall(SYS_clock_gettime, id, t);
}
