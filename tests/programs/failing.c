/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preload that makes one call fail: the FAIL_AT-th of those below that the
 * program makes after it has called failing_arm(). Afterwards failing_fired()
 * tells whether it came to that.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static long left; /* calls until the one that fails; 0: not armed, or done */
static bool fired;

void failing_arm(void);
bool failing_fired(void);

void failing_arm(void)
{
    const char *at = getenv("FAIL_AT");

    left = at ? strtol(at, NULL, 10) : 0;
}

bool failing_fired(void)
{
    return fired;
}

static bool fails(void)
{
    if (left == 0 || --left != 0)
        return false;
    fired = true;
    return true;
}

/* Defines a function that fails with `error` and `result`, or calls the real one. */
#define FAILING(type, name, parameters, arguments, error, result)                                  \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
                                                                                                   \
        if (!real)                                                                                 \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        if (fails()) {                                                                             \
            errno = (error);                                                                       \
            return result;                                                                         \
        }                                                                                          \
        return real arguments;                                                                     \
    }

FAILING(void *, malloc, (size_t n), (n), ENOMEM, NULL)
FAILING(void *, aligned_alloc, (size_t a, size_t n), (a, n), ENOMEM, NULL)
FAILING(void *, mmap, (void *at, size_t n, int p, int f, int fd, off_t o), (at, n, p, f, fd, o),
        ENOMEM, MAP_FAILED)
FAILING(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n), ENOSPC, ENOSPC)
FAILING(int, flock, (int fd, int how), (fd, how), EINTR, -1)
FAILING(int, renameat2, (int a, const char *from, int b, const char *to, unsigned how),
        (a, from, b, to, how), EINVAL, -1)
FAILING(int, link, (const char *from, const char *to), (from, to), EACCES, -1)
FAILING(int, rename, (const char *from, const char *to), (from, to), EACCES, -1)
FAILING(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), EIO, -1)
FAILING(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags), ENOSYS, -1)

/* dlsym may allocate before there is a real calloc to ask. */
void *calloc(size_t count, size_t size)
{
    static void *(*real)(size_t, size_t);
    static bool looking;
    static char early[4096];

    if (!real && !looking) {
        looking = true;
        *(void **)&real = dlsym(RTLD_NEXT, "calloc");
        looking = false;
    }
    if (!real)
        return count * size <= sizeof early ? early : NULL;
    if (fails()) {
        errno = ENOMEM;
        return NULL;
    }
    return real(count, size);
}

int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    va_list more;
    mode_t mode = 0;

    if (flags & O_CREAT) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "open");
    if (fails()) {
        errno = EMFILE;
        return -1;
    }
    return real(path, flags, mode);
}
