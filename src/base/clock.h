/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of the system, in nanoseconds. */
#ifndef RN_BASE_CLOCK_H
#define RN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RN_SECOND_NS INT64_C(1000000000)

static inline int64_t rn_clock_read_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return t.tv_sec * RN_SECOND_NS + t.tv_nsec;
}

static inline int64_t rn_clock_boot_ns(void)
{
    return rn_clock_read_ns(CLOCK_BOOTTIME);
}

static inline int64_t rn_clock_wall_ns(void)
{
    return rn_clock_read_ns(CLOCK_REALTIME);
}

#endif
