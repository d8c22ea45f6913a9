/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a process, makes it slow to hear: whatever has come by a socket is handed
 * over SLOWRECV milliseconds later. So what a loop does about it, it does long after its
 * round began.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long slow_ms;

/* At once: nginx leaves its workers without an environment. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("SLOWRECV");

    slow_ms = text ? strtol(text, NULL, 10) : 0;
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *to, size_t len, int flags)
{
    ssize_t n = syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);
    struct timespec left = {slow_ms / 1000, slow_ms % 1000 * 1000000};

    while (n > 0 && nanosleep(&left, &left) != 0)
        ;
    return n;
}
