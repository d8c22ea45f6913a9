/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a process, its wall clock is off by what the file STEPCLOCK says. Other
 * clocks are as they are.
 */
#include <sys/syscall.h>

#include "clock_file.h"
#include "wall_calls.h"

static const int64_t *off_ns;

__attribute__((constructor)) static void find_file(void)
{
    off_ns = map_clock_file("STEPCLOCK", 1);
}

SHOWN int clock_gettime(clockid_t id, struct timespec *t)
{
    int result = (int)syscall(SYS_clock_gettime, id, t);

    if (result != 0 || !off_ns || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return result;
    int64_t ns = t->tv_sec * INT64_C(1000000000) + t->tv_nsec;

    ns += __atomic_load_n(off_ns, __ATOMIC_SEQ_CST);
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return 0;
}
