/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that put a clock_gettime of their own in the place of libc's: the
 * other ways to ask for the wall clock then go by it, too. */
#ifndef WALL_CALLS_H
#define WALL_CALLS_H

#include <sys/time.h>
#include <time.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

SHOWN time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

#endif
