/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a process, makes it slow to hear: whatever has come by a socket is handed
 * over SLOWRECV milliseconds later. So what a loop does about it, it does long after its
 * round began.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_ms(long ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0)
        ;
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *to, size_t len, int flags)
{
    const char *text = getenv("SLOWRECV");
    ssize_t n = syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);

    if (n > 0 && text)
        wait_ms(strtol(text, NULL, 10));
    return n;
}
